"""Models in folders of config.json and model.safetensors, as Hugging Face lays them out.

Only registered architectures are built. Nothing is unpickled, downloaded or run from the folder.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import nn

from soar import __version__, files, models
from soar.errors import UserError, reason_of, unknown
from soar.model_state import placement, probing
from soar.prediction import as_input
from soar.weights import fill, load_weights

if TYPE_CHECKING:
    from soar.runs import Run


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """How a model was built, since a module does not remember it.

    Args:
        name: a name of `soar list models`
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        options: the builder's own options, such as {"width": 16}
        classes: what the classes are called, in the order of the logits; may be left out

    Raises:
        UserError: for an unknown name, or another number of names than classes
    """

    name: str
    num_classes: int = 10
    image_shape: tuple[int, int, int] = (3, 32, 32)
    options: dict[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = [entry.name for entry in models.MODELS]
        if self.name not in known:
            raise unknown("architecture", self.name, known, "only registered ones go into folders and out")
        if self.classes and len(self.classes) != self.num_classes:
            raise UserError(f"classes: got {len(self.classes)} names, expected {self.num_classes}")

    def build(self) -> nn.Module:
        """Build the model, with untrained weights."""
        shape, count = self.image_shape, self.num_classes
        return models.build(self.name, seed=0, num_classes=count, image_shape=shape, options=self.options)


class _Config(msgspec.Struct):
    """config.json, in the words that Hugging Face uses where it has any; other fields are passed over."""

    model_type: str
    architectures: tuple[str]
    num_labels: int
    num_channels: int
    image_size: tuple[int, int]
    options: dict[str, Any]
    id2label: dict[int, str] = {}
    # What is built does not depend on the following, so a reader takes anything for them.
    label2id: Any = None
    pixels: Any = "[0, 1]"
    trained_against: Any = None
    soar_version: Any = __version__


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
        root: the folder of all datasets, from which a run's number of classes is known

    Returns:
        The folder.

    Raises:
        UserError: if the folder exists, or the architecture is not that of the model

    >>> import tempfile
    >>> network = Architecture(name="cnn6", options={"width": 2, "hidden": 4})
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = save_folder(network.build(), Path(parent) / "net", network)
    ...     sorted(file.name for file in folder.iterdir())
    ['config.json', 'model.safetensors']
    """
    import safetensors.torch

    path = Path(path)
    if path.exists():
        raise UserError(f"{path} exists already; choose another name")
    model, architecture, threat = _opened(source, architecture, root)
    copy = architecture.build()
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    fill(copy, tensors, f"architecture {architecture.name}: the model")
    with files.temporary_folder(path.parent) as parent:
        folder = parent / "folder"
        weights = safetensors.torch.save(tensors, metadata={"format": "pt"})
        files.write(folder / "model.safetensors", weights)
        files.write(folder / "config.json", _config(architecture, threat))
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


def read_architecture(path: str | Path) -> Architecture:
    """Read from a folder's config.json how the model is built.

    Args:
        path: the folder

    Raises:
        UserError: if there is none, or it does not describe a model of this package
    """
    file = Path(path) / "config.json"
    try:
        config = msgspec.json.decode(file.read_bytes(), type=_Config, strict=True)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason_of(error)})") from None
    except msgspec.MsgspecError as error:
        text, _, place = str(error).partition(" - at `$.")
        raise UserError(f"{file}: {place.rstrip('`') + ': ' if place else ''}{text}") from None
    if config.model_type != "soar":
        raise UserError(f"{file}: got model_type '{config.model_type}', expected 'soar'")
    return Architecture(
        name=config.architectures[0],
        num_classes=config.num_labels,
        image_shape=(config.num_channels, *config.image_size),
        options=config.options,
        classes=tuple(config.id2label[number] for number in sorted(config.id2label)),
    )


def _opened(
    source: nn.Module | Run, architecture: Architecture | None, root: Path | None
) -> tuple[nn.Module, Architecture, dict[str, Any] | None]:
    """Return the model, how it was built, and what it was trained against."""
    if isinstance(source, nn.Module):
        if architecture is None:
            raise UserError(
                "a model does not know how it was built; pass its architecture (argument architecture)"
            )
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


def _config(architecture: Architecture, threat: dict[str, Any] | None) -> bytes:
    """Return the content of config.json, with the norm and radius that the model was trained against."""
    channels, height, width = architecture.image_shape
    names = architecture.classes
    config = _Config(
        model_type="soar",
        architectures=(architecture.name,),
        num_labels=architecture.num_classes,
        num_channels=channels,
        image_size=(height, width),
        options=architecture.options,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        trained_against=threat,
    )
    return msgspec.json.format(msgspec.json.encode(config, enc_hook=_refuse), indent=2) + b"\n"


def _refuse(value: Any) -> Any:
    raise UserError(f"options: got a {type(value).__name__}, which config.json cannot hold")


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
