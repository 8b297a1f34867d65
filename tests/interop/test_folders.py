from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import soar
from soar import runs
from soar.cli.main import main
from soar.errors import UserError
from soar.interop import Architecture, load_folder, save_folder
from soar.interop.folders import read_architecture
from soar.models import Statistics
from tests.cli.tiny import TINY

SMALL = [
    Architecture(name="cnn6", options={"width": 2, "hidden": 4}, image_shape=(1, 28, 28)),
    Architecture(name="cnn8", options={"width": 16, "hidden": 4}, num_classes=3),
    Architecture(name="resnet10", options={"width": 2, "norm": "batch"}),
    Architecture(name="resnet18", options={"width": 2, "input_normalization": "cifar10"}),
    Architecture(name="wide_resnet", options={"depth": 10, "widen_factor": 1}),
]


def test_every_registered_architecture_is_tried() -> None:
    assert {one.name for one in SMALL} == {entry.name for entry in soar.models.MODELS}


@pytest.mark.parametrize("architecture", SMALL, ids=lambda one: str(one.name))
def test_what_goes_in_comes_out(architecture: Architecture, tmp_path: Path) -> None:
    model = soar.models.build(
        architecture.name,
        seed=5,
        num_classes=architecture.num_classes,
        image_shape=architecture.image_shape,
        options=architecture.options,
    )
    folder = save_folder(model, tmp_path / "net", architecture)
    loaded = load_folder(folder)
    assert not loaded.training and model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name
    assert read_architecture(folder) == architecture
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net"]


def test_statistics_of_ones_own_are_kept(tmp_path: Path) -> None:
    own = Statistics((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    architecture = Architecture(name="cnn6", options={"width": 2, "hidden": 4, "input_normalization": own})
    model = architecture.build()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(load_folder(save_folder(model, tmp_path / "net", architecture))(x), model(x))


def test_a_run_knows_how_it_was_built(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert main(["train", "demo-robust", *TINY, "--max_steps", "2", "--output", str(path)]) == 0
    opened = runs.find(path)
    folder = save_folder(opened, tmp_path / "net")
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "soar" and config["num_labels"] == 10 and config["image_size"] == [28, 28]
    assert config["id2label"]["9"] == "ankle boot" and config["label2id"]["ankle boot"] == 9
    assert config["trained_against"] == {"norm": "linf", "eps": "0.1"}
    data = opened.data()
    images = data.test.images[:6] / 255
    assert torch.equal(load_folder(folder)(images), opened.trained_model(data).eval()(images))


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    with pytest.raises(UserError, match="net exists already; choose another name"):
        save_folder(SMALL[0].build(), tmp_path / "net", SMALL[0])
    wrong = Architecture(
        name="cnn6", options={**SMALL[0].options, "input_normalization": "none"}, image_shape=(1, 28, 28)
    )
    # An option without weights: only the logits tell.
    with pytest.raises(UserError, match="cnn6: the model gives other logits than what its options build"):
        save_folder(SMALL[0].build(), tmp_path / "other", wrong)
    with pytest.raises(UserError, match="cnn8: the model holds the weights of another model"):
        save_folder(SMALL[0].build(), tmp_path / "other", SMALL[1])
    assert [file.name for file in tmp_path.iterdir()] == ["net"]


def test_a_bare_model_needs_its_architecture(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a model does not know how it was built"):
        save_folder(SMALL[0].build(), tmp_path / "net")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "bert"}, "got model_type 'bert', expected 'soar'"),
        ({"architectures": ["os:system"]}, "unknown architecture 'os:system'"),
        ({"architectures": []}, "architectures: Expected `array` of length 1"),
        ({"num_labels": None}, "num_labels: Expected `int`, got `null`"),
        ({"options": {"width": "wide"}}, "model.width: got 'wide', expected `int`"),
        ({"options": {"depth": 3}}, "unknown option of cnn6 'depth'"),
        ({"options": {"width": 3}}, "holds the weights of another model"),
        ({"image_size": 3}, "image_size: Expected `array`, got `int`"),
        ({"id2label": {"0": "one", "1": "two"}}, "classes: got 2 names, expected 10"),
    ],
)
def test_a_config_is_checked_before_anything_is_built(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = save_folder(SMALL[0].build(), tmp_path / "net", SMALL[0])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError) as raised:
        load_folder(folder)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_folders_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: cannot be read \(No such file or directory\)"):
        load_folder(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: Input data was truncated"):
        load_folder(tmp_path)
    folder = save_folder(SMALL[0].build(), tmp_path / "net", SMALL[0])
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="holds no usable weights"):
        load_folder(folder)
