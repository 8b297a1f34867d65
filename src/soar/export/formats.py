"""Export to ONNX for any language, TorchScript for C++, and `torch.export` for PyTorch's own compilers.

Each format is a function that turns a model into the bytes of a file and one that opens the file as other
programs do. The size of a batch is free, the size of an image is that of the sample.
"""

from __future__ import annotations

import io
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
from soar.export.checking import ExportedFile, Predictor, export_checked

_INPUT, _OUTPUT = "images", "logits"


def to_onnx(model: nn.Module, path: str | Path, sample: Tensor) -> ExportedFile:
    """Write a model as one ONNX file with the input "images" and the output "logits".

    The file is run by ONNX Runtime where that is installed, and else by the reference implementation that
    comes with the package onnx.

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
    return export_checked(model, path, sample, _onnx_bytes, _load_onnx)


def to_torchscript(model: nn.Module, path: str | Path, sample: Tensor) -> ExportedFile:
    """Write a model as a TorchScript file, by tracing; `torch.jit.load` opens it without this package.

    Args:
        model: any module that maps images in [0, 1] to logits; left as it was
        path: the file to make, such as model.pt
        sample: two images or more, uint8 or float in [0, 1]

    Raises:
        UserError: if the file exists, the model cannot be traced or the file gives other predictions
    """

    def as_bytes(model: nn.Module, images: Tensor) -> bytes:
        buffer = io.BytesIO()
        # PyTorch advises against TorchScript, and warns of shapes that become numbers; the check decides.
        with _quiet():
            torch.jit.save(torch.jit.trace(model, (images,), check_trace=False), buffer)
        return buffer.getvalue()

    return export_checked(model, path, sample, as_bytes, torch.jit.load)


def to_torch_export(model: nn.Module, path: str | Path, sample: Tensor) -> ExportedFile:
    """Write a model as an exported program; `torch.export.load` opens it without this package.

    Args:
        model: any module that maps images in [0, 1] to logits; left as it was
        path: the file to make, such as model.pt2
        sample: two images or more, uint8 or float in [0, 1]

    Raises:
        UserError: if the file exists, the model cannot be exported or the file gives other predictions
    """

    def as_bytes(model: nn.Module, images: Tensor) -> bytes:
        buffer = io.BytesIO()
        with _quiet():
            free = ({0: torch.export.Dim("batch", min=1)},)
            torch.export.save(torch.export.export(model, (images,), dynamic_shapes=free), buffer)
        return buffer.getvalue()

    return export_checked(model, path, sample, as_bytes, lambda file: torch.export.load(file).module())


def _onnx_bytes(model: nn.Module, images: Tensor) -> bytes:
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


def _load_onnx(path: Path) -> Predictor:
    if not find_spec("onnxruntime"):
        return _by_reference(path)
    session = import_module("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run([_OUTPUT], {_INPUT: images.numpy()})[0])


def _by_reference(path: Path) -> Predictor:
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(onnx.load(path))
    return lambda images: torch.from_numpy(evaluator.run([_OUTPUT], {_INPUT: images.numpy()})[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what exporters report about themselves; the check afterward reports what matters."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
