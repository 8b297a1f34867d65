"""Datasets by name, as bytes in memory, and training batches.

Names are imported when first used, so that listing and fetching datasets does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soar.data.batches import Augmentation as Augmentation
    from soar.data.batches import Batch as Batch
    from soar.data.batches import batches_per_epoch as batches_per_epoch
    from soar.data.batches import training_batches as training_batches
    from soar.data.catalog import DATASETS as DATASETS
    from soar.data.corruptions import CORRUPTIONS as CORRUPTIONS
    from soar.data.corruptions import corrupt as corrupt
    from soar.data.dataset import Dataset as Dataset
    from soar.data.dataset import Split as Split
    from soar.data.dataset import to_unit as to_unit
    from soar.data.loading import load as load
    from soar.data.sources import Extra as Extra

_HOMES = {
    "Augmentation": "batches",
    "Batch": "batches",
    "batches_per_epoch": "batches",
    "training_batches": "batches",
    "DATASETS": "catalog",
    "CORRUPTIONS": "corruptions",
    "corrupt": "corruptions",
    "Dataset": "dataset",
    "Split": "dataset",
    "to_unit": "dataset",
    "load": "loading",
    "Extra": "sources",
}

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "Augmentation",
    "Batch",
    "Dataset",
    "Extra",
    "Split",
    "batches_per_epoch",
    "corrupt",
    "load",
    "to_unit",
    "training_batches",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'soar.data' has no attribute '{name}'")
    return getattr(import_module(f"soar.data.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
