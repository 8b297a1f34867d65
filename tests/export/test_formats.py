"""What every format promises."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import soar
from soar.errors import UserError
from soar.export import ExportedFile, to_onnx, to_torch_export, to_torchscript
from tests.attacks.problems import Answering
from tests.export.problems import BUILT, Branching, Stubborn, built

FORMATS = {"onnx": to_onnx, "torchscript": to_torchscript, "torch-export": to_torch_export}


def test_every_registered_model_is_tried() -> None:
    assert set(BUILT) == {entry.name for entry in soar.models.MODELS}


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("kind", ["torchscript", "torch-export"])
def test_every_model_is_exported_and_left_as_it_was(kind: str, name: str, tmp_path: Path) -> None:
    model, images = built(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = FORMATS[kind](model, tmp_path / "net", images)
    assert found.batch_sizes == (3, 1, 7) and found.difference < 1e-5
    assert [file.name for file in tmp_path.iterdir()] == ["net"]
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    for key, value in model.state_dict().items():
        assert torch.equal(before[key], value), key


@pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated")
@pytest.mark.parametrize("output", ["dict", "tuple"])
@pytest.mark.parametrize("kind", ["torchscript", "torch-export"])
def test_of_an_output_that_holds_more_than_logits_they_alone_are_exported(
    kind: str, output: str, tmp_path: Path
) -> None:
    x = torch.rand(3, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    assert FORMATS[kind](Answering(output), tmp_path / "net", x).difference < 1e-5
    file = tmp_path / "net"
    opened = torch.jit.load(file) if kind == "torchscript" else torch.export.load(file).module()
    torch.testing.assert_close(opened(x), Answering()(x))


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_overwritten(kind: str, tmp_path: Path) -> None:
    (tmp_path / "net").write_text("mine")
    model, images = built("cnn6")
    with pytest.raises(UserError, match="net exists already; choose another name"):
        FORMATS[kind](model, tmp_path / "net", images)
    assert (tmp_path / "net").read_text() == "mine"


def test_bytes_are_taken_as_the_data_sets_give_them(tmp_path: Path) -> None:
    model, images = built("cnn6")
    found = to_torchscript(model, tmp_path / "net.pt", (images * 255).to(torch.uint8))
    assert str(found).startswith(
        f"{tmp_path / 'net.pt'}: same predictions for batches of 3, 1, 7; logits differ"
    )
    assert isinstance(found, ExportedFile)


def test_a_file_that_answers_otherwise_is_not_kept(tmp_path: Path) -> None:
    images = torch.rand(3, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(UserError, match="for a batch of 1 the file gives other logits; they differ by"):
        to_torchscript(Branching(), tmp_path / "net.pt", images)
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_exported_is_told_in_one_line(tmp_path: Path) -> None:
    images = torch.rand(3, 1, 2, 2)
    with pytest.raises(UserError) as raised:
        to_torch_export(Branching(), tmp_path / "net.pt2", images)
    assert "the model cannot be exported to" in str(raised.value) and "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_model_that_counts_its_batch_is_refused(tmp_path: Path) -> None:
    images = torch.rand(3, 1, 2, 2)
    with pytest.raises(UserError, match="the model cannot be exported"):
        to_torch_export(Stubborn(), tmp_path / "net.pt2", images)
    with pytest.raises(UserError, match="for a batch of 1 the file gives other logits"):
        to_torchscript(Stubborn(), tmp_path / "net.pt", images)
    assert not list(tmp_path.iterdir())


def test_one_image_is_too_few(tmp_path: Path) -> None:
    model, images = built("cnn6")
    with pytest.raises(UserError, match="sample: got 1 images, expected at least 2"):
        to_torchscript(model, tmp_path / "net.pt", images[:1])
    with pytest.raises(UserError, match=r"the folder .*nowhere does not exist"):
        to_torchscript(model, tmp_path / "nowhere" / "net.pt", images)
