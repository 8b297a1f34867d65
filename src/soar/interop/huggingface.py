"""Models in folders of config.json and model.safetensors, as Hugging Face lays them out.

Only registered architectures are built. Nothing is unpickled, downloaded or run from the folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from soar import files
from soar.errors import UserError
from soar.interop.architecture import Architecture, as_config, plain, read_architecture
from soar.model_state import placement, probing
from soar.prediction import as_input
from soar.weights import fill, load_weights

if TYPE_CHECKING:
    from soar.runs import Run


def save_folder(
    source: nn.Module | Run,
    path: str | Path,
    architecture: Architecture | None = None,
    *,
    root: Path | None = None,
) -> Path:
    """Write a model as config.json and model.safetensors into a new folder.

    The folder is there only after it was loaded again and gave the same logits on random images.

    Args:
        source: a run of `soar.runs.find`, or a model
        path: the folder to make
        architecture: how the model was built; a run knows that by itself
        root: the folder of all data sets, which tell a run's number of classes

    Returns:
        The folder.

    Raises:
        UserError: if the folder exists, or the model is not what the architecture says

    >>> import tempfile
    >>> network = Architecture(name="cnn6", options={"width": 2, "hidden": 4})
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = save_folder(network.build(), Path(parent) / "net", network)
    ...     sorted(file.name for file in folder.iterdir())
    ['config.json', 'model.safetensors']
    """
    path = Path(path)
    if path.exists():
        raise UserError(f"{path} exists already; choose another name")
    model, architecture, threat = _opened(source, architecture, root)
    copy = architecture.build()
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    fill(copy, tensors, f"architecture {architecture.name}: the model")
    with files.temporary_folder(path.parent) as parent:
        folder = parent / "folder"
        _write(folder, tensors, as_config(architecture, threat))
        _require_same(model, load_folder(folder), architecture)
        files.move(folder, path)
    return path


def load_folder(path: str | Path) -> nn.Module:
    """Build the model that a folder describes and fill it with its weights.

    Args:
        path: a folder of `save_folder`, or one that was downloaded from a hub by other means

    Returns:
        The model in eval mode, on the CPU.

    Raises:
        UserError: if the folder is not one of ours, or its weights are those of another model
    """
    path = Path(path)
    model = read_architecture(path).build()
    load_weights(model, path / "model.safetensors", str(path))
    return model.eval()


def _opened(
    source: nn.Module | Run, architecture: Architecture | None, root: Path | None
) -> tuple[nn.Module, Architecture, dict[str, Any] | None]:
    """Return the model, how it was built, and what it was trained against."""
    if isinstance(source, nn.Module):
        if architecture is None:
            raise UserError("a model does not know how it was built; say it (argument architecture)")
        return source, architecture, None
    recipe, data = source.recipe, source.data(root)
    options = {key: value for key, value in recipe.model.items() if key != "name"}
    architecture = Architecture(
        name=recipe.model["name"],
        num_classes=len(data.classes),
        image_shape=data.shape,
        options=options,
        classes=data.classes,
    )
    return source.trained_model(data), architecture, asdict(recipe.threat)


def _write(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    import safetensors.torch

    files.write(folder / "model.safetensors", safetensors.torch.save(tensors, metadata={"format": "pt"}))
    files.write(folder / "config.json", json.dumps(config, indent=2, default=plain) + "\n")


def _require_same(model: nn.Module, loaded: nn.Module, architecture: Architecture) -> None:
    """Compare logits; an option that leaves no trace in the weights, such as a fixed layer, shows here."""
    images = torch.rand(4, *architecture.image_shape, generator=torch.Generator().manual_seed(0))
    with probing(model), torch.no_grad():
        logits = model(as_input(images, *placement(model))).cpu()
        others = loaded.to(logits.dtype)(images.to(logits.dtype))
    gap, scale = float((logits - others).abs().max()), float(logits.abs().max())
    if not gap <= 1e-4 * scale:
        raise UserError(
            f"architecture {architecture.name}: the model gives other logits than what its options build"
            f" (they differ by {gap:.1e}, the largest is {scale:.1e})"
        )
