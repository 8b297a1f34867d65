"""Randomized smoothing: certify the class that a model predicts most often under Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from soar import randomness, values
from soar.errors import UserError
from soar.evaluation.interval import clopper_pearson
from soar.evaluation.target import Target
from soar.model_state import probing
from soar.prediction import logits_of

# Draws that choose the class; others, which have not seen the choice, count it.
CHOOSING = 100


class Votes(NamedTuple):
    """What the draws around each image say: the class that was chosen, and how many of the others agree."""

    predictions: Tensor
    counts: Tensor


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    r"""Certify the smoothed model g(x), the most frequent class of f(x + n), n normal with deviation sigma.

    With probability 1 - alpha, g does not change within the l2 radius \( \sigma \Phi^{-1}(p) \), p a lower
    bound of the probability of its class (Clopper and Pearson); below 1/2 nothing is claimed.
    Source: Cohen, Rosenfeld, Kolter, "Certified Adversarial Robustness via Randomized Smoothing", 2019.

    Args:
        sigma: standard deviation of the noise, in units of pixels in [0, 1]
        draws: noisy copies of each image that are counted
        alpha: the probability that a certificate is wrong, for each image

    >>> radii = Smoothing(sigma=0.5, draws=1000).radii(torch.tensor([1000, 990, 500]))
    >>> [round(radius, 3) for radius in radii.tolist()]
    [1.232, 0.989, -inf]
    """

    sigma: float = 0.25
    draws: int = 1000
    alpha: float = 0.001
    method = "smoothing"

    def __post_init__(self) -> None:
        values.whole(self.draws, "draws", least=1)
        for name, number, limit in (("sigma", self.sigma, torch.inf), ("alpha", self.alpha, 1)):
            if not 0 < number < limit:
                raise UserError(f"{name}: got {number}, expected above 0 and below {limit:g} (flag --{name})")

    @property
    def options(self) -> dict[str, float | int | str | bool]:
        """What is recorded."""
        return asdict(self)

    def vote(self, target: Target, rows: Tensor, listen: Callable[[Tensor, Votes], None]) -> None:
        """Predict noisy copies of some images.

        Args:
            target: the model and its images
            rows: which of the images
            listen: takes the rows of a finished image and its votes
        """
        with probing(target.model), torch.no_grad():
            for row in rows:
                first = self._counts(target, int(row), CHOOSING, "smoothing: choose")
                chosen = first.argmax(dim=0, keepdim=True)
                counts = self._counts(target, int(row), self.draws, "smoothing: count")
                listen(row[None], Votes(chosen.cpu(), counts[chosen].cpu()))

    def _counts(self, target: Target, row: int, draws: int, stream: str) -> Tensor:
        """Return how often each class is predicted for noisy copies of an image."""
        x, classes = target.x[row : row + 1], target.logits.shape[1]
        counts = torch.zeros(classes, dtype=torch.int64, device=x.device)
        for steps in torch.arange(draws, device=x.device).split(target.batch_size):
            keys = randomness.key(
                target.seed, target.index[row].to(x.device).expand(len(steps)), stream, steps
            )
            noise = randomness.normal(keys, tuple(x.shape[1:]), x.dtype)
            predicted = logits_of(target.model, x + self.sigma * noise).argmax(dim=1)
            counts += torch.bincount(predicted, minlength=classes)
        return counts

    def radii(self, counts: Tensor) -> Tensor:
        """Return the l2 radius that is certified for each image; minus infinity where nothing is."""
        chances = torch.tensor(
            [clopper_pearson(count, self.draws, self.alpha) for count in counts.tolist()], dtype=torch.float64
        )
        found: Tensor = self.sigma * torch.special.ndtri(chances)
        return found.where(chances > 0.5, -torch.inf)
