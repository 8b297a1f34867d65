"""Ways to hide a network's gradients, each with the way around it that an attack who knows it would take.

Every one of them is a `Trick`. `opened` returns a copy of a model whose tricks are open: they compute what
they did, or nearly, and pass gradients on. Attacks on that copy show what the hidden model really withstands.
"""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Trick(nn.Module):
    """A function that hides gradients, and a soft one that shows them.

    An open trick with `exact` computes soft(x) + (hard(x) - soft(x)), the difference without a gradient: the
    values are the hard function's and the gradient is the soft one's (BPDA, Athalye et al., 2018).
    """

    exact: ClassVar[bool] = True
    """whether an open trick keeps the values of the hard function"""
    hides: bool = True

    def hard(self, x: Tensor) -> Tensor:
        """Return what the model computes."""
        raise NotImplementedError

    def soft(self, x: Tensor) -> Tensor:
        """Return something near it with a useful gradient; the input by default."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return the hard function, or the soft one where the trick is open."""
        if self.hides:
            return self.hard(x)
        soft = self.soft(x)
        return soft + (self.hard(x) - soft).detach() if self.exact else soft


def tricks(model: nn.Module) -> list[Trick]:
    """Return all tricks in a model."""
    return [module for module in model.modules() if isinstance(module, Trick)]


def opened(model: nn.Module) -> nn.Module:
    """Return a copy of a model that hides nothing."""
    found = copy.deepcopy(model)
    for trick in tricks(found):
        trick.hides = False
    return found


class Rounded(Trick):
    """Pixels or activations in steps of 1 / levels: the gradient is zero everywhere."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def hard(self, x: Tensor) -> Tensor:
        """Round to the nearest step."""
        return (self.levels * x).round() / self.levels


class Staircase(Rounded):
    """A ReLU that rises in steps."""

    def hard(self, x: Tensor) -> Tensor:
        """Round down to a step."""
        return (self.levels * x.relu()).floor() / self.levels

    def soft(self, x: Tensor) -> Tensor:
        """Return the ReLU."""
        return x.relu()


class Projected(Trick):
    """Images rebuilt from their principal components by code that computes no gradients."""

    mean: Tensor
    basis: Tensor

    def __init__(self, images: Tensor, components: int) -> None:
        super().__init__()
        flat = images.flatten(1)
        self.register_buffer("mean", flat.mean(dim=0))
        variances, vectors = torch.linalg.eigh(flat.double().T.cov())
        self.register_buffer("basis", vectors[:, variances.argsort(descending=True)[:components]].float())

    def hard(self, x: Tensor) -> Tensor:
        """Project without gradients."""
        with torch.no_grad():
            return self.soft(x)

    def soft(self, x: Tensor) -> Tensor:
        """Project."""
        flat = x.flatten(1) - self.mean
        return (flat @ self.basis @ self.basis.T + self.mean).view_as(x).clamp(0, 1)


class Thermometer(Trick):
    """Every pixel as a column of bits, one for each level it exceeds (Buckman et al., 2018)."""

    levels: Tensor

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.register_buffer("levels", torch.arange(levels).view(1, levels, 1, 1) / levels)

    def hard(self, x: Tensor) -> Tensor:
        """Compare with every level."""
        return (x > self.levels + 0.5 / self.levels.numel()).to(x.dtype)

    def soft(self, x: Tensor) -> Tensor:
        """Return ramps of the width of a level."""
        return (self.levels.numel() * (x - self.levels)).clamp(0, 1)


class Scaled(Trick):
    """Logits multiplied by a factor that saturates the softmax."""

    exact = False

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def hard(self, x: Tensor) -> Tensor:
        """Multiply."""
        return self.factor * x


class Clamped(Trick):
    """Logarithms of sharpened probabilities, which are cut off below, in place of logits."""

    exact = False

    def __init__(self, factor: float, floor: float) -> None:
        super().__init__()
        self.factor, self.floor = factor, floor

    def hard(self, x: Tensor) -> Tensor:
        """Return log max(p, floor) of the sharpened prediction."""
        return (self.factor * x).softmax(dim=1).clamp_min(self.floor).log()


class Detached(Trick):
    """The main network sees its input detached; a weak one beside it leaves gradients that mislead."""

    exact = False

    def __init__(self, network: nn.Module, decoy: nn.Module, share: float) -> None:
        super().__init__()
        self.network, self.decoy, self.share = network, decoy, share

    def hard(self, x: Tensor) -> Tensor:
        """Return the logits, with the decoy's gradient."""
        logits: Tensor = self.network(x.detach()) + self.share * self.decoy(x)
        return logits

    def soft(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.network(x) + self.share * self.decoy(x)
        return logits


class _Gradient(torch.autograd.Function):
    """The identity, with another function of the gradient behind it."""

    @staticmethod
    def forward(context: Any, x: Tensor, scrambles: bool) -> Tensor:
        context.scrambles = scrambles
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return (gradient.flip(-2, -1).roll(3, -1) if context.scrambles else -gradient), None


class Reversed(Trick):
    """The gradient with the opposite sign."""

    scrambles: ClassVar[bool] = False

    def hard(self, x: Tensor) -> Tensor:
        """Return the input."""
        found: Tensor = _Gradient.apply(x, self.scrambles)  # type: ignore[no-untyped-call]
        return found


class Scrambled(Reversed):
    """The gradient with its pixels in other places."""

    scrambles = True


class Steep(Trick):
    """A sigmoid so steep that it is flat nearly everywhere."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def hard(self, x: Tensor) -> Tensor:
        """Return sigmoid(slope x)."""
        return (self.slope * x).sigmoid()

    def soft(self, x: Tensor) -> Tensor:
        """Return a sigmoid of ordinary slope."""
        return (4 * x).sigmoid()


class Noisy(Trick):
    """Noise that is new at every call."""

    exact = False

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def hard(self, x: Tensor) -> Tensor:
        """Add noise."""
        return (x + self.deviation * torch.randn_like(x)).clamp(0, 1)


class Threshold(Trick):
    """Pixels that are black or white."""

    def hard(self, x: Tensor) -> Tensor:
        """Return 1 above one half, else 0."""
        return (x > 0.5).to(x.dtype)


class Cosine(Trick):
    """JPEG without its file format: the cosine transform of 4 x 4 blocks, in coarse steps.

    Args:
        step: what the coefficient of a block's mean is rounded to; twice that for the highest frequency
    """

    transform: Tensor
    steps: Tensor

    def __init__(self, step: float) -> None:
        super().__init__()
        n = torch.arange(4)
        rows = (math.pi / 4 * n[:, None] * (n + 0.5)).cos() * (2 / 4) ** 0.5
        rows[0] /= 2**0.5
        self.register_buffer("transform", torch.kron(rows, rows))
        self.register_buffer("steps", (step * (1 + (n[:, None] + n) / 6)).flatten()[:, None])

    def hard(self, x: Tensor) -> Tensor:
        """Transform, round and transform back."""
        blocks = F.unfold(x, 4, stride=4)
        rounded = (self.transform @ blocks / self.steps).round() * self.steps
        return F.fold(self.transform.T @ rounded, x.shape[-2:], 4, stride=4).clamp(0, 1)


class Lookup(Trick):
    """Every gray level has a learned vector, taken from a table by its number."""

    def __init__(self, levels: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(levels, width)

    def _at(self, level: Tensor) -> Tensor:
        found: Tensor = self.table(level.long().squeeze(1))
        return found.movedim(-1, 1)

    def hard(self, x: Tensor) -> Tensor:
        """Look up the nearest level."""
        return self._at(((self.table.num_embeddings - 1) * x).round())

    def soft(self, x: Tensor) -> Tensor:
        """Interpolate between the levels above and below."""
        place = ((self.table.num_embeddings - 1) * x).clamp(0, self.table.num_embeddings - 1.001)
        share = place - place.detach().floor()
        return (1 - share) * self._at(place.floor()) + share * self._at(place.floor() + 1)


class Codebook(Trick):
    """Every 4 x 4 patch is replaced by the nearest of a few, by argmax."""

    patches: Tensor

    def __init__(self, images: Tensor, size: int) -> None:
        super().__init__()
        every = F.unfold(images, 4, stride=4).transpose(1, 2).flatten(0, 1)
        lively = every[every.std(dim=1) > 0.05]
        chosen = lively[:: len(lively) // size][: size - 4]
        plain = torch.linspace(0, 1, 4)[:, None].expand(4, every.shape[1])
        self.register_buffer("patches", torch.cat([plain, chosen]))

    def hard(self, x: Tensor) -> Tensor:
        """Return the nearest patches."""
        found = F.unfold(x, 4, stride=4).transpose(1, 2)
        nearest = (found @ self.patches.T - self.patches.square().sum(dim=1) / 2).argmax(dim=2)
        return F.fold(self.patches[nearest].transpose(1, 2), x.shape[-2:], 4, stride=4)


class Winners(Trick):
    """Only the largest activations of a layer pass (k-winners-take-all, Xiao et al., 2020)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def hard(self, x: Tensor) -> Tensor:
        """Set all but the largest to zero."""
        flat = x.flatten(1)
        least = flat.topk(max(1, int(self.share * flat.shape[1])), dim=1).values[:, -1:]
        return (flat * (flat >= least)).view_as(x)


class Votes(Trick):
    """Labels only: the share of slightly shifted copies that a class is predicted for."""

    exact = False

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def _copies(self, x: Tensor) -> list[Tensor]:
        places = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        return [self.network(x.roll(place, (-2, -1))) for place in places]

    def hard(self, x: Tensor) -> Tensor:
        """Count labels; the place of a class decides ties."""
        votes = [F.one_hot(one.argmax(dim=1), one.shape[1]) for one in self._copies(x)]
        shares = torch.stack(votes).to(x.dtype).mean(dim=0)
        return shares - 1e-3 * torch.arange(shares.shape[1])

    def soft(self, x: Tensor) -> Tensor:
        """Average the logits."""
        return torch.stack(self._copies(x)).mean(dim=0)


class LogOfMean(Trick):
    """The logarithm of the mean probability of several confident networks."""

    exact = False

    def __init__(self, *networks: nn.Module, sharpness: float) -> None:
        super().__init__()
        self.networks, self.sharpness = nn.ModuleList(networks), sharpness

    def hard(self, x: Tensor) -> Tensor:
        """Average probabilities."""
        shares = [(self.sharpness * network(x)).softmax(dim=1) for network in self.networks]
        return (torch.stack(shares).mean(dim=0) + 1e-20).log()

    def soft(self, x: Tensor) -> Tensor:
        """Average logits."""
        return torch.stack([network(x) for network in self.networks]).mean(dim=0)


class Ripple(Trick):
    """A wave too small to see and so steep that gradients point anywhere; differentiable."""

    def __init__(self, height: float, frequency: float) -> None:
        super().__init__()
        self.height, self.frequency = height, frequency

    def hard(self, x: Tensor) -> Tensor:
        """Add the wave."""
        return x + self.height * (self.frequency * x).sin()


class Median(Trick):
    """The median of 3 x 3 pixels, rounded to a few levels (feature squeezing, Xu et al., 2018)."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def hard(self, x: Tensor) -> Tensor:
        """Filter and round."""
        around = F.unfold(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3)
        middle = around.median(dim=1).values.view_as(x)
        return (self.levels * middle).round() / self.levels

    def soft(self, x: Tensor) -> Tensor:
        """Return the mean of 3 x 3 pixels."""
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)


class Guarded(Trick):
    """A detector of noise: images it finds noisy are smoothed and predicted without gradients."""

    exact = False

    def __init__(self, network: nn.Module, threshold: float) -> None:
        super().__init__()
        self.network, self.threshold = network, threshold

    def _logits(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        smooth = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)
        smooth = 0.5 * x + 0.5 * smooth
        noise = (x - smooth).abs().flatten(1).median(dim=1).values
        return self.network(x), self.network(smooth), (noise > self.threshold)[:, None]

    def hard(self, x: Tensor) -> Tensor:
        """Detach where noise is found."""
        plain, smooth, is_noisy = self._logits(x)
        return torch.where(is_noisy, smooth.detach(), plain)

    def soft(self, x: Tensor) -> Tensor:
        """Choose in the same way, and detach nothing."""
        plain, smooth, is_noisy = self._logits(x)
        return torch.where(is_noisy, smooth, plain)


class Moved(Trick):
    """Images enlarged or made smaller, and moved, anew at every call (Xie et al., 2018)."""

    exact = False

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def hard(self, x: Tensor) -> Tensor:
        """Resize to a random size and pad at random to the old one."""
        height = x.shape[-1]
        size = int(torch.randint(height - self.most, height + 1, ()))
        left, top = (int(torch.randint(0, height - size + 1, ())) for _ in range(2))
        smaller = F.interpolate(x, (size, size), mode="bilinear", align_corners=False)
        return F.pad(smaller, (left, height - size - left, top, height - size - top))


class Nearest(Trick):
    """Pixels that take the nearest of a few levels, which clean images already have."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def hard(self, x: Tensor) -> Tensor:
        """Round without gradients."""
        with torch.no_grad():
            return ((self.levels - 1) * x).round() / (self.levels - 1)
