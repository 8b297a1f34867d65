"""Models of other packages: built by a function or by name in a library, filled from a file of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.imports import imported, where
from soar.models.libraries import LIBRARIES
from soar.options import literal, parse_spec
from soar.weights import Weights, describe_file, fill

# Training scripts like to store the weights inside a larger dictionary, under one of these.
_NESTS = ("state_dict", "model", "model_state_dict", "net")
# Data-parallel and compiled modules put these before every name.
_PREFIXES = ("module.", "_orig_mod.")
# What normalizations call their constants; not every file holds them.
_CONSTANTS = ("mean", "std", "mu", "sigma")


def build_external(
    spec: str,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    *,
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
) -> nn.Module:
    """Build a model by a function of any package, or by its name in timm, Hugging Face or RobustBench.

    Args:
        spec: `package.module:callable`, or with options `package.module:callable:width=4,bias=false`, where
            the current folder is searched too; `timm:NAME`, `hf:FOLDER` or `robustbench:NAME`
        seed: seed of its initial weights
        options: further keyword arguments, as a recipe has them
        num_classes: the number of logits of a network of timm; all others decide themselves
        image_shape: channels, height and width of the images of a network of timm

    Raises:
        UserError: if it cannot be imported or does not return a module

    >>> build_external("torch.nn:Linear:in_features=4,out_features=2,bias=false")
    Linear(in_features=4, out_features=2, bias=False)
    """
    path, given = parse_spec(spec, "model")
    library, _, name = path.partition(":")
    build: Callable[..., Any] = (
        partial(LIBRARIES[library], name, num_classes, image_shape)
        if library in LIBRARIES
        else imported(path, "model")
    )
    keywords = {
        key: literal(value) if isinstance(value, str) else value
        for key, value in {**given, **(options or {})}.items()
    }
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        try:
            model = build(**keywords)
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # a user's code may fail in any way
            raise UserError(f"model: {spec} fails ({where(error)})") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"model: {spec} returned a {type(model).__name__}, expected a torch.nn.Module")
    return model


def load_external_weights(model: nn.Module, path: Path) -> Weights:
    """Fill a model from a .safetensors file or a .pt file that holds only tensors.

    Only tensors and plain containers are unpickled. The tensors may be those of the one part of the model
    that is not constant, such as the network behind its normalization.

    Args:
        model: what to fill
        path: the file

    Returns:
        What was loaded.

    Raises:
        UserError: if the file cannot be read safely or is for another model
    """
    if not path.is_file():
        raise UserError(f"--weights: {path} does not exist")
    tensors = _without_prefix(_tensors(path))
    part = _part_of(model, tensors)
    constants = {name: x for name, x in part.named_buffers() if name.rpartition(".")[2] in _CONSTANTS}
    fill(part, {**constants, **tensors}, f"--weights: {path}")
    return describe_file(path)


def built_in_weights(spec: str) -> Weights | None:
    """Return the file of the weights that a model is built with, None where there is none that is known.

    Args:
        spec: as for `build_external`
    """
    library, _, folder = parse_spec(spec, "model")[0].partition(":")
    file = Path(folder) / "model.safetensors"
    return describe_file(file) if library == "hf" and file.is_file() else None


def _tensors(path: Path) -> Mapping[str, Tensor]:
    if path.suffix == ".safetensors":
        import safetensors
        import safetensors.torch

        try:
            return safetensors.torch.load_file(path)
        except safetensors.SafetensorError as error:
            raise UserError(f"--weights: {path} is not a safetensors file ({error})") from None
    if path.suffix not in (".pt", ".pth", ".ckpt"):
        raise UserError(f"--weights: got {path}, expected a .safetensors, .pt, .pth or .ckpt file")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen kinds for half a dozen damages
        raise UserError(
            f"--weights: {path} is damaged or holds more than tensors, which could run code;"
            " expected a file of torch.save(model.state_dict(), FILE) or of safetensors"
        ) from error
    for nest in _NESTS:
        if isinstance(stored, Mapping) and isinstance(stored.get(nest), Mapping):
            stored = stored[nest]
    if not isinstance(stored, Mapping) or not all(isinstance(value, Tensor) for value in stored.values()):
        raise UserError(f"--weights: {path} holds no table of tensors")
    return stored


def _part_of(model: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Return the child with all parameters of a model and the names of the tensors, or else the model."""
    count = len([*model.parameters()])
    for part in model.children():
        names = {name for name, _ in part.named_parameters()}
        if names and len(names) == count and names <= tensors.keys():
            return part
    return model


def _without_prefix(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    for prefix in _PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors
