"""Networks by name from timm, Hugging Face and RobustBench, with small packages in their place.

The real ones are in test_timm.py and test_hugging_face.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.attacks.problems import ModelOutput
from torch import nn

import soar
from soar import models, runs
from soar.cli.main import main
from soar.errors import UserError
from soar.models.external import built_in_weights, load_external_weights

TIMM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_chans, width=3):
        super().__init__()
        self.conv = nn.Conv2d(in_chans, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).mean(dim=(2, 3)))

CFG = dict(mean=(0.5, 0.4, 0.3), std=(0.2, 0.5, 0.25), input_size=(3, 16, 16), fixed_input_size=False)
OTHER = {"small.clip": dict(mean=(0.1,) * 3, std=(0.2,) * 3), "plain": dict(mean=None, std=None),
         "fixed": dict(fixed_input_size=True), "broken": {}}

def is_model(name): return name.split(".")[0] in list_models()
def list_models(): return ["small", "plain", "fixed", "broken"]

def create_model(name, pretrained=False, img_size=None, **options):
    assert not pretrained
    if name == "broken":
        raise KeyError("weights")
    net = Net(**options)
    net.pretrained_cfg = CFG | OTHER.get(name, {})
    return net
"""

TRANSFORMERS = """
import json
from pathlib import Path
import safetensors.torch
from torch import nn
from tests.attacks.problems import ModelOutput

class Net(nn.Module):
    def __init__(self, num_labels):
        super().__init__()
        self.conv = nn.Conv2d(3, num_labels, 3)

    def forward(self, pixel_values, labels=None, return_dict=True):
        return ModelOutput(logits=self.conv(pixel_values).mean(dim=(2, 3)))

class AutoModelForImageClassification:
    @staticmethod
    def from_pretrained(folder, *, local_files_only, use_safetensors, num_labels=None):
        assert local_files_only and use_safetensors
        net = Net(num_labels or json.loads((Path(folder) / "config.json").read_text())["num_labels"])
        if not num_labels:
            net.load_state_dict(safetensors.torch.load_file(Path(folder) / "model.safetensors"))
        return net.eval()
"""

ROBUSTBENCH = """
from collections import OrderedDict
from enum import Enum
import torch
from torch import nn

class Data(Enum):
    small, large = "cifar10", "imagenet"

class Threat(Enum):
    Linf, L2 = "Linf", "L2"

class Own(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.register_buffer("mu", torch.full((1, 3, 1, 1), 0.5))
        self.register_buffer("sigma", torch.full((1, 3, 1, 1), 0.25))
        self.layers = nn.Sequential(nn.Conv2d(3, 10, 3), *[nn.ReLU()] * depth)

    def forward(self, x):
        return self.layers((x - self.mu) / self.sigma).mean(dim=(2, 3))

def refuse():
    raise AssertionError("downloads")

def behind_normalization():
    return nn.Sequential(OrderedDict(normalize=nn.BatchNorm2d(3, affine=False), model=Own()))

entry = {"model": Own, "gdrive_id": "x"}
model_dicts = {
    Data.small: {Threat.Linf: {"Alone": entry, "Twice": entry}, Threat.L2: {"Twice": entry}},
    Data.large: {Threat.Linf: {"Twice": {"model": behind_normalization, "gdrive_id": "y"},
                               "Fetched": {"model": refuse, "gdrive_id": None}}},
}
"""

X = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
COLORS: dict[str, Any] = {"num_classes": 4, "image_shape": (3, 16, 16)}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small package for each library, in the place of real ones."""
    folder = tmp_path / "packages"
    files = {
        "timm/__init__.py": TIMM,
        "transformers/__init__.py": TRANSFORMERS,
        "robustbench/__init__.py": "import warnings\nwarnings.warn('old')\n",
        "robustbench/model_zoo/__init__.py": "",
        "robustbench/model_zoo/models.py": ROBUSTBENCH,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    forget(monkeypatch)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the libraries be imported again, and afterward those that were there before."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("timm", "transformers", "robustbench"):
            monkeypatch.delitem(sys.modules, name)
    for name in (
        "timm",
        "transformers",
        "robustbench",
        "robustbench.model_zoo",
        "robustbench.model_zoo.models",
    ):
        # Removed at the end, whatever the test imports.
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]


def folder_of(path: Path, *, preprocessor: dict[str, Any] | None, labels: int = 4) -> tuple[Path, nn.Conv2d]:
    """What `save_pretrained` leaves, and the layer that is in it."""
    torch.manual_seed(3)
    layer, path = nn.Conv2d(3, labels, 3), path / "saved"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"num_labels": labels}))
    safetensors.torch.save_file(
        {f"conv.{name}": x for name, x in layer.state_dict().items()}, path / "model.safetensors"
    )
    if preprocessor is not None:
        (path / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return path, layer


def test_a_network_of_timm_gets_the_classes_channels_and_normalization(packages: Path) -> None:
    model = models.build("timm:small:width=5", seed=0, **COLORS).eval()
    network = model.get_submodule("network")
    mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in ((0.5, 0.4, 0.3), (0.2, 0.5, 0.25)))
    torch.testing.assert_close(model(X), network((X - mean) / std))
    assert model(X).shape == (2, 4) and network.get_parameter("conv.weight").shape == (5, 3, 3, 3)
    other = models.build("timm:small.clip", seed=0, **COLORS).eval()
    torch.testing.assert_close(other(X), other.get_submodule("network")((X - 0.1) / 0.2))
    gray = models.build("timm:small", seed=0, image_shape=(1, 16, 16)).eval()
    expected = gray.get_submodule("network")((X[:, :1] - 0.4) / (0.95 / 3))
    torch.testing.assert_close(gray(X[:, :1]), expected)


def test_a_network_of_timm_goes_without_normalization_where_that_is_said_or_it_has_none(
    packages: Path,
) -> None:
    for spec, options in (("small:normalize=false", {}), ("small", {"normalize": False}), ("plain", {})):
        model = models.build(f"timm:{spec}", seed=0, options=options, **COLORS)
        assert type(model).__name__ == "Net"
    assert models.build("timm:small:normalize=false", seed=0, image_shape=(4, 16, 16))(
        torch.rand(2, 4, 9, 9)
    ).shape


def test_initial_weights_depend_on_the_seed_alone(packages: Path) -> None:
    before = torch.get_rng_state()
    one, same, other = (models.build("timm:small", seed=seed, **COLORS) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one(X), same(X)) and not torch.equal(one(X), other(X))


@pytest.mark.parametrize(
    "spec, message",
    [
        ("timm:smal", r"^unknown network of timm 'smal' \(model\); did you mean 'small'\?"),
        ("timm:small:pretrained=true", r"^model\.pretrained: nothing is downloaded; .*--weights"),
        ("timm:small:checkpoint_path=w.pth", r"^model\.checkpoint_path: nothing is downloaded"),
        ("timm:small:height=3", r"^model: timm:small:height=3 fails \(TypeError: .*'height'"),
        ("timm:small:normalize=maybe", r"^model\.normalize: got 'maybe', expected True or False"),
        ("timm:broken", r"^model: timm:broken fails \(KeyError: 'weights'; __init__\.py, line"),
        ("timm:fixed", r"^model: timm:fixed takes images of 16 x 16, got 8 x 8; .* option img_size=8"),
        ("robustbench:Alones", r"^unknown model of RobustBench 'Alones' \(model\); did you mean 'Alone'\?"),
        ("robustbench:Fetched", "^model: robustbench:Fetched downloads its weights when it is built"),
        ("robustbench:Alone:dataset=imagenet", "^model: 0 models of .*; say dataset=cifar10,threat=Linf$"),
        (
            "robustbench:Twice:dataset=cifar10",
            "^model: 2 models of RobustBench are this robustbench:Twice; say dataset=cifar10,threat=Linf or"
            " dataset=cifar10,threat=L2 or dataset=imagenet,threat=Linf$",
        ),
        ("hf:nowhere", "^model: got hf:nowhere, expected a local folder with config.json .* nothing is down"),
    ],
)
def test_mistakes_are_told_in_one_line(packages: Path, spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as told:
        models.build(spec, seed=0, image_shape=(3, 8, 8))
    assert "\n" not in str(told.value)


def test_images_of_other_channels_than_the_normalization_are_told(packages: Path) -> None:
    with pytest.raises(
        UserError, match="got images of 4 channels, expected the 3 that its normalization is for"
    ):
        models.build("timm:small", seed=0, image_shape=(4, 16, 16))


def test_the_size_of_a_network_may_be_given(packages: Path) -> None:
    assert models.build("timm:fixed:img_size=8", seed=0, image_shape=(3, 8, 8))(X[..., :8, :8]).shape == (
        2,
        10,
    )
    assert models.build("timm:fixed", seed=0, **COLORS)(X).shape == (2, 4)


@pytest.mark.parametrize("library", ["timm", "hf", "robustbench"])
def test_a_library_that_is_not_there_is_told_with_its_command(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "transformers" if library == "hf" else library

    class Missing:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    forget(monkeypatch)
    monkeypatch.setattr(sys, "meta_path", [Missing, *sys.meta_path])
    with pytest.raises(
        UserError, match=f"^model: {library}:x needs the package {package}: pip install {package}$"
    ):
        models.build(f"{library}:x", seed=0)


def test_a_library_that_cannot_be_imported_is_told_with_its_reason(packages: Path) -> None:
    (packages / "timm" / "__init__.py").write_text("import nowhere")
    with pytest.raises(
        UserError, match=r"timm:x needs timm, which cannot be imported \(No module named 'nowhere'\)"
    ):
        models.build("timm:x", seed=0)


@pytest.mark.parametrize("form", ["network", "whole", "run"])
def test_weights_of_the_network_or_of_the_whole_are_loaded(packages: Path, tmp_path: Path, form: str) -> None:
    source, target = (models.build("timm:small", seed=seed, **COLORS).eval() for seed in (0, 1))
    source.get_submodule("network.norm").running_mean.fill_(0.3)  # type: ignore[operator]
    state = source.get_submodule("network").state_dict() if form == "network" else source.state_dict()
    if form == "whole":
        state = {name: x for name, x in state.items() if not name.startswith("normalization.")}
    safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    load_external_weights(target, tmp_path / "w.safetensors")
    assert torch.equal(target(X), source(X))
    del state[next(name for name in state if name.endswith("norm.running_mean"))]
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(UserError, match=r"norm\.running_mean' is missing"):
        load_external_weights(target, tmp_path / "w.pt")


def test_weights_without_the_constants_of_a_normalization_are_loaded(packages: Path, tmp_path: Path) -> None:
    source, target = (models.build("robustbench:Alone", seed=seed) for seed in (0, 1))
    state = {name: x for name, x in source.state_dict().items() if name not in ("mu", "sigma")}
    torch.save({"state_dict": {f"module.{name}": x for name, x in state.items()}}, tmp_path / "w.pt")
    load_external_weights(target, tmp_path / "w.pt")
    assert torch.equal(target(X), source(X))
    outer = models.build("robustbench:Twice:dataset=imagenet", seed=0).eval()
    load_external_weights(outer, tmp_path / "w.pt")
    expected = source(X / (1 + 1e-5) ** 0.5)
    torch.testing.assert_close(outer(X), expected)


def test_a_model_of_robustbench_is_chosen_by_data_and_threat(packages: Path) -> None:
    one = models.build("robustbench:Twice:dataset=cifar10,threat=L2,depth=3", seed=0)
    assert len(one.get_submodule("layers")) == 4  # type: ignore[arg-type]
    assert isinstance(models.build("robustbench:Twice:dataset=imagenet", seed=0), nn.Sequential)


PLAIN = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.5, 0.25], "rescale_factor": 1 / 255}


@pytest.mark.parametrize(
    "preprocessor, options, mean, std",
    [
        (PLAIN, "", (0.5, 0.4, 0.3), (0.2, 0.5, 0.25)),
        (PLAIN, ":normalize=false", (0.0,) * 3, (1.0,) * 3),
        (PLAIN | {"do_normalize": False}, "", (0.0,) * 3, (1.0,) * 3),
        (None, "", (0.0,) * 3, (1.0,) * 3),
    ],
)
def test_a_folder_of_hugging_face_is_opened_with_its_normalization(
    packages: Path, tmp_path: Path, preprocessor: Any, options: str, mean: Any, std: Any
) -> None:
    folder, layer = folder_of(tmp_path, preprocessor=preprocessor)
    model = models.build(f"hf:{folder}{options}", seed=0, image_shape=(3, 16, 16))
    normalized = (X - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    found = model(X)
    assert isinstance(found, ModelOutput)
    torch.testing.assert_close(found["logits"], layer(normalized).mean(dim=(2, 3)))


@pytest.mark.parametrize(
    "change", [{"rescale_factor": 1 / 127.5}, {"do_rescale": False}, {"rescale_offset": True}]
)
def test_a_folder_that_scales_pixels_otherwise_is_refused(
    packages: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder, _ = folder_of(tmp_path, preprocessor=PLAIN | change)
    with pytest.raises(
        UserError, match=r"preprocessor_config\.json does not scale pixels to \[0, 1\]; write"
    ):
        models.build(f"hf:{folder}", seed=0)
    assert type(models.build(f"hf:{folder}:normalize=false", seed=0)).__name__ == "Net"


def test_options_reach_hugging_face(packages: Path, tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path, preprocessor=None)
    assert models.build(f"hf:{folder}:num_labels=7", seed=0)(X)["logits"].shape == (2, 7)


def test_weights_that_a_model_is_built_with_are_known(packages: Path, tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path, preprocessor=None)
    found = built_in_weights(f"hf:{folder}:num_labels=7")
    assert found is not None and found.file == folder / "model.safetensors" and len(found.sha256) == 64
    assert built_in_weights("timm:small") is built_in_weights("resnet10:width=8") is None


def test_a_default_device_of_the_user_does_not_decide_where_they_are_built(packages: Path) -> None:
    with torch.device("meta"):
        model = models.build("timm:small", seed=0, **COLORS)
    assert {x.device.type for x in model.state_dict().values()} == {"cpu"}


EVALUATE = ["--data", "fashion-mnist-sample", "--eps", "0.1", "--examples", "8", "--attacks", "fgsm"]


def test_the_command_line_evaluates_a_network_of_timm_and_warns_without_weights(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = models.build("timm:small", seed=1, num_classes=10, image_shape=(1, 28, 28))
    safetensors.torch.save_file(source.get_submodule("network").state_dict(), "w.safetensors")
    given = ["evaluate", "--model", "timm:small", *EVALUATE, "--output"]
    assert main([*given, "a.json", "--weights", "w.safetensors"]) == 0
    assert "no --weights" not in capsys.readouterr().err
    assert main([*given, "b.json"]) == 0
    assert "no --weights: timm:small keeps the weights" in capsys.readouterr().err
    assert main(["evaluate", "--model", "timm:smal", *EVALUATE]) == 2
    assert "did you mean 'small'?" in capsys.readouterr().err


def test_a_recipe_trains_a_network_of_timm_and_its_run_is_opened_again(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    short = [
        "--max_steps",
        "2",
        "--batch_size",
        "8",
        "--validation.steps",
        "1",
        "--guards.overfitting",
        "off",
    ]
    short += ["--validation.examples", "8", "--quiet"]
    assert main(["train", "demo-robust", "--model", "timm:small:width=4", *short, "--output", "run"]) == 0
    assert main(["evaluate", "run", "--examples", "8", "--attacks", "fgsm"]) == 0
    run = runs.find(Path("run"))
    model = run.trained_model(run.data())
    assert run.recipe.model == {"name": "timm:small", "width": 4}
    assert model.get_parameter("network.conv.weight").shape == (4, 1, 3, 3)


def test_the_command_line_records_the_file_of_a_folder_of_hugging_face(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = folder_of(tmp_path, preprocessor=PLAIN, labels=4)
    monkeypatch.chdir(tmp_path)
    images = tmp_path / "pictures.npz"
    pixels, labels = np.full((12, 16, 16, 3), 99, np.uint8), np.arange(12) % 4
    some: dict[str, Any] = {"x_train": pixels, "y_train": labels, "x_test": pixels, "y_test": labels}
    np.savez(images, **some)
    flags = ["--data", str(images), "--eps", "0.1", "--attacks", "fgsm", "--output", "a.json"]
    assert main(["evaluate", "--model", f"hf:{folder}", *flags]) == 0
    assert "no --weights" not in capsys.readouterr().err
    weights = soar.evaluation.Assessment.load("a.json").weights
    assert weights is not None and weights.file == folder / "model.safetensors"
