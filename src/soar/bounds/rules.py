"""The rule of every function of torch that can be bounded, by its name, which methods and functions share."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds import activations, formulas, linear, nonlinear
from soar.bounds.formulas import by_formula, increasing
from soar.bounds.linear import averaging, convolution, joining, moving, reflected
from soar.bounds.nonlinear import activation
from soar.bounds.propagation import Rule

_MOVING = (
    "flatten reshape view permute transpose squeeze unsqueeze contiguous clone to float double chunk split"
    " unflatten narrow select movedim swapaxes"
)
_AVERAGING = "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d pad"

RULES: dict[str, Rule] = {
    **{name: moving(getattr(Tensor, name)) for name in _MOVING.split()},
    **dict.fromkeys(("detach", "data", "alias", "requires_grad"), moving(lambda tensor, *_: tensor)),
    "expand": moving(Tensor.expand, repeats=True),
    "repeat": moving(Tensor.repeat, repeats=True),
    "getitem": moving(operator.getitem, repeats=True),
    "mT": moving(lambda tensor: tensor.mT),
    **{name: averaging(getattr(F, name)) for name in _AVERAGING.split()},
    "mean": averaging(torch.mean),
    "sum": averaging(torch.sum),
    "conv1d": convolution(F.conv1d),
    "conv2d": convolution(F.conv2d),
    "conv3d": convolution(F.conv3d),
    "conv_transpose2d": convolution(F.conv_transpose2d, transposed=True),
    "linear": linear.linear,
    "matmul": linear.matmul,
    "mm": linear.matmul,
    "batch_norm": linear.batch_norm,
    "add": linear.add,
    "sub": linear.subtract,
    "rsub": reflected(linear.subtract),
    "neg": linear.negative,
    **dict.fromkeys(("cat", "concat"), joining(torch.cat)),
    "stack": joining(torch.stack),
    "mul": nonlinear.multiply,
    **dict.fromkeys(("div", "true_divide"), nonlinear.divide),
    **dict.fromkeys(("rdiv", "rtruediv"), reflected(nonlinear.divide)),
    "relu": nonlinear.relu,
    "silu": activation(lambda: activations.SILU),
    "gelu": activation(activations.gelu),
    "softplus": activation(activations.softplus),
    "tanh": activation(lambda: activations.TANH),
    "sigmoid": activation(lambda: activations.SIGMOID),
    "square": activation(lambda: activations.SQUARE),
    "sqrt": nonlinear.square_root,
    "pow": nonlinear.power,
    "max_pool2d": nonlinear.max_pool,
    "adaptive_max_pool2d": nonlinear.adaptive_max_pool,
    **dict.fromkeys(("dropout", "dropout2d"), nonlinear.dropout),
    "leaky_relu": by_formula(formulas.leaky_relu, formulas.leaky_relu_limits),
    "clamp": by_formula(formulas.clamp, increasing(torch.clamp)),
    "clamp_min": by_formula(lambda x, least: formulas.clamp(x, min=least), increasing(torch.clamp_min)),
    "clamp_max": by_formula(lambda x, most: formulas.clamp(x, max=most), increasing(torch.clamp_max)),
    "hardtanh": by_formula(
        lambda x, min_val=-1.0, max_val=1.0: formulas.clamp(x, min_val, max_val), increasing(F.hardtanh)
    ),
    "relu6": by_formula(lambda x: formulas.clamp(x, 0.0, 6.0), increasing(F.relu6)),
    "abs": by_formula(formulas.absolute),
    "group_norm": by_formula(formulas.group_norm, formulas.group_norm_limits),
    "layer_norm": by_formula(formulas.layer_norm, formulas.layer_norm_limits),
}
