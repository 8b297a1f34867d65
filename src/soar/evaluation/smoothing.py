"""Randomized smoothing: certify the class that a model predicts most often under Gaussian noise."""

from __future__ import annotations

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

# Copies that choose the class; the others, which do not depend on the choice, count it.
CHOOSING = 100
_MOST = 10_000_000


class Votes(NamedTuple):
    """What noisy copies of images vote for: the class that some choose, and how many of the others agree."""

    predictions: Tensor
    counts: Tensor


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    r"""Certify the smoothed model, the class that a model predicts most often under Gaussian noise; l2 only.

    With probability 1 - alpha, the class does not change within the l2 radius \( \sigma \Phi^{-1}(p) \), p a
    lower bound of its probability (Clopper and Pearson); below 1/2 nothing is claimed.
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
        values.whole(self.draws, "method.draws", least=1)
        if self.draws > _MOST:
            raise UserError(f"method.draws: got {self.draws}, expected at most {_MOST} (flag --method)")
        for name, number, limit in (("sigma", self.sigma, torch.inf), ("alpha", self.alpha, 1)):
            values.number(number, f"method.{name}")
            if not 0 < number < limit:
                allowed = "above 0" if limit == torch.inf else "above 0 and below 1"
                raise UserError(f"method.{name}: got {number}, expected {allowed} (flag --method)")

    @property
    def options(self) -> dict[str, float | int | str | bool]:
        """What is recorded."""
        return asdict(self)

    def vote(self, target: Target, row: int) -> Votes:
        """Predict noisy copies of an image: some choose the class, others count how often it is predicted.

        Args:
            target: the model and its images
            row: which of the images
        """
        with probing(target.model), torch.no_grad():
            chosen = self._counts(target, row, CHOOSING, "smoothing: choose").argmax()
            counts = self._counts(target, row, self.draws, "smoothing: count")
        return Votes(chosen.cpu(), counts[chosen].cpu())

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
            [clopper_pearson(count, self.draws, self.alpha) for count in counts.tolist()],
            dtype=torch.float64,
            device="cpu",
        )
        found: Tensor = self.sigma * torch.special.ndtri(chances)
        return found.where(chances > 0.5, -torch.inf)
