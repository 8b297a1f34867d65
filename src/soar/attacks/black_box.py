"""What searches without gradients climb, and where they take their random numbers from."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import losses, randomness
from soar.attacks.attack import Examples
from soar.errors import UserError


def check_shape(x: Tensor, attack: str) -> None:
    """Check that images have channels, rows and columns, which a search over pixels moves along.

    Args:
        x: the images
        attack: what to call the attack

    Raises:
        UserError: if they have another shape
    """
    if x.dim() != 4:
        raise UserError(
            f"images: got shape {tuple(x.shape)}, expected (examples, channels, height, width) for {attack}"
        )


def margin(logits: Tensor, examples: Examples) -> Tensor:
    """Return the margin of being fooled: above zero exactly where the search has reached its end.

    It is max_{i != y} z_i - z_y, and z_t - max_{i != t} z_i for an example that is to end in the class t.

    Args:
        logits: the model's answer
        examples: whom the rows belong to
    """
    is_aimed = examples.goal >= 0
    distance = losses.margin(logits, torch.where(is_aimed, examples.goal, examples.labels))
    return torch.where(is_aimed, -distance, distance)


def probability(logits: Tensor, examples: Examples) -> Tensor:
    """Return -p_y, or p_t for an example that is to end in the class t.

    Where the softmax says 1 to the last digit this does not change with the image.

    Args:
        logits: the model's answer
        examples: whom the rows belong to
    """
    is_aimed = examples.goal >= 0
    classes = torch.where(is_aimed, examples.goal, examples.labels)
    chance = logits.softmax(dim=1).gather(1, classes[:, None])[:, 0]
    return torch.where(is_aimed, chance, -chance)


def step_keys(examples: Examples, keys: Tensor, step: Tensor) -> Tensor:
    """Return each example's random key for one step of its search.

    Args:
        examples: who searches
        keys: the key of the search, from `Examples.keys`
        step: the step, one an example
    """
    return randomness.key(examples.seed, keys, "black box step", step)
