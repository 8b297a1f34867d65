"""The constants of the corruptions at severities 1 to 5, as Hendrycks and Dietterich (2019) chose them.

Those of CIFAR-10-C (32 pixels), Tiny-ImageNet-C (64) and ImageNet-C (224): what hides an object of 32 pixels
is hardly seen in one of 224. https://github.com/hendrycks/robustness, ImageNet-C/create_c.
"""

from __future__ import annotations

from typing import NamedTuple

Constants = tuple[float, ...]


class BenchmarkConstants(NamedTuple):
    """The constants for images of about one size.

    Args:
        name: the benchmark that they are those of
        side: the length of its images
        constants: for every corruption, those of severities 1 to 5
    """

    name: str
    side: int
    constants: dict[str, tuple[Constants, ...]]


def constants_for(height: int, width: int) -> BenchmarkConstants:
    """Return the constants for images of a size: those of the benchmark whose images are nearest in length.

    Images whose shorter side is below 48 get those of CIFAR-10-C, below 128 of Tiny-ImageNet-C.

    >>> [constants_for(side, side).name for side in (28, 32, 64, 224)]
    ['CIFAR-10-C', 'CIFAR-10-C', 'Tiny-ImageNet-C', 'ImageNet-C']
    """
    side = min(height, width)
    return CIFAR if side < 48 else TINY_IMAGENET if side < 128 else IMAGENET


def _single(*values: float) -> tuple[Constants, ...]:
    return tuple((value,) for value in values)


# One entry of a corruption is what its function takes after image and random numbers.
CIFAR = BenchmarkConstants(
    "CIFAR-10-C",
    32,
    {
        "gaussian_noise": _single(0.04, 0.06, 0.08, 0.09, 0.10),
        "shot_noise": _single(500, 250, 100, 75, 50),
        "impulse_noise": _single(0.01, 0.02, 0.03, 0.05, 0.07),
        "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        "snow": (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
        "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        "brightness": _single(0.05, 0.1, 0.15, 0.2, 0.3),
        "contrast": _single(0.75, 0.5, 0.4, 0.3, 0.15),
        # Shares of the side.
        "elastic_transform": (
            (0, 0, 0.08),
            (0.05, 0.2, 0.07),
            (0.08, 0.06, 0.06),
            (0.1, 0.04, 0.05),
            (0.1, 0.03, 0.03),
        ),
        "pixelate": _single(0.95, 0.9, 0.85, 0.75, 0.65),
        "jpeg_compression": _single(80, 65, 58, 50, 40),
    },
)
TINY_IMAGENET = BenchmarkConstants(
    "Tiny-ImageNet-C",
    64,
    {
        "gaussian_noise": _single(0.04, 0.08, 0.12, 0.15, 0.18),
        "shot_noise": _single(250, 100, 50, 30, 15),
        "impulse_noise": _single(0.01, 0.02, 0.05, 0.08, 0.14),
        "defocus_blur": ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        "glass_blur": ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        "motion_blur": ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        "snow": (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        "frost": ((1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
        "fog": ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        "brightness": _single(0.1, 0.2, 0.3, 0.4, 0.5),
        "contrast": _single(0.4, 0.3, 0.2, 0.1, 0.05),
        "elastic_transform": (
            (0, 0, 0.08),
            (0.05, 0.3, 0.06),
            (0.1, 0.08, 0.06),
            (0.1, 0.03, 0.03),
            (0.16, 0.03, 0.02),
        ),
        "pixelate": _single(0.9, 0.8, 0.7, 0.6, 0.5),
        "jpeg_compression": _single(65, 58, 50, 40, 25),
    },
)
# The authors' elastic constants are shares of 244 where the images have 224.
_SHARE = 244 / 224
IMAGENET = BenchmarkConstants(
    "ImageNet-C",
    224,
    {
        "gaussian_noise": _single(0.08, 0.12, 0.18, 0.26, 0.38),
        "shot_noise": _single(60, 25, 12, 5, 3),
        "impulse_noise": _single(0.03, 0.06, 0.09, 0.17, 0.27),
        "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
        "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
        "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
        "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
        "snow": (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
        "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
        "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
        "brightness": _single(0.1, 0.2, 0.3, 0.4, 0.5),
        "contrast": _single(0.4, 0.3, 0.2, 0.1, 0.05),
        "elastic_transform": (
            (_SHARE * 2, _SHARE * 0.7, _SHARE * 0.1),
            (_SHARE * 2, _SHARE * 0.08, _SHARE * 0.2),
            (_SHARE * 0.05, _SHARE * 0.01, _SHARE * 0.02),
            (_SHARE * 0.07, _SHARE * 0.01, _SHARE * 0.02),
            (_SHARE * 0.12, _SHARE * 0.01, _SHARE * 0.02),
        ),
        "pixelate": _single(0.6, 0.5, 0.4, 0.3, 0.25),
        "jpeg_compression": _single(25, 18, 15, 10, 7),
    },
)
