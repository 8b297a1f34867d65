"""The shortest way from an image to a hyperplane that does not leave the pixel range."""

from __future__ import annotations

from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.errors import UserError
from soar.geometry import fill
from soar.shapes import per_example
from soar.threat import L1, L2, Linf, Threat

# Pixels on which the plane does not depend, next to the one on which it depends most, are left alone in l2
# and l1.
_NEGLIGIBLE = 1e-8
# Moves shorter than this count as this long when two of them are weighed against each other.
_SHORT = 1e-8
# So many rounds are made on a GPU before it is asked whether they were enough.
_ROUNDS = 8


def nearest(points: Tensor, normal: Tensor, value: Tensor, threat: Threat) -> Tensor:
    r"""Return the smallest move, in the threat's norm, onto a hyperplane inside [0, 1]^d.

    argmin ||m||   subject to   value + <normal, m> = 0   and   0 <= points + m <= 1

    Let c = |value|, s_i the sign of normal_i * value, and r_i the room that pixel i has against s_i.
    The solution is m_i = -s_i min(t v_i, r_i), v_i = 1 for linf and v_i = |normal_i| for l2, where t solves

    g(t) = \sum_i |normal_i| min(t v_i, r_i) = c.

    g is concave, so Newton's method from t = 0 climbs to the solution and never passes it. It ends there
    exactly, because it changes t only when further pixels have used up their room. The product of
    derivative and remaining gap falls at least fourfold each round; images need about five rounds and no
    sorting. In l1 the pixels of the largest |normal_i| use up their room, one after the other, until the
    gap is closed. A plane that cannot be reached is approached with all the room there is. (The
    projection of Croce and Hein, *Minimally distorted adversarial examples with a fast adaptive boundary
    attack*, 2020.)

    Args:
        points: images in [0, 1]
        normal: one normal vector per example; any length
        value: of the linear function at the points, one per example: how far they are from the plane
        threat: sets the norm; its radius is not used

    >>> x = torch.tensor([[0.5, 0.9]])
    >>> nearest(x, torch.tensor([[-1.0, -1.0]]), torch.tensor([0.4]), Linf(1))
    tensor([[0.3000, 0.1000]])
    """
    in_linf, in_l1 = isinstance(threat, Linf), isinstance(threat, L1)
    if not isinstance(threat, Linf | L2 | L1):
        raise UserError(f"threat: got {threat!r}, expected Linf, L2 or L1")
    value = value.nan_to_num(nan=0.0)
    # The largest entry of the normal becomes 1, so that squares of tiny entries do not vanish.
    flat = normal.flatten(1)
    largest = flat.abs().amax(dim=1).clamp(min=torch.finfo(flat.dtype).tiny)
    w = flat * (value.sign() / largest)[:, None]
    gap = value.abs() / largest
    if not in_linf:
        w = F.hardshrink(w, _NEGLIGIBLE)
    # Comparisons that write numbers, and products in place of `where`: many times faster on a CPU.
    border = torch.lt(w, 0, out=torch.empty_like(w))
    room = (border - points.flatten(1)).abs_()
    weight = w.abs()
    if in_l1:
        # Pixels that are left alone have a weight of 0, and get 0 of the gap.
        size = torch.minimum(fill(weight, weight * room, gap) / weight.clamp(min=_NEGLIGIBLE), room)
    else:
        size = _spread(gap, weight, None if in_linf else weight, room)
    return size.mul_(w.sign_()).neg_().reshape(points.shape)


def step_over(
    points: Tensor, x: Tensor, value: Tensor, gradient: Tensor, threat: Threat, *, alpha: float, eta: float
) -> Tensor:
    """Step over the border of the linearized model, with a pull toward the image.

    x_{k+1} = clip((1 - a) (x_k + eta d_1) + a (x_0 + eta d_2)), see `FAB`.

    Args:
        points: x_k
        x: the images, x_0
        value: of z_t - z_y at the points
        gradient: of z_t - z_y at the points
        threat: sets the norm
        alpha: the largest a
        eta: how far to overshoot

    >>> x, gradient = torch.full((1, 2), 0.5), torch.tensor([[1.0, 3.0]])
    >>> step_over(x, x, torch.tensor([-0.4]), gradient, Linf(1), alpha=0.1, eta=1.05)
    tensor([[0.6050, 0.6050]])
    """
    at_image = value + (gradient * (x - points)).flatten(1).sum(dim=1)
    if points.device.type == "cpu":
        # One after the other: tensors twice as large would be fresh memory at every operation.
        from_point = nearest(points, gradient, value, threat)
        from_image = nearest(x, gradient, at_image, threat)
    else:
        # Together, which waits for the device once.
        centers, values = torch.cat([points, x]), torch.cat([value, at_image])
        from_point, from_image = nearest(centers, torch.cat([gradient, gradient]), values, threat).chunk(2)
    lengths, others = (threat.norm(move).clamp(min=_SHORT) for move in (from_point, from_image))
    share = lengths / (lengths + others)
    from_point, from_image = (move.mul_(eta).add_(at) for move, at in ((from_point, points), (from_image, x)))
    ahead = torch.lerp(from_point, from_image, per_example(share.clamp(max=alpha), x)).clamp_(0, 1)
    return ahead.to(points.dtype)  # the value may be more precise


def _spread(gap: Tensor, weight: Tensor, reach: Tensor | None, room: Tensor) -> Tensor:
    """Return min(t reach, room) with the t for which <weight, min(t reach, room)> is the gap.

    Args:
        gap: at least 0, one per example
        weight: how much of the gap a pixel closes per unit of its move, from 0 to 1
        reach: how far a pixel moves with t = 1; None for 1, as far as t
        room: how far it can move, from 0 to 1
    """
    # Pixel i has used up its room from this t on; one that does not matter never has.
    until = room if reach is None else room / reach
    longest = 1.0 if reach is None else 1 / _NEGLIGIBLE
    gain, limit = weight if reach is None else weight * reach, weight * room
    flags = torch.empty_like(room)
    t = torch.zeros_like(gap)
    spent, rate = torch.full_like(gap, -1), torch.full_like(gap, -1)
    for round_number in count(1):
        before, spent = spent, torch.linalg.vecdot(limit, torch.le(until, t[:, None], out=flags))
        former, rate = rate, torch.linalg.vecdot(gain, torch.gt(until, t[:, None], out=flags))
        # t never falls, so where neither has changed no pixel that matters has used up its room since, and
        # further rounds change nothing. On a GPU they cost less than to ask after each.
        is_asked = gap.device.type == "cpu" or round_number % _ROUNDS == 0
        if is_asked and bool(((spent == before) & (rate == former)).all()):
            break
        step = (gap - spent).clamp_(min=0) / rate.clamp(min=torch.finfo(rate.dtype).tiny)
        t = torch.maximum(t, step.clamp_(max=longest))
    return torch.minimum(t[:, None] if reach is None else t[:, None] * reach, room)
