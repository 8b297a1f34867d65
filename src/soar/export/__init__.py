"""Models as files for other programs: ONNX, TorchScript and `torch.export`."""

from soar.export.checking import ExportedFile
from soar.export.formats import to_onnx, to_torch_export, to_torchscript

__all__ = ["ExportedFile", "to_onnx", "to_torch_export", "to_torchscript"]
