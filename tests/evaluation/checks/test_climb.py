from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import soar
from soar.errors import UserError
from soar.evaluation import Diagnosis
from soar.evaluation.checks import SharedAttacks, climb
from soar.evaluation.checks.climb import ATTACK, LEAST_EXAMPLES, Tasks, attack_tasks, examine, judge
from soar.evaluation.checks.heads import FORWARD, binarize, surface_points
from soar.evaluation.features import find_features
from soar.evaluation.target import Target
from soar.randomness import key
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import SHAPE, images

COUNT = 40


class Change(nn.Module):
    """A function of a tensor as a layer."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(1, 16, 2, 2), nn.Linear(16, 3)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.block(self.patches(x).flatten(2).mT).mean(dim=1))
        return logits


def linear() -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(36, 3)]


def small(act: type[nn.Module] = nn.ReLU, norm: bool = False) -> list[nn.Module]:
    middle: list[nn.Module] = [nn.BatchNorm2d(8)] if norm else []
    return [
        nn.Conv2d(1, 8, 3, padding=1),
        *middle,
        act(),
        nn.Flatten(),
        nn.Linear(288, 32),
        act(),
        nn.Linear(32, 3),
    ]


def thermometer(x: Tensor) -> Tensor:
    return torch.cat([(x > (k + 0.5) / 20).to(x.dtype) for k in range(20)], dim=1)


def stairs(x: Tensor) -> Tensor:
    """Rise in steps, with a gradient that leads down."""
    return (50 * x).round() / 50 - 0.01 * (x - x.detach())


def through_bytes(x: Tensor) -> Tensor:
    """Leave torch on the way, as JPEG does."""
    return torch.from_numpy((50 * x.detach()).round().numpy()) / 50


HONEST: dict[str, Callable[[], list[nn.Module]]] = {
    "linear": linear,
    "cnn": small,
    "batch norm": lambda: small(norm=True),
    "gelu": lambda: small(nn.GELU),
    "tanh": lambda: small(nn.Tanh),
    "transformer": lambda: [Transformer()],
    "convolutional": lambda: [
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 3, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ],
    "logits x 10000": lambda: [*small(), Change(lambda z: 1e4 * z)],
}
HIDING: dict[str, Callable[[], list[nn.Module]]] = {
    "rounded": lambda: [Change(lambda x: (50 * x).round() / 50), *small()],
    "through bytes": lambda: [Change(through_bytes), *small()],
    "detached": lambda: [Change(lambda x: x.detach() + 0 * x), *small()],
    "reversed": lambda: [Change(lambda x: 2 * x.detach() - x), *small()],
    "stairs": lambda: [Change(stairs), *small()],
    "thermometer": lambda: [Change(thermometer), nn.Conv2d(20, 8, 3, padding=1), *small()[1:]],
    "rounded features": lambda: [*small()[:-1], Change(lambda f: (100 * f).round() / 100), small()[-1]],
}


def made(
    layers: list[nn.Module], threat: Threat | None = None, count: int = COUNT, batch_size: int = 128
) -> Target:
    model, x = nn.Sequential(*layers).eval(), images(count)
    with torch.no_grad():
        labels = model(x).argmax(dim=1)
    return Target(model=model, data=(x, labels), threat=threat or Linf("0.05"), batch_size=batch_size)


def built(build: Callable[[], list[nn.Module]]) -> list[nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return build()


def tasks_of(target: Target) -> Tasks:
    features = find_features(target.model, target.x[:2])
    assert features is not None
    return attack_tasks(target, features)


@pytest.mark.parametrize("threat", [Linf("0.05"), L2("0.3")], ids=str)
@pytest.mark.parametrize("name", HONEST)
def test_networks_that_hide_nothing_can_be_climbed(name: str, threat: Threat) -> None:
    found = examine(SharedAttacks(target=made(built(HONEST[name]), threat)))
    assert found.finding == "sound" and not found.advice, found.sentence
    # With more features than pixels a corner may be the only solution, and a kink lie in front of it.
    assert found.numbers["missed"] in (0, 1 / COUNT) and "skipped" not in found.numbers
    assert "finds one on" in found.sentence and str(found.numbers["features"]) in found.sentence
    assert "does not see what follows" in found.sentence


def some_images(x: Tensor) -> Tensor:
    """Fail on no images at all, as a layer that looks at the first one does."""
    assert len(x), "an empty batch"
    return x


@pytest.mark.parametrize("eps", ["0.05", "0.0000001"])
def test_models_that_take_no_empty_batch_are_never_given_one(eps: str) -> None:
    # All tasks are solved in the larger ball, and there are none in the smaller one.
    found = examine(SharedAttacks(target=made([Change(some_images), *built(small)], Linf(eps))))
    assert found.finding == "sound", found.sentence


# A ball that holds adversarial points of all images, so that an attack without gradients finds them quickly.
WIDE, WIDE_L2 = Linf("0.25"), L2("1.5")


@pytest.mark.parametrize(
    ("name", "threat"),
    [*((name, WIDE) for name in HIDING), ("rounded", WIDE_L2), ("reversed", WIDE_L2)],
    ids=str,
)
def test_networks_that_hide_their_gradients_cannot(name: str, threat: Threat) -> None:
    found = examine(SharedAttacks(target=made(built(HIDING[name]), threat, count=20)))
    assert found.finding == "masked", found.sentence
    assert "finds nothing where a solution is known" in found.sentence
    assert found.advice[0] == "straight through"


def test_a_linear_model_s_tasks_are_solved_by_the_corner_of_the_ball() -> None:
    """The features are the pixels, the highest score in the ball is eps |w|_1, and PGD ends right there."""
    target = made(built(linear), Linf("0.05"))
    features = find_features(target.model, target.x[:2])
    assert features is not None
    heads, _ = binarize(target, features)
    w, x = heads.weight, target.x[:].flatten(1).double()
    corner = x + 0.05 * w.sign()
    score = (corner * w).sum(dim=1)
    torch.testing.assert_close(score, (x * w).sum(dim=1) + 0.05 * w.abs().sum(dim=1))
    outer = surface_points(target.x[:], target.threat, key(0, torch.arange(COUNT), "climb surface")).flatten(
        1
    )
    assert (score >= (outer * w).sum(dim=1) - 1e-6).all(), "no point of the ball is beyond it"
    found = tasks_of(target)
    assert len(found.missed) == found.separated == found.images == COUNT and not found.missed.any()
    # Nine steps of a quarter of eps reach every corner from anywhere: two eps are eight steps.
    assert found.forward - FORWARD <= 9 and found.backward <= 8


def test_tasks_have_as_many_solutions_as_the_network_has_ways() -> None:
    """Where half of the pixels have no gradient, what is left does not reach the border."""
    half = torch.arange(36).reshape(SHAPE) % 2 == 0
    hidden = Change(lambda x: torch.where(half, x, x.detach()))
    found = tasks_of(made([hidden, *built(linear)]))
    assert found.missed.all()


@pytest.mark.parametrize("name", ["cnn", "rounded"])
def test_batches_and_order_do_not_matter(name: str) -> None:
    layers = built((HONEST | HIDING)[name])
    whole = tasks_of(made(layers, count=10)).missed
    for size in (1, 4):
        assert torch.equal(tasks_of(made(layers, count=10, batch_size=size)).missed, whole)
    turned = made(layers, count=10, batch_size=7).subset(torch.arange(10).flip(0))
    assert torch.equal(tasks_of(turned).missed.flip(0), whole)


def test_the_seed_decides_the_tasks_and_the_finding_stays() -> None:
    for name, finding in (("cnn", "sound"), ("reversed", "masked")):
        for seed in (1, 2):
            target = replace(made(built((HONEST | HIDING)[name])), seed=seed)
            assert examine(SharedAttacks(target=target)).finding == finding


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.forward_passes = self.backward_passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.forward_passes += len(x)
        self.backward_passes += len(x) * x.requires_grad
        return x


@pytest.mark.parametrize("name", ["cnn", "detached"])
def test_the_passes_are_counted_and_are_about_those_of_pgd(name: str) -> None:
    counting = Counting()
    target = made([counting, *built((HONEST | HIDING)[name])])
    features = find_features(target.model, target.x[:2])
    assert features is not None
    counting.forward_passes = counting.backward_passes = 0
    found = attack_tasks(target, features)
    assert counting.forward_passes == pytest.approx(found.forward * COUNT)
    assert counting.backward_passes == pytest.approx(found.backward * COUNT)
    usual = ATTACK.budget + 2 * ATTACK.steps
    assert found.forward + 2 * found.backward <= usual * (0.8 if name == "cnn" else 1.5)


def judged(
    missed: int, count: int = 100, *, stuck: int = 0, is_open: bool = False, roughness: float | None = None
) -> tuple[str, str]:
    tasks = Tasks(
        missed=torch.arange(count) < missed,
        stuck=torch.arange(count) < stuck,
        images=count,
        separated=count,
        forward=30.0,
        backward=2.0,
    )
    found = judge(tasks, {"features": "the input of 'fc'", "roughness": roughness}, is_open=is_open)
    return found.finding, found.sentence


def test_the_share_of_missed_solutions_decides() -> None:
    assert [judged(n)[0] for n in (0, 3, 9, 10, 49, 50, 100)] == [
        "sound",
        "sound",
        "sound",
        "suspicious",
        "suspicious",
        "masked",
        "masked",
    ]
    assert judged(1, count=10)[0] == "sound", "one of ten may be chance"
    assert judged(0)[1] == (
        f"Where a solution is known, {ATTACK.label} finds one on 100.0% of 100 images: it can climb as far as"
        " the input of 'fc'. This check does not see what follows."
    )
    assert "eps/50" not in judged(60, roughness=0.02)[1] and "80.0% as much" in judged(60, roughness=0.8)[1]


def test_without_a_gradient_an_attack_without_gradients_decides() -> None:
    assert judged(100, stuck=100, is_open=True)[0] == "masked"
    assert judged(20, stuck=20, is_open=True)[0] == "suspicious"
    finding, sentence = judged(100, stuck=95)
    assert finding == "inconclusive" and sentence.endswith("gradient attacks say nothing here.")
    # Where some are misled by a gradient that is there, these count.
    assert judged(100, stuck=80)[0] == "suspicious" and judged(100, stuck=50)[0] == "masked"
    assert judged(3, stuck=3)[0] == "sound"


def test_a_model_that_is_robust_behind_thresholds_is_not_called_masked() -> None:
    """A third of the pixels are gray and change the features; the others decide, far from the threshold."""
    ink = (images(COUNT) > 0.5).float()
    gray = torch.arange(36).reshape(SHAPE) < 12
    x = torch.where(gray, images(COUNT) / 10 + 0.45, ink)
    weight = torch.where(gray, 0.01, 1.0).flatten()
    layers = built(linear)
    with torch.no_grad():
        layers[1].weight *= weight  # type: ignore[operator]
    model = nn.Sequential(Change(lambda x: (x > 0.5).to(x.dtype)), *layers).eval()
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    shared = SharedAttacks(target=Target(model=model, data=(x, y), threat=Linf("0.2")))
    found = examine(shared)
    assert found.finding == "inconclusive", found.sentence


def test_a_jagged_network_is_named_as_such() -> None:
    jagged = Change(lambda x: x + 0.05 * torch.sin(1e4 * x))
    found = examine(SharedAttacks(target=made([jagged, *built(small)])))
    assert found.finding in ("suspicious", "masked") and "A random step of eps/50" in found.sentence


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.rand_like(x)


class Unfolded(nn.Module):
    """A linear layer that is none of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 108).reshape(3, 36).sin())

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T


@pytest.mark.parametrize(
    ("build", "count", "why"),
    [
        (lambda: [Noisy(), *linear()], COUNT, "the model's outputs are random"),
        (
            lambda: [nn.BatchNorm2d(1, track_running_stats=False), *linear()],
            COUNT,
            "outputs depend on the other images of the batch",
        ),
        (lambda: [Unfolded()], COUNT, "calls no nn.Linear that takes features; name a module"),
        (
            linear,
            LEAST_EXAMPLES - 1,
            f"only 9 images are correctly classified, and {LEAST_EXAMPLES} are needed",
        ),
        (
            lambda: [Change(lambda x: x.flatten(1).mean(1, keepdim=True)), nn.Linear(1, 2)],
            20,
            "from those inside on only",
        ),
        (lambda: [Change(lambda x: (x > 0.9).to(x.dtype)), *linear()], COUNT, "on only 0 of 40 images"),
    ],
    ids=["random", "batch", "no layer", "few images", "few features", "constant"],
)
def test_where_it_says_nothing_it_says_why(
    build: Callable[[], list[nn.Module]], count: int, why: str
) -> None:
    found = examine(SharedAttacks(target=made(built(build), count=count)))
    assert found.finding == "sound" and found.sentence.startswith("Says nothing here: "), found.sentence
    assert why in found.sentence and why in str(found.numbers["skipped"]) and not found.advice


def test_random_points_that_solve_the_tasks_leave_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        climb, "binarize", lambda *given: (binarize(*given)[0], torch.arange(COUNT) < COUNT - 3)
    )
    found = examine(SharedAttacks(target=made(built(small))))
    assert found.sentence == "Says nothing here: random points solve the task on all but 3 of 40 images."


def test_too_many_features_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climb, "_ALL", 300)
    found = examine(SharedAttacks(target=made(built(small))))
    assert found.sentence.startswith("Says nothing here: the input of '5' has 32 numbers for each image")
    monkeypatch.setattr(climb, "_ALL", 32 * 15)
    monkeypatch.setattr(climb, "_AT_ONCE", 32 * 16 * 2)
    found = examine(SharedAttacks(target=made(built(small))))
    assert found.numbers["images"] == 15 and found.numbers["missed"] == 0


def test_a_named_module_says_where() -> None:
    """Rounding after the named module is not seen there, but at the last layer it is."""
    target = made(built(HIDING["rounded features"]), WIDE, count=20)
    assert examine(SharedAttacks(target=target)).finding == "masked"
    found = examine(SharedAttacks(target=target, features="1"))
    assert found.finding == "sound" and found.numbers["features"] == "the output of '1'"
    assert found.numbers["dimension"] == 288


def test_the_model_is_left_as_it_was() -> None:
    target = made(built(HONEST["batch norm"]))
    target.model.train()
    before = {name: one.clone() for name, one in target.model.state_dict().items()}
    numbers = torch.get_rng_state()
    examine(SharedAttacks(target=target))
    assert target.model.training and all(one.requires_grad for one in target.model.parameters())
    assert all(torch.equal(before[name], one) for name, one in target.model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in target.model.modules())


def test_a_diagnosis_with_features_comes_back_as_it_was(tmp_path: Path) -> None:
    target = made(built(HIDING["reversed"]), count=10)
    found = soar.diagnose(target.model, target.data, target.threat, features="4")
    (own,) = (one for one in found.checks if one.check == "climb")
    assert own.finding == "masked" and own.numbers["features"] == "the output of '4'"
    found.save(tmp_path / "diagnosis.json")
    assert Diagnosis.load(tmp_path / "diagnosis.json") == found


def test_features_that_do_not_exist_are_refused_before_any_attack() -> None:
    target, lines = made(built(small)), list[str]()
    with pytest.raises(UserError, match=r"unknown module 'layer9' \(features\)"):
        soar.diagnose(target.model, target.data, target.threat, features="layer9", say=lines.append)
    assert not lines
