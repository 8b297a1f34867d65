"""Files for others: models as ONNX, TorchScript and `torch.export`, results as entries of RobustBench."""

from soar.export.checking import ExportedFile
from soar.export.formats import to_onnx, to_torch_export, to_torchscript
from soar.export.robustbench import RobustBenchFile, to_robustbench

__all__ = [
    "ExportedFile",
    "RobustBenchFile",
    "to_onnx",
    "to_robustbench",
    "to_torch_export",
    "to_torchscript",
]
