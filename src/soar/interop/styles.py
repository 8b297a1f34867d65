"""Our attacks with the calling conventions of other libraries, for code that was written around those."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soar.attacks import Attack, Outcomes, run
from soar.errors import UserError
from soar.evaluation.suites import resolve
from soar.model_state import probing
from soar.prediction import predict
from soar.threat import Threat, threat


class CallableAttack:
    """One of our attacks on a model, called as torchattacks or ART call theirs.

    `attack(images, labels)` on tensors, as in torchattacks; `attack.generate(x, y)` on numpy arrays, as in
    ART. Both return, for each image, a point inside the threat set: one that fools the model where one was
    found, else the one of highest loss that was seen. An image that is misclassified anyway is returned as it
    is.

    Args:
        model: any module that maps images in [0, 1] to logits
        attack: one of `soar.attacks`, or a text such as "pgd:steps=40,restarts=5"
        threat: what the adversary may do
        seed: seed of all random numbers
        batch_size: how many images are evaluated at once

    >>> from soar.threat import Linf
    >>> attack = CallableAttack(nn.Flatten(), "fgsm", Linf(0.25))
    >>> attack(torch.tensor([[[[0.75, 0.5]]]]), torch.tensor([0]))
    tensor([[[[0.5000, 0.7500]]]])
    """

    def __init__(
        self,
        model: nn.Module,
        attack: str | Attack[Any],
        threat: Threat,
        *,
        seed: int = 0,
        batch_size: int = 128,
    ) -> None:
        self.model, self.attack, self.threat = model, _single(attack), threat
        self.seed, self.batch_size = seed, batch_size

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return adversarial images for a batch.

        Args:
            images: float in [0, 1], or uint8
            labels: true classes
        """
        return self.outcomes(images, labels).adversarial

    def generate(self, x: NDArray[Any], y: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return adversarial images for numpy arrays.

        Args:
            x: images in [0, 1], first dimension counts them
            y: true classes, as whole numbers or one-hot; the model's predictions where None
        """
        images = torch.from_numpy(numpy.asarray(x))
        if y is None:
            with probing(self.model):
                labels = predict(self.model, images, self.batch_size).argmax(dim=1).cpu()
        else:
            classes = numpy.asarray(y)
            labels = torch.from_numpy(classes.argmax(axis=1) if classes.ndim == 2 else classes).long()
        points: NDArray[Any] = self(images, labels).cpu().numpy().astype(images.numpy().dtype)
        return points

    def outcomes(self, images: Tensor, labels: Tensor) -> Outcomes:
        """Return all that the engine found, such as which images are robust and the passes it took."""
        attack, limits = self.attack, self.threat
        return run(self.model, attack, limits, images, labels, seed=self.seed, batch_size=self.batch_size)


class FoolboxStyleAttack:
    """One of our attacks without a model, called as foolbox calls its own.

    `raw, clipped, success = attack(model, images, criterion, epsilons=...)`. Our points never leave the ball,
    so that raw and clipped are the same.

    Args:
        attack: one of `soar.attacks`, or a text such as "pgd:steps=40,restarts=5"
        norm: linf or l2
        seed: seed of all random numbers
        batch_size: how many images are evaluated at once

    >>> _, points, success = FoolboxStyleAttack("fgsm")(
    ...     nn.Flatten(), torch.tensor([[[[0.75, 0.5]]]]), torch.tensor([0]), epsilons=[0.1, 0.25]
    ... )
    >>> success.tolist(), points[1].flatten().tolist()
    ([[False], [True]], [0.5, 0.75])
    """

    def __init__(
        self, attack: str | Attack[Any], norm: str = "linf", *, seed: int = 0, batch_size: int = 128
    ) -> None:
        self.attack, self.norm = _single(attack), norm
        self.seed, self.batch_size = seed, batch_size
        threat(norm, 1)  # an unknown norm is refused here

    def __call__(
        self, model: Any, images: Tensor, criterion: Any, *, epsilons: float | Iterable[float]
    ) -> tuple[Any, Any, Tensor]:
        """Attack images with one radius or several.

        Args:
            model: a torch module, or foolbox's wrapper of one with bounds (0, 1)
            images: float in [0, 1]
            criterion: true classes, or foolbox's Misclassification of them
            epsilons: one radius, or several

        Returns:
            Raw points, clipped points and success; with several radii, a list, a list and a row each.

        Raises:
            UserError: for other bounds or another criterion
        """
        module = model if isinstance(model, nn.Module) else _Wrapped(model)
        labels = _labels(criterion)
        radii = list(epsilons) if isinstance(epsilons, Iterable) else [epsilons]
        numbers: dict[str, Any] = {"seed": self.seed, "batch_size": self.batch_size}
        found = [run(module, self.attack, threat(self.norm, eps), images, labels, **numbers) for eps in radii]
        points, success = [one.adversarial for one in found], torch.stack([~one.robust for one in found])
        if isinstance(epsilons, Iterable):
            return points, list(points), success
        return points[0], points[0], success[0]


class _Wrapped(nn.Module):
    """A foolbox model as a torch module: its preprocessing stays in front of the network."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        if tuple(model.bounds) != (0, 1):
            raise UserError(f"model: got bounds {tuple(model.bounds)}, expected (0, 1)")
        self.model = model
        # Modes, gradients and placement are those of the network inside.
        self.network: nn.Module = model._model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits


def _single(attack: str | Attack[Any]) -> Attack[Any]:
    plan = resolve(attack)
    if len(plan) > 1:
        labels = ", ".join(one.attack.label for one in plan)
        raise UserError(f"attack: got '{attack}', a suite of {labels}; expected one attack")
    return plan[0].attack


def _labels(criterion: Any) -> Tensor:
    """Return the true classes of a criterion."""
    if isinstance(criterion, Tensor):
        return criterion
    labels = getattr(criterion, "labels", None)
    if labels is None:
        raise UserError(f"criterion: got a {type(criterion).__name__}, expected labels or Misclassification")
    raw: Tensor = getattr(labels, "raw", labels)
    return raw
