"""Models of other packages: a function that builds one, and a file with its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.imports import imported, where
from soar.options import literal, parse_spec
from soar.weights import Weights, describe_file, fill

# Training scripts like to store the weights inside a larger dictionary, under one of these.
_NESTS = ("state_dict", "model", "model_state_dict", "net")
# Data-parallel and compiled modules put these before every name.
_PREFIXES = ("module.", "_orig_mod.")


def build_external(spec: str, seed: int = 0, options: Mapping[str, Any] | None = None) -> nn.Module:
    """Call a function of any package that returns a model.

    Args:
        spec: `package.module:callable`, or with options `package.module:callable:width=4,bias=false`; the
            current folder is searched too
        seed: seed of its initial weights
        options: further keyword arguments of the callable, as a recipe has them

    Raises:
        UserError: if it cannot be imported or does not return a module

    >>> build_external("torch.nn:Linear:in_features=4,out_features=2,bias=false")
    Linear(in_features=4, out_features=2, bias=False)
    """
    path, given = parse_spec(spec, "model")
    build = imported(path, "model")
    keywords = {
        key: literal(value) if isinstance(value, str) else value
        for key, value in {**given, **(options or {})}.items()
    }
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            model = build(**keywords)
        except (Exception, SystemExit) as error:  # a user's code may fail in any way
            raise UserError(f"model: {spec} fails ({where(error)})") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"model: {spec} returned a {type(model).__name__}, expected a torch.nn.Module")
    return model


def load_external_weights(model: nn.Module, path: Path) -> Weights:
    """Fill a model from a .safetensors file or a .pt file that holds only tensors.

    Only tensors and plain containers are unpickled.

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
    fill(model, _without_prefix(_tensors(path)), f"--weights: {path}")
    return describe_file(path)


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


def _without_prefix(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    for prefix in _PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors
