from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar.attacks import PGD
from soar.distributed import World
from soar.errors import UserError
from soar.evaluation import Certificate, evaluate
from soar.evaluation.bounding import Bounding
from soar.evaluation.bracket import bracket, check
from soar.evaluation.certify import certify
from soar.evaluation.methods import METHODS, method_of
from soar.threat import L1, L2, Linf, Threat
from tests.attacks.problems import Autocast, Plain, images, said
from tests.evaluation.test_evaluate import Fragile

BOUNDS = [entry.name for entry in METHODS if entry.name != "smoothing"]
RADII = [Linf(0.02), Linf(0.005), Linf(0.01)]


def linear(classes: int = 5, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(12, classes)).double()


def distances(model: nn.Sequential, x: Tensor, labels: Tensor, dual: int) -> Tensor:
    """How far each image is from the nearest other class; negative where it is misclassified."""
    weight = model.get_parameter("1.weight")
    with torch.no_grad():
        logits = model(x)
        gaps = logits.gather(1, labels[:, None]) - logits
        lengths = torch.linalg.vector_norm(weight[labels][:, None] - weight, ord=dual, dim=2)
        return torch.where(lengths > 0, gaps / lengths.clamp(min=1e-12), torch.inf).amin(dim=1)


def problem(count: int = 40) -> tuple[Plain, Tensor, Tensor]:
    model, x = Plain(), images(count).float()
    labels = said(model, x)
    labels[::9] = (labels[::9] + 1) % 5
    return model, x, labels


@pytest.mark.parametrize("method, norm, dual", [("crown", Linf, 1), ("ibp", Linf, 1), ("crown", L2, 2)])
def test_linear_models_are_certified_exactly(method: str, norm: Callable[[float], Threat], dual: int) -> None:
    model, x = linear(), images(60)
    labels = said(model, x)
    labels[::7] = (labels[::7] + 1) % 5
    far = distances(model, x, labels, dual)
    ordered = far[far > 0].sort().values
    # Nearly at the boundary of an example, on either side; the radius is far below the pixels' distance to 0.
    for place in (5, 20, 40):
        for factor in (1 - 1e-9, 1 + 1e-9):
            eps = float(ordered[place]) * factor
            found = certify(model, (x, labels), norm(eps), method)
            assert torch.equal(found.certified, far > eps), (place, factor)
            assert torch.equal(found.correct, far > 0)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-3, 0.1), st.sampled_from(BOUNDS))
def test_no_float32_certificate_of_a_linear_model_is_wrong(seed: int, eps: float, method: str) -> None:
    model, x = linear(seed=seed).float(), images(30, seed).float()
    labels = said(model, x)
    found = certify(model, (x, labels), Linf(eps), method)
    far = distances(model.double(), x.double(), labels, dual=1)
    assert (far[found.certified] > eps).all()
    # Rounding costs next to nothing.
    assert found.certified[far > eps + 1e-4].all()


@pytest.mark.parametrize("method", [*BOUNDS, "crown:refine=true,precision=float64", "crown:steps=3"])
def test_certificates_do_not_depend_on_batches_and_order(method: str) -> None:
    model, x, labels = problem(16)
    threat = Linf(0.01)
    found = [certify(model, (x, labels), threat, method, batch_size=size) for size in (1, 7, 64)]
    backward = certify(model, (x.flip(0), labels.flip(0)), threat, method, batch_size=7)
    assert 0 < found[0].certified.sum() < found[0].correct.sum()
    for one in (*found, replace(backward, certified=backward.certified.flip(0))):
        assert torch.equal(one.certified, found[0].certified)


def test_tighter_methods_certify_more_and_a_curve_only_falls() -> None:
    model, x, labels = problem()
    curves = [
        certify(model, (x, labels), RADII, method)
        for method in ("ibp", "crown", "crown:steps=5", "crown:refine=true")
    ]
    for curve in curves:
        assert [one.threat for one in curve] == RADII
        large, small, middle = (one.certified for one in curve)
        assert (
            not (large & ~middle).any()
            and not (middle & ~small).any()
            and not (small & ~curve[0].correct).any()
        )
    for tight in curves[1:]:
        for loose, one in zip(curves[0], tight, strict=True):
            assert not (loose.certified & ~one.certified).any()


def test_what_fails_is_not_tried_at_a_larger_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, labels = problem()
    tried: list[tuple[Threat, int]] = []
    certified = Bounding.certified

    def count(method: Bounding, target: Any, rows: Tensor, threat: Threat) -> Tensor:
        tried.append((threat, len(rows)))
        return certified(method, target, rows, threat)

    monkeypatch.setattr(Bounding, "certified", count)
    found = certify(model, (x, labels), RADII)
    passed = {one.threat: int(one.certified.sum()) for one in found}
    assert tried == [
        (Linf(0.005), int(found[0].correct.sum())),
        (Linf(0.01), passed[Linf(0.005)]),
        (Linf(0.02), passed[Linf(0.01)]),
    ]


def test_an_interrupted_certification_goes_on_where_it_was(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "certificate.partial.jsonl"
    whole = certify(Fragile(model, 10**9), (x, labels), RADII, batch_size=8)
    with pytest.raises(KeyboardInterrupt):
        certify(Fragile(model, 20), (x, labels), RADII, batch_size=8, journal=journal)
    fresh, resumed = Fragile(model, 10**9), Fragile(model, 10**9)
    again = certify(resumed, (x, labels), RADII, batch_size=8, journal=journal)
    certify(fresh, (x, labels), RADII, batch_size=8)
    assert resumed.calls > fresh.calls, "what was known is not computed again"
    for one, other in zip(whole, again, strict=True):
        assert torch.equal(one.certified, other.certified)
    other_method = certify(Fragile(model, 10**9), (x, labels), RADII, "ibp", batch_size=8, journal=journal)
    assert other_method[1].certified.sum() < whole[1].certified.sum(), "the journal is that of one method"


@pytest.mark.parametrize("method", BOUNDS)
def test_a_wrong_bound_is_found_out(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, labels = problem()
    bound = Bounding._margins
    monkeypatch.setattr(Bounding, "_margins", lambda *given: bound(*given) + 1e3)
    broken = evaluate(model, (x, labels), Linf(0.2), PGD(steps=20, loss="margin"), check=False)
    first = int((broken.correct & ~broken.attacks[0].robust).nonzero()[0])
    end = broken.attacks[0].predictions
    assert end is not None
    with pytest.raises(UserError, match=f"{method} contradicts an attack") as caught:
        certify(model, (x, labels), Linf(0.2), method)
    both = f"image {first} is certified as class {int(labels[first])} at linf 0.2, and predicted as class"
    assert f"{both} {int(end[first])} under PGD-20 margin at linf 0.2" in str(caught.value)


def test_attacks_already_known_are_compared_too() -> None:
    model, x, labels = problem()
    inner = evaluate(model, (x, labels), Linf(0.01), "pgd", check=False)
    small, large = certify(model, (x, labels), [Linf(0.01), Linf(0.02)])
    for certificate in (small, large):
        check(certificate, inner)
    fooled = (inner.correct & ~inner.attacks[0].robust).nonzero()[:, 0]
    flags = large.certified.clone()
    flags[fooled[0]] = True
    wrong = replace(large, certified=flags)
    text = f"image {int(fooled[0])} is certified as .* linf 0.02, and predicted .* under PGD-20 at linf 0.01"
    with pytest.raises(UserError, match=text):
        check(wrong, inner)
    # An attack may do more in a larger ball, in another norm, and to a model that was not smoothed.
    check(replace(wrong, threat=Linf(0.005)), inner)
    check(replace(wrong, threat=L2(0.02)), inner)
    check(replace(wrong, method="smoothing"), inner)


def test_a_bracket_is_of_the_examples_in_common() -> None:
    model, x, labels = problem()
    found = evaluate(model, (x, labels), Linf(0.015), "pgd", check=False)
    certificate = certify(model, (x[:20], labels[:20]), Linf(0.015), "ibp")
    both = bracket(certificate, found)
    assert both is not None and both.examples == 20
    assert both.certified == certificate.accuracy
    assert both.attacked == found.select(torch.arange(20)).worst_case
    assert both.certified < both.attacked < both.clean, "the examples tell the three apart"
    assert bracket(replace(certificate, threat=Linf(0.02)), found) is None
    assert bracket(replace(certificate, index=certificate.index + 100), found) is None


class Random(nn.Module):
    """Outputs that differ from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x.flatten(1))
        return logits + torch.randn_like(logits)


class Rounding(nn.Module):
    """A layer that has no bound, with a name."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Identity()
        self.layer = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(self.cut(x).flatten(1).round())
        return logits


@pytest.mark.parametrize(
    "build, text",
    [
        (Random, "only a fixed function of each image has bounds"),
        (Rounding, "torch's `round`, for which there is no bound"),
        (lambda: Plain().bfloat16(), "got torch.bfloat16, whose rounding is not bounded"),
        (Autocast, "got autocast, whose rounding is not bounded in 'net.layers.0'"),
    ],
)
def test_models_without_bounds_are_refused(build: Callable[[], nn.Module], text: str) -> None:
    model, x = build(), images(8).float()
    with pytest.raises(UserError, match=text):
        certify(model, (x, torch.zeros(8, dtype=torch.int64)), Linf(0.01))


@pytest.mark.parametrize(
    "threats, method, text",
    [
        (Linf(0.1), "crwn", "unknown method 'crwn'"),
        (Linf(0.1), "crown:steps=-1", "method.steps: got -1, expected at least 0 .flag --method"),
        (Linf(0.1), "ibp:refine=true", "unknown option of ibp 'refine'"),
        (Linf(0.1), "smoothing", "smoothing: got linf 0.1, expected an l2 threat"),
        (L1(1), "smoothing", "smoothing: got l1 1, expected an l2 threat"),
        (L1(1), "crown", "got l1 1, expected linf or l2, for which there are bounds; .* in the l2 ball of"),
        (L1(1), "ibp", "got l1 1, expected linf or l2, for which there are bounds"),
        (L2(0.1), "smoothing:sigma=nan", "method.sigma: got nan"),
        (L2(0.1), "smoothing:alpha=1", "method.alpha: got 1.0, expected above 0 and below 1"),
        (L2(0.1), "smoothing:draws=0", "method.draws: got 0, expected at least 1"),
        ([Linf(0.1), L2(0.1)], "crown", "expected different radii of one norm"),
        ([Linf(0.1), Linf("1/10")], "crown", "expected different radii of one norm"),
        ([], "crown", "threat: got an empty list"),
        (Linf(0.1), 3, "method: got 3, expected a string"),
    ],
)
def test_mistakes_are_told(threats: Any, method: Any, text: str) -> None:
    model, x, labels = problem(4)
    with pytest.raises(UserError, match=text):
        certify(model, (x, labels), threats, method)


def test_float64_certifies_at_least_as_much_and_leaves_the_model_alone() -> None:
    model, x, labels = problem()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    single, double = (
        certify(model, (x, labels), Linf(0.01), f"crown:precision={one}") for one in ("float32", "float64")
    )
    assert not (single.certified & ~double.certified).any()
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_is_always_wrong_has_nothing_to_certify() -> None:
    model, x, _ = problem(6)
    found = certify(model, (x, (said(model, x) + 1) % 5), Linf(0.01))
    assert found.accuracy == found.clean_accuracy == 0
    assert isinstance(found, Certificate) and "0.0% certified" in repr(found)


def test_options_are_recorded() -> None:
    assert method_of("ibp:precision=float64").options == {"precision": "float64"}
    assert method_of("crown:steps=2").options == {"refine": False, "steps": 2, "precision": "float32"}
    assert method_of("smoothing:sigma=0.5").options == {"sigma": 0.5, "draws": 1000, "alpha": 0.001}


class Pair(World):
    """One of two processes that are threads, and hear of each other."""

    meeting = threading.Barrier(2, timeout=60)
    told: ClassVar[dict[int, Any]] = {}

    def gather(self, value: Any) -> list[Any]:
        self.told[self.rank] = value
        self.meeting.wait()
        heard = [self.told[0], self.told[1]]
        self.meeting.wait()
        return heard


@pytest.mark.parametrize(
    "method, threats", [("crown", RADII), ("smoothing:draws=50,sigma=0.1", [L2(0.1), L2(0.01)])]
)
def test_two_processes_certify_what_one_certifies(
    method: str, threats: list[Threat], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, labels = problem(15)
    whole = certify(model, (x, labels), threats, method)
    # To trace a model, torch.fx changes nn.Module for a while: threads share it, processes do not.
    monkeypatch.setattr("soar.evaluation.assess.inference_copy", lambda model, sample: model)
    here = threading.local()
    for module in ("certification", "assess"):
        monkeypatch.setattr(f"soar.evaluation.{module}.current", lambda: here.world)
    found: dict[int, tuple[Certificate, ...]] = {}

    def work(rank: int) -> None:
        here.world = Pair(rank, 2)
        found[rank] = certify(copy.deepcopy(model), (x, labels), threats, method)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for curve in (found[0], found[1]):
        for one, other in zip(curve, whole, strict=True):
            assert torch.equal(one.certified, other.certified) and torch.equal(one.correct, other.correct)
            assert torch.equal(one.index, other.index)
