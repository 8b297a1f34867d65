"""What a model is built from, and how config.json says it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from torch import nn

from soar import __version__, models
from soar.errors import UserError, unknown


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What a model was built from, since a module does not remember it.

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
        """Build the model; its weights mean nothing yet."""
        return models.build(
            self.name,
            seed=0,
            num_classes=self.num_classes,
            image_shape=self.image_shape,
            options=self.options,
        )


def read_architecture(path: str | Path) -> Architecture:
    """Read what a folder's config.json says about the model.

    Args:
        path: the folder

    Raises:
        UserError: if there is none, or it describes no model of ours
    """
    import msgspec

    file = Path(path) / "config.json"
    try:
        config = msgspec.json.decode(file.read_bytes(), type=_Config, strict=True)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from None
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


@dataclass(frozen=True)
class _Config:
    """The fields of config.json that decide what is built; others are passed over."""

    model_type: str
    architectures: tuple[str]
    num_labels: int
    num_channels: int
    image_size: tuple[int, int]
    options: dict[str, Any]
    id2label: dict[int, str] = field(default_factory=dict)


def as_config(architecture: Architecture, threat: dict[str, Any] | None) -> dict[str, Any]:
    """Return the content of config.json, in the words that Hugging Face uses where it has any.

    Args:
        architecture: what the model is built from
        threat: norm and radius that it was trained against, where that is known
    """
    channels, height, width = architecture.image_shape
    names = architecture.classes
    return {
        "model_type": "soar",
        "architectures": [architecture.name],
        "num_labels": architecture.num_classes,
        "num_channels": channels,
        "image_size": [height, width],
        "options": architecture.options,
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "pixels": "[0, 1]",
        "trained_against": threat,
        "soar_version": __version__,
    }


def plain(value: Any) -> Any:
    """Return the statistics of an input normalization as a table.

    Raises:
        UserError: for anything else that JSON does not know
    """
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise UserError(f"options: got a {type(value).__name__}, which config.json cannot hold")
