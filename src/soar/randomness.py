r"""Random numbers that are a pure function of (seed, example, stream, step).

An ordinary generator draws numbers in the order of its calls, so the numbers of an example depend on its
neighbors in the batch, on the shard and on where a run was interrupted. Here every example has its own
key and the j-th number of a key is `mix(key + j * GOLDEN)`, with the finalizer of SplitMix64
(Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014). The words are 64-bit integers
and therefore the same on every device, and so are all numbers but those of `normal`, whose logarithm and
cosine may differ in their last bits.

>>> import torch
>>> whole = uniform(key(0, torch.arange(8), "demo"), (3,))
>>> part = uniform(key(0, torch.tensor([5]), "demo"), (3,))
>>> bool((whole[5] == part[0]).all())
True
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_LOW_32 = 0xFFFFFFFF


def key(seed: int, index: Tensor | int, stream: str, step: Tensor | int = 0) -> Tensor:
    """Return one key per example, from which all its numbers of one stream and step follow.

    Args:
        seed: the seed of the run
        index: the identity of each example, not its position in the batch
        stream: what the numbers are for, such as "pgd start"; different streams are independent
        step: the iteration, epoch or restart; one for all examples or one for each

    Returns:
        One 64-bit key per example, on the device of `index`.
    """
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    root = _signed(int.from_bytes(digest, "little"))
    device = index.device if isinstance(index, Tensor) else "cpu"
    examples = torch.as_tensor(index, dtype=torch.int64, device=device).reshape(-1)
    steps = torch.as_tensor(step, dtype=torch.int64, device=examples.device)
    by_example = _mix(_mix(examples + root) + root)
    return _mix(by_example ^ _mix(steps + _signed(_GOLDEN)))


def uniform(keys: Tensor, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from the uniform distribution on [0, 1), with 24 random bits per number.

    Args:
        keys: one key per example
        shape: the shape of the numbers of each example
        dtype: the type of the result; the values do not depend on it
    """
    bits = _words(keys, math.prod(shape))
    return _shift(bits, 40).to(dtype).mul_(2.0**-24).reshape(-1, *shape)


def normal(keys: Tensor, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from the standard normal distribution (Box and Muller), two numbers per 64-bit word.

    Args:
        keys: one key per example
        shape: the shape of the numbers of each example
        dtype: the type of the result
    """
    count = math.prod(shape)
    bits = _words(keys, (count + 1) // 2)
    # The radius must not be infinite, so its uniform number lies in (0, 1].
    radius = _shift(bits, 32).to(dtype).add_(1).mul_(2.0**-32).log_().mul_(-2).sqrt_()
    angle = (bits & _LOW_32).to(dtype).mul_(2 * math.pi * 2.0**-32)
    pairs = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
    return pairs[:, :count].reshape(-1, *shape)


def sign(keys: Tensor, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw -1 or +1 with equal probability.

    Args:
        keys: one key per example
        shape: the shape of the numbers of each example
        dtype: the type of the result
    """
    bits = _words(keys, math.prod(shape))
    return _shift(bits, 63).mul_(2).sub_(1).to(dtype).reshape(-1, *shape)


def integers(keys: Tensor, high: int, shape: tuple[int, ...] = ()) -> Tensor:
    """Draw whole numbers from 0 to `high` - 1, all equally likely.

    Args:
        keys: one key per example
        high: the number of different values
        shape: the shape of the numbers of each example
    """
    bits = _words(keys, math.prod(shape))
    return _shift(bits, 1).remainder_(high).reshape(-1, *shape)


def permutation(keys: Tensor, length: int) -> Tensor:
    """Draw a random permutation of 0 ... `length` - 1 for every key.

    Args:
        keys: one key per example
        length: the number of items
    """
    return _words(keys, length).argsort(dim=1, stable=True)


def _words(keys: Tensor, count: int) -> Tensor:
    """Return the first `count` 64-bit words of every key, shape (examples, count)."""
    counter = torch.arange(1, count + 1, dtype=torch.int64, device=keys.device)
    return _mix(keys[:, None] + counter * _signed(_GOLDEN))


def _mix(words: Tensor) -> Tensor:
    """Scramble 64-bit words so that every input bit changes every output bit half of the time."""
    words = words ^ _shift(words, 30)
    words.mul_(_signed(0xBF58476D1CE4E5B9))
    words ^= _shift(words, 27)
    words.mul_(_signed(0x94D049BB133111EB))
    words ^= _shift(words, 31)
    return words


def _shift(words: Tensor, places: int) -> Tensor:
    """Shift right and fill with zeros; torch's own shift repeats the sign bit."""
    return (words >> places).bitwise_and_((1 << (64 - places)) - 1)


def _signed(word: int) -> int:
    """Read 64 bits as the signed integer that torch stores."""
    return word - (1 << 64) if word >= 1 << 63 else word
