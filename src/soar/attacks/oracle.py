"""Asking the model: what it says at some points, how steep its loss is there, and whether it is fooled."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Answer, Attack, Examples, State
from soar.errors import UserError, shown
from soar.model_state import check_logits, logits_of, placement, require_module
from soar.threat import Threat

S = TypeVar("S", bound=State)

_LARGEST_BATCH = 2**31 - 1


def predict(model: nn.Module, images: Tensor, batch_size: int = 128) -> Tensor:
    """Give the logits of images, batch by batch, without gradients and with the model as it stands.

    Raises:
        UserError: if the model fails on the images, or gives something that is not a batch of logits
    """
    require_module(model)
    check_batch_size(batch_size)
    device, dtype = placement(model)
    images = check_tensor(images, "images")
    with torch.no_grad():
        parts = [logits_of(model, as_input(part, device, dtype)) for part in images.split(batch_size)]
    return torch.cat(parts) if parts else torch.empty(0, 1, device=device, dtype=dtype)


def checked_logits(logits: object, count: int) -> Tensor:
    """Give a model's output back if it is one row of finite logits for each image.

    Args:
        logits: whatever the model gave
        count: how many images it was shown

    Raises:
        UserError: if it is anything else
    """
    found = check_logits(logits, count).detach()
    broken = ~found.isfinite().all(dim=1)
    if bool(broken.any()):
        raise UserError(
            f"model: got logits that are NaN or infinite for {int(broken.sum())} of {count} images, first for"
            f" image {int(broken.nonzero()[0])}; expected finite numbers"
        )
    return found


def precise(logits: Tensor) -> Tensor:
    """Return logits in the precision in which attacks compare losses: float32, or float64 if they have it.

    A loss computed in eight significant bits hides most small steps. The slope at the points is in the
    precision of the points whatever that of the logits.

    >>> precise(torch.zeros(1, 2, dtype=torch.bfloat16)).dtype, precise(torch.zeros(1, 2).double()).dtype
    (torch.float32, torch.float64)
    """
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def check_batch_size(batch_size: int) -> None:
    """Refuse a batch that no example fits into.

    Raises:
        UserError: if it is not a whole number of at least 1
    """
    values.whole(batch_size, "batch_size", least=1, flag=" (flag --batch-size)")
    # Tensors are split by numbers of Python, and several batches must fit into 64 bits.
    if type(batch_size) is not int or batch_size > _LARGEST_BATCH:
        raise UserError(
            f"batch_size: got {shown(batch_size)}, expected an int below 2^31 (flag --batch-size)"
        )


def as_input(images: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Give images as the model takes them: on its device, in its precision, in [0, 1].

    >>> as_input(torch.tensor([[255]], dtype=torch.uint8), torch.device("cpu"), torch.float32)
    tensor([[1.]])
    """
    if images.dtype == torch.uint8:
        return images.to(device).to(dtype).div_(255)
    return images.detach().to(device, dtype)


def ask(
    model: nn.Module, attack: Attack[S], state: S, threat: Threat, *, gradient: bool
) -> tuple[Tensor, Answer]:
    """Evaluate the points that an attack wants to know about.

    Args:
        model: the model under attack, in the mode it should be attacked in
        attack: the recipe
        state: where the examples stand
        threat: the set that points are brought back to before they are evaluated
        gradient: whether to compute the slope of the attack's score

    Returns:
        The points that were really evaluated, and the answer.
    """
    points = attack.query(state).detach()
    x = state.examples.x
    points = threat.project(points, x) if attack.stays_inside else points.clamp(0, 1)
    with torch.set_grad_enabled(gradient):
        points.requires_grad_(gradient)
        logits = precise(logits_of(model, points))
        loss = _checked_loss(attack.score(logits, state), logits)
        slope = _slope(loss, points) if gradient else None
    if slope is not None:
        # A slope that is not a number would stop the search for good; zero only costs it this step.
        slope = slope.nan_to_num(nan=0.0)
    return points.detach(), Answer(logits.detach(), loss.detach(), slope)


def _checked_loss(loss: object, logits: Tensor) -> Tensor:
    """Check that a loss, which may be the user's own function, is one number for each example."""
    if isinstance(loss, Tensor) and loss.shape == logits.shape[:1] and loss.is_floating_point():
        return loss
    got = f"shape {tuple(loss.shape)} and {loss.dtype}" if isinstance(loss, Tensor) else shown(loss)
    raise UserError(
        f"attack.loss: got {got}, expected one floating-point number for each of {len(logits)} images"
    )


def _slope(loss: Tensor, points: Tensor) -> Tensor:
    """Differentiate by the points; a model that cuts the graph, say by a detour through numpy, has none."""
    if not loss.requires_grad:
        return torch.zeros_like(points)
    (slope,) = torch.autograd.grad(loss.sum(), points, allow_unused=True, materialize_grads=True)
    return slope


def is_fooled(examples: Examples, points: Tensor, logits: Tensor, threat: Threat) -> Tensor:
    """Tell where the model is wrong, or says the goal, at a point that the adversary may choose."""
    said = logits.argmax(dim=1)
    reached = torch.where(examples.goal >= 0, said == examples.goal, said != examples.labels)
    if bool(reached.any()):
        reached[reached.clone()] = threat.contains(points[reached], examples.x[reached])
    return reached


def check_images(images: Tensor, labels: Tensor) -> None:
    """Refuse images and labels that cannot be evaluated.

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
            " normalisation belongs inside the model"
        )


def check_batch(images: object, labels: object) -> None:
    """Check everything about images and labels that shows without reading them, which may wait for a GPU.

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
    """Check that something holds one whole number for each example, such as its index, and return it.

    Args:
        given: what the caller passed
        count: how many examples there are
        name: what to call it in the message

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
        name: what to call it in the message

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
