"""Export to ONNX, which programs in any language run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.export.checking import Answers, Checked, export_checked

_INPUT, _OUTPUT = "images", "logits"


def to_onnx(model: nn.Module, path: str | Path, sample: Tensor) -> Checked:
    """Write a model as one ONNX file with the input "images" and the output "logits".

    The size of a batch is free, the size of an image is that of the sample. The file is run by ONNX Runtime
    where that is installed, and else by the reference implementation that comes with the package onnx.

    Args:
        model: any module that maps images in [0, 1] to logits; left as it was
        path: the file to make, such as model.onnx
        sample: two images or more, uint8 or float in [0, 1]

    Raises:
        UserError: if the file exists, a package is not there, the model cannot be exported or the file gives
            other predictions
    """
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise UserError(f"an export to ONNX needs the package {package}: pip install 'soar-robust[onnx]'")
    return export_checked(model, path, sample, _as_bytes, _load)


def _as_bytes(model: nn.Module, images: Tensor) -> bytes:
    with _quiet():
        program = torch.onnx.export(
            model,
            (images,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            input_names=[_INPUT],
            output_names=[_OUTPUT],
            external_data=False,
            verbose=False,
        )
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()
    return content


def _load(path: Path) -> Answers:
    return _by_runtime(path) if find_spec("onnxruntime") else _by_reference(path)


def _by_runtime(path: Path) -> Answers:
    session = import_module("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run([_OUTPUT], {_INPUT: images.numpy()})[0])


def _by_reference(path: Path) -> Answers:
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(onnx.load(path))
    return lambda images: torch.from_numpy(evaluator.run([_OUTPUT], {_INPUT: images.numpy()})[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says about itself; the check afterwards says what matters."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
