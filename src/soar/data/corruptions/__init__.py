"""The 15 common corruptions of Hendrycks and Dietterich (2019), *Benchmarking Neural Network Robustness to
Common Corruptions and Perturbations*, at severities 1 to 5.

A corrupted image is a pure function of (image, name, severity, seed, index). Constants and definitions are
those of the authors' code. What differs: the texture of frost, for which they have photographs; and random
numbers, which here are the same at every severity. Accuracies therefore do not agree with those on CIFAR-10-C
to the decimals; `soar.evaluate(..., corruptions=DIR)` measures on the authors' own files.
"""  # noqa: D205

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from soar import values
from soar.data.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from soar.data.corruptions.constants import constants_for
from soar.data.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate
from soar.data.corruptions.draws import Draws, Floats
from soar.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from soar.data.corruptions.weather import brightness, fog, frost, snow
from soar.errors import UserError, unknown
from soar.inputs import check_images

SEVERITIES = (1, 2, 3, 4, 5)
_FUNCTIONS: dict[str, Callable[..., Floats]] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "defocus_blur": defocus_blur,
    "glass_blur": glass_blur,
    "motion_blur": motion_blur,
    "zoom_blur": zoom_blur,
    "snow": snow,
    "frost": frost,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "elastic_transform": elastic_transform,
    "pixelate": pixelate,
    "jpeg_compression": jpeg_compression,
}
CORRUPTIONS = tuple(_FUNCTIONS)
"""the names of the corruptions, in the order of the paper"""
# Corrupted at once, so that intermediate arrays fit into the processor's cache.
_PIXELS_AT_ONCE = 1 << 18


def corrupt(
    images: Tensor, name: str, severity: int, *, index: Tensor | None = None, seed: int = 0
) -> Tensor:
    """Return corrupted images, each a pure function of (image, name, severity, seed, index).

    Args:
        images: uint8, or float in [0, 1], which is rounded to bytes; shape (N, 1 or 3, height, width)
        name: one of `CORRUPTIONS`
        severity: 1 to 5
        index: the identity of each example; by default its position
        seed: the seed of the random numbers

    Returns:
        uint8 images of the same shape, on the CPU.

    Raises:
        UserError: for another name or severity, or images that are not of this kind

    >>> gray = torch.full((1, 1, 8, 8), 100, dtype=torch.uint8)
    >>> corrupt(gray, "brightness", 5).unique(), corrupt(gray, "contrast", 5).unique()
    (tensor([176], dtype=torch.uint8), tensor([100], dtype=torch.uint8))
    """
    if not isinstance(name, str) or name not in _FUNCTIONS:
        raise unknown("corruption", name, CORRUPTIONS, "name")
    values.whole(severity, "severity", least=1, flag="")
    if severity not in SEVERITIES:
        raise UserError(f"severity: got {severity}, expected 1 to 5")
    index = torch.arange(len(images), device="cpu") if index is None else index.cpu()
    check_images(images, index)
    if images.dim() != 4 or images.shape[1] not in (1, 3):
        raise UserError(
            f"images: got shape {tuple(images.shape)}, expected (N, channels, height, width) with 1 or 3"
            " channels, which corruptions are defined for"
        )
    at_once = max(1, _PIXELS_AT_ONCE // max(1, images[0].numel())) if len(images) else 1
    parts = zip(images.split(at_once), index.split(at_once), strict=True)
    made = [_corrupted(part.cpu(), name, severity, Draws(seed, rows, name)) for part, rows in parts]
    return torch.cat(made) if made else images.new_empty(images.shape, dtype=torch.uint8, device="cpu")


def _corrupted(images: Tensor, name: str, severity: int, draws: Draws) -> Tensor:
    numbers: Floats = images.double().numpy()
    numbers = numbers / 255 if images.dtype == torch.uint8 else np.rint(255 * numbers) / 255
    constants = constants_for(*images.shape[2:]).constants[name][severity - 1]
    found = np.clip(_FUNCTIONS[name](numbers, draws, *constants), 0, 1)
    # Bytes are cut off, as in the authors' files, but not where rounding alone has left a little less.
    return torch.from_numpy(np.floor(255 * found + 1e-6).astype(np.uint8))
