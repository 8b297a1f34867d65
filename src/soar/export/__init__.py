"""A trained model as a file that other programs run: ONNX, TorchScript and `torch.export`."""

from soar.export.checking import Checked
from soar.export.onnx import to_onnx
from soar.export.torch_export import to_torch_export
from soar.export.torchscript import to_torchscript

__all__ = ["Checked", "to_onnx", "to_torch_export", "to_torchscript"]
