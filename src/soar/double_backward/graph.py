"""Find out whether the backward pass of a loss will fail, before the caller runs it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from soar.errors import UserError, first_line

_UNDERIVED = tuple(f"torch::autograd::{kind}" for kind in ("Error", "NotImplemented", "DelayedError"))
# These refuse only when they are asked.
_REFUSING = ("CdistBackwardBackward0", "PdistBackwardBackward0", "CudnnRnnBackwardBackward0")


def obstacle(loss: Tensor) -> str | None:
    """Return why a loss cannot be differentiated by the leaves of its graph, None if it can.

    Looks for functions without a derivative and for saved numbers that were overwritten; only where there
    are some is a backward pass tried, because it may not need them.

    Args:
        loss: a number with a graph, which is kept

    >>> x = torch.ones(2, requires_grad=True)
    >>> obstacle(x.exp().sum()), (obstacle(x.exp().mul_(2).sum()) or "")[:60]
    (None, 'RuntimeError: one of the variables needed for gradient compu')
    """
    waiting: list[Any] = [] if loss.grad_fn is None else [loss.grad_fn]
    seen = {None, *waiting}
    leaves, custom, is_suspicious = [], set(), False
    while waiting:
        node = waiting.pop()
        name = node.name()
        is_suspicious |= name in _UNDERIVED or name in _REFUSING or _is_overwritten(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf.requires_grad:
            leaves.append(leaf)
        if isinstance(node, BackwardCFunction):
            custom.add(getattr(node, "_forward_cls", type(node)))
        following = {one for one, _ in node.next_functions} - seen
        seen |= following
        waiting.extend(following)
    if not is_suspicious or not leaves:
        return None
    try:
        torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        theirs = sorted(one.__qualname__ for one in custom if not one.__module__.startswith("soar."))
        # What follows advises people who debug their own backward pass.
        reason = first_line(error).partition(" Hint:")[0]
        return reason + (f"; it calls {', '.join(theirs)}" if theirs else "")
    return None


def undifferentiable(reason: str) -> UserError:
    """Return the error for a model without the derivatives that an objective needs.

    Args:
        reason: what PyTorch says
    """
    return UserError(
        f"model: cannot be differentiated twice ({reason}); expected layers that can, or an objective that"
        " differentiates once, such as nfgsm, adversarial, trades or qub"
    )


def place_of(error: BaseException, model: nn.Module) -> str:
    """Return which module of a model an error comes from, for the end of a message; empty if none is known.

    Args:
        error: was raised while the model ran
        model: the model
    """
    names = {id(module): name for name, module in model.named_modules()}
    place, step = "", error.__traceback__
    while step is not None:
        module = step.tb_frame.f_locals.get("self")
        if id(module) in names:
            place = f", in {names[id(module)] or 'the model'} ({type(module).__name__})"
        step = step.tb_next
    return place


def _is_overwritten(node: Any) -> bool:
    """Return whether reading what a function saved for its backward pass fails."""
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                getattr(node, name)
            except RuntimeError:
                return True
    return False
