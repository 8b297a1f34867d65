from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from soar.errors import UserError
from soar.export import formats as module
from soar.export import to_onnx
from tests.export.problems import built

pytest.importorskip("onnxscript")


@pytest.mark.parametrize("name", ["cnn6", "resnet10"])
def test_a_file_has_a_free_batch_and_both_programs_agree(name: str, tmp_path: Path) -> None:
    model, images = built(name)
    found = to_onnx(model, tmp_path / "net.onnx", images)
    assert found.batch_sizes == (3, 1, 7) and found.difference < 1e-5
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    wanted = model.eval()(images[:2]).detach()
    torch.testing.assert_close(module._by_reference(found.path)(images[:2]), wanted)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(found.path, providers=["CPUExecutionProvider"])
    [given], [answer] = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape) == ("images", ["batch", *images.shape[1:]])
    assert (answer.name, answer.shape) == ("logits", ["batch", 10])
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"images": images[:2].numpy()})[0]), wanted)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Any:
        return None if name == "onnxscript" else importlib.util.find_spec(name)

    monkeypatch.setattr(module, "find_spec", find)
    model, images = built("cnn6")
    with pytest.raises(UserError, match=r"needs the package onnxscript: pip install 'soar-robust\[onnx\]'"):
        to_onnx(model, tmp_path / "net.onnx", images)
