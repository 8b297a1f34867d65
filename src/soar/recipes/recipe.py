"""A recipe: the whole configuration of a training run, as a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from soar import files
from soar.errors import UserError, reason_of, unknown
from soar.options import convert
from soar.recipes.settings import GuardSettings, Share, TrainingSettings, ValidationSettings, checked

_LARGEST = 1_000_000
Probability = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class ExtraSection:
    """A second source of training examples, such as synthetic ones."""

    name: str
    """A dataset of `soar data list`, folder:PATH or FILE.npz; its training examples are taken."""
    share: Share
    """The share of every batch that comes from here, such as 0.7."""
    labels: str | None = None
    """A run folder whose trained model labels the examples; by default they have their own labels."""


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """The dataset and its augmentation."""

    name: str
    """A dataset of `soar data list`, your own such as folder:DIR, or package.module:callable."""
    resize: Annotated[int, Meta(ge=1)] | None = None
    """Scale images in files so that their shorter sides have so many pixels; needs `crop`."""
    crop: Annotated[int, Meta(ge=1)] | None = None
    """Cut a square of so many pixels out of the middle of images in files, which may then differ in size."""
    validation: Annotated[int, Meta(ge=0)] | None = None
    """Training examples held out to choose the best checkpoint; a tenth, at most 5,000, by default."""
    crop_padding: Annotated[int, Meta(ge=0)] = 0
    """Random crops after padding each side by this many pixels; 0 for none."""
    padding_mode: Literal["zero", "reflect"] = "zero"
    """How the padding is filled."""
    flip: bool = False
    """Flip images horizontally at random."""
    cutmix: Probability | None = None
    """Probability that an image gets a window of another one, and its label with that share of the area."""
    erasing: Probability | None = None
    """Probability that a random window of an image is blackened."""
    extra: ExtraSection | None = None
    """A second source of training examples, see `data.extra.name`; an epoch counts the first source."""


@dataclass(frozen=True, kw_only=True)
class ThreatSection:
    """What the adversary may do."""

    norm: Literal["linf", "l2", "l1"] = "linf"
    """The norm that perturbations are measured in."""
    eps: str | float
    """The radius, such as "8/255"."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole training run.

    `model` and `objective` are tables with a name and options, which are checked against the signature of
    what is named when it is built.
    """

    description: str = ""
    """One line for `soar list recipes`."""
    seed: Annotated[int, Meta(ge=0, le=2**62)] = 0
    """Seed of initial weights, data order, augmentation and attacks."""
    data: DataSection
    model: dict[str, Any]
    threat: ThreatSection
    objective: dict[str, Any]
    training: TrainingSettings
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    guards: GuardSettings = field(default_factory=GuardSettings)

    def as_table(self) -> dict[str, Any]:
        """Return the recipe as nested tables without empty fields, ready to be written as TOML."""
        return _without_none(asdict(self))


def from_table(table: dict[str, Any], origin: str) -> Recipe:
    """Check a table and return it as a recipe.

    Args:
        table: the contents of a TOML file
        origin: the file, for messages

    Raises:
        UserError: for an unknown field, a missing one or a value out of range
    """
    _check_names(table, Recipe, "", origin)
    for section in OPEN_SECTIONS:
        if not isinstance(table.get(section), dict) or "name" not in table[section]:
            raise UserError(f"{origin}: [{section}] needs a name (field {section}.name)")
        convert(table[section]["name"], str, f"{section}.name")
    recipe = convert(table, Recipe, "")
    checked(recipe.training, "training")
    return recipe


def read(path: Path) -> dict[str, Any]:
    """Read a TOML file as nested tables.

    Raises:
        UserError: if it cannot be read or is not TOML
    """
    text = _text_of(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not a TOML file ({error})") from None
    except RecursionError:
        raise UserError(f"{path}: not a TOML file (nested too deeply)") from None


def write(recipe: Recipe, path: Path) -> None:
    """Write a recipe as a TOML file that reads back as the same recipe."""
    import tomli_w

    files.write(path, tomli_w.dumps(recipe.as_table()))


def _text_of(path: Path) -> str:
    """Read a file of moderate size; opening a pipe could wait forever for its writer."""
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            raise UserError(f"{path}: not a regular file, expected a TOML file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except UserError:
        raise
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise UserError(f"{path}: cannot be read ({reason_of(error)})") from None
    if len(content) > _LARGEST:
        raise UserError(f"{path}: got more than {_LARGEST:,} bytes, expected a TOML file of a few hundred")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a TOML file ({error})") from None


def _check_names(table: dict[str, Any], kind: Any, prefix: str, origin: str) -> None:
    """Check that all fields exist; msgspec ignores unknown fields of dataclasses."""
    known = kind.__dataclass_fields__
    for name, value in table.items():
        if name not in known:
            raise unknown("field", name, known, f"{origin}: {prefix}{name}")
        section = SECTIONS.get(f"{prefix}{name}")
        if section is not None and isinstance(value, dict):
            _check_names(value, section, f"{prefix}{name}.", origin)


SECTIONS: dict[str, Any] = {
    "data": DataSection,
    "data.extra": ExtraSection,
    "threat": ThreatSection,
    "training": TrainingSettings,
    "validation": ValidationSettings,
    "guards": GuardSettings,
}
OPEN_SECTIONS = ("model", "objective")


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }
