"""Check images, labels, indices and batch sizes that a caller passes beside the model."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import values
from soar.errors import UserError, shown

_LARGEST_BATCH = 2**31 - 1


def check_images(images: Tensor, labels: Tensor) -> None:
    """Check images and labels, including the pixel range.

    Raises:
        UserError: what was got and what is allowed
    """
    check_batch(images, labels)
    if images.dtype == torch.uint8 or not len(images):
        return
    low, high = map(float, images.detach().aminmax())
    if not (low >= -1e-6 and high <= 1 + 1e-6):
        raise UserError(
            f"images: got pixels from {low:g} to {high:g}, expected [0, 1];"
            " normalization belongs inside the model"
        )


def check_batch(images: object, labels: object) -> None:
    """Check images and labels by shape and type only; reading pixels may wait for a GPU.

    Raises:
        UserError: what was got and what is allowed
    """
    images, labels = check_tensor(images, "images"), check_tensor(labels, "labels")
    if images.dim() < 2:
        raise UserError(
            f"images: got shape {tuple(images.shape)}, expected (examples, channels, height, width)"
        )
    if labels.dim() != 1 and len(labels) == len(images):
        raise UserError(f"labels: got shape {tuple(labels.shape)}, expected one class for each image")
    if len(images) != len(labels):
        raise UserError(f"got {len(images)} images and {len(labels)} labels, expected as many of each")
    if labels.dtype != torch.int64:
        raise UserError(f"labels: got {labels.dtype}, expected whole numbers of type torch.int64")
    if len(images) and not images.numel():
        raise UserError(f"images: got shape {tuple(images.shape)}, expected at least one pixel")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise UserError(f"images: got {images.dtype}, expected uint8, or float with pixels in [0, 1]")


def check_numbers(given: object, count: int, name: str) -> Tensor:
    """Check that something is a tensor with one whole number per example, and return it.

    Args:
        given: what the caller passed
        count: the number of examples
        name: its name in the message

    Raises:
        UserError: if it is anything else

    >>> check_numbers(torch.arange(3), 2, "index")
    Traceback (most recent call last):
    soar.errors.UserError: index: got shape (3,) and torch.int64, expected 2 whole numbers of type torch.int64
    """
    numbers = check_tensor(given, name)
    if numbers.dtype != torch.int64 or tuple(numbers.shape) != (count,):
        raise UserError(
            f"{name}: got shape {tuple(numbers.shape)} and {numbers.dtype},"
            f" expected {count} whole numbers of type torch.int64"
        )
    return numbers


def check_tensor(given: object, name: str) -> Tensor:
    """Check that something is an ordinary tensor with a dimension of examples, and return it.

    Args:
        given: what the caller passed
        name: its name in the message

    Raises:
        UserError: if it is not a tensor, or has no numbers in memory

    >>> check_tensor([0, 1], "labels")
    Traceback (most recent call last):
    soar.errors.UserError: labels: got a list, expected a torch.Tensor
    """
    if not isinstance(given, Tensor):
        raise UserError(f"{name}: got a {type(given).__name__}, expected a torch.Tensor")
    if given.layout != torch.strided or given.is_quantized:
        raise UserError(
            f"{name}: got a tensor of layout {given.layout}, expected an ordinary one; see to_dense"
        )
    if given.is_meta:
        raise UserError(f"{name}: got a tensor on the device meta, expected one with numbers in memory")
    if not given.dim():
        raise UserError(f"{name}: got a single number, expected a tensor with one entry for each example")
    return given


def check_batch_size(batch_size: int) -> None:
    """Check the size of a batch.

    Raises:
        UserError: if it is not a whole number of at least 1
    """
    values.whole(batch_size, "batch_size", least=1, flag=" (flag --batch-size)")
    # Tensor.split takes an int, and several batches must fit into 64 bits.
    if type(batch_size) is not int or batch_size > _LARGEST_BATCH:
        raise UserError(
            f"batch_size: got {shown(batch_size)}, expected an int below 2^31 (flag --batch-size)"
        )
