"""Networks of timm, Hugging Face and RobustBench by name, for pixels in [0, 1]; nothing is downloaded."""

from __future__ import annotations

import importlib
import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from soar.errors import UserError, unknown
from soar.imports import where
from soar.models.layers import FixedNormalization, Statistics
from soar.values import truth


def from_timm(
    name: str, classes: int, image_shape: tuple[int, int, int], /, *, normalize: bool = True, **options: Any
) -> nn.Module:
    """A network of timm with initial weights.

    Args:
        name: an architecture, perhaps with the tag of its weights, such as "resnet10t.c3_in1k"; the tag
            decides which normalization it is
        classes: the number of logits, unless there is the option num_classes
        image_shape: channels, height and width of an image
        normalize: whether its own mean and standard deviation are subtracted and divided by first
        options: further arguments of `timm.create_model`

    Raises:
        UserError: if timm is not there or has no such network, or it takes images of another size only
    """
    timm = _library("timm", f"timm:{name}")
    for option in {"pretrained", "checkpoint_path"} & options.keys():
        raise UserError(f"model.{option}: nothing is downloaded; give a file of weights (flag --weights)")
    if not timm.is_model(name):
        raise unknown("network of timm", name, timm.list_models(), "model")
    channels, *size = image_shape
    arguments = {"num_classes": classes, "in_chans": channels, **options}
    network: nn.Module = timm.create_model(name, **arguments)
    config: dict[str, Any] = network.pretrained_cfg  # type: ignore[assignment]
    wanted = [*config.get("input_size", ())[1:]]
    if config.get("fixed_input_size") and "img_size" not in options and wanted != size:
        got, expected = (" x ".join(map(str, one)) for one in (size, wanted))
        raise UserError(
            f"model: timm:{name} takes images of {expected}, got {got}; resize them, or build it for"
            f" {size[0]} by the option img_size={size[0]}, with its weights for that"
        )
    return _normalized(network, [config.get(name) for name in ("mean", "std")], channels, normalize)


def from_hugging_face(
    name: str,
    classes: int,  # noqa: ARG001 - the folder decides, or the option num_labels
    image_shape: tuple[int, int, int],
    /,
    *,
    normalize: bool = True,
    **options: Any,
) -> nn.Module:
    """A network of Hugging Face with the weights of a local folder.

    Args:
        name: a folder of `save_pretrained`
        classes: ignored; the folder decides, or the options num_labels and ignore_mismatched_sizes
        image_shape: channels, height and width of an image
        normalize: whether the mean and standard deviation in its preprocessor_config.json, if it has one, are
            subtracted and divided by first
        options: further arguments of `AutoModelForImageClassification.from_pretrained`

    Raises:
        UserError: if transformers or the folder is not there, or it scales pixels otherwise
    """
    transformers, folder = _library("transformers", f"hf:{name}"), Path(name)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"model: got hf:{name}, expected a local folder with config.json and model.safetensors, as"
            " `save_pretrained` makes it; nothing is downloaded"
        )
    network: nn.Module = transformers.AutoModelForImageClassification.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, **options
    )
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    is_scaled = config.get("do_rescale", True) and not config.get("rescale_offset")
    if normalize and not (is_scaled and abs(255 * config.get("rescale_factor", 1 / 255) - 1) < 1e-6):
        raise UserError(
            f"model: {file} does not scale pixels to [0, 1]; write a function that does what it says"
            " (--model package.module:callable), or leave it out by the option normalize=false"
        )
    names = ("image_mean", "image_std") if config.get("do_normalize", True) else ()
    return _normalized(network, [config.get(name) for name in names], image_shape[0], normalize)


def from_robustbench(
    name: str,
    classes: int,  # noqa: ARG001 - the model decides
    image_shape: tuple[int, int, int],  # noqa: ARG001
    /,
    *,
    dataset: str | None = None,
    threat: str | None = None,
    **options: Any,
) -> nn.Module:
    """A network of RobustBench with initial weights; normalization is inside it already.

    Args:
        name: of the model, such as "Carmon2019Unlabeled"
        classes: ignored; the model decides
        image_shape: ignored; the model decides
        dataset: its dataset, such as "cifar10", where several have a model of this name
        threat: its threat, such as "Linf", where it is in several lists
        options: arguments of the function that builds it

    Raises:
        UserError: if RobustBench is not there or has no such model, or the model would load its own weights
    """
    lists = _library("robustbench.model_zoo.models", f"robustbench:{name}").model_dicts
    found = {
        (data.value, kind.value): models[name]
        for data, kinds in lists.items()
        for kind, models in kinds.items()
        if name in models
    }
    if not found:
        names = {one for kinds in lists.values() for models in kinds.values() for one in models}
        raise unknown("model of RobustBench", name, names, "model")
    chosen = {
        key: one for key, one in found.items() if dataset in (None, key[0]) and threat in (None, key[1])
    }
    if len(chosen) != 1:
        listed = " or ".join(f"dataset={data},threat={kind}" for data, kind in found)
        raise UserError(
            f"model: {len(chosen)} models of RobustBench are this robustbench:{name}; say {listed}"
        )
    (entry,) = chosen.values()
    # Where it knows no file of weights, the network is built with weights from elsewhere.
    if not entry["gdrive_id"]:
        raise UserError(f"model: robustbench:{name} downloads its weights when it is built, which is refused")
    network: nn.Module = entry["model"](**options)
    return network


LIBRARIES: dict[str, Callable[..., nn.Module]] = {
    "timm": from_timm,
    "hf": from_hugging_face,
    "robustbench": from_robustbench,
}
"""what builds the networks of a library, by what stands in front of the colon"""


def _library(module: str, spec: str) -> Any:
    """Import a library, which may warn of what does not concern us.

    Raises:
        UserError: if it is not installed, or cannot be imported
    """
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # its own dependencies may fail in any way
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise UserError(f"model: {spec} needs the package {package}: pip install {package}") from None
        raise UserError(
            f"model: {spec} needs {package}, which cannot be imported ({where(error)})"
        ) from error


def _normalized(
    network: nn.Module, statistics: Sequence[Sequence[float] | None], channels: int, normalize: bool
) -> nn.Module:
    """Put the mean and deviation of a network in front of it, where they are known and wanted."""
    truth(normalize, "model.normalize")
    known = [tuple(numbers) for numbers in statistics if numbers]
    if not normalize or len(known) < 2:
        return network
    if channels == 1:
        # Of gray images the three colors are the same.
        known = [(sum(numbers) / len(numbers),) for numbers in known]
    if {len(numbers) for numbers in known} != {channels}:
        raise UserError(
            f"model: got images of {channels} channels, expected the {len(known[0])} that its normalization"
            " is for; leave it out by the option normalize=false"
        )
    first = FixedNormalization(Statistics(*known), channels)
    return nn.Sequential(OrderedDict(normalization=first, network=network))
