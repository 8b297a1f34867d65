"""One update of the weights: rates, gradients, clipping, SGD, moving average."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from soar.attacks.recall import Recall
from soar.distributed import World, local_batch
from soar.errors import UserError
from soar.model_state import placement
from soar.objectives.inner_passes import statistics
from soar.recipes.settings import TrainingSettings
from soar.training import schedules
from soar.training.averaging import Average
from soar.training.layout import memory_layout
from soar.training.weight_perturbation import perturbed_weights

if TYPE_CHECKING:
    from soar.data import Batch
    from soar.objectives import Objective


class Updates:
    """Everything that changes the weights of a model in training.

    Args:
        objective: what to minimize; moved to the device
        settings: how
        steps_per_epoch: updates an epoch
        device: where to compute
        world: the processes that share a batch

    Raises:
        UserError: when the objective, the batch and the settings do not go together
    """

    def __init__(
        self,
        objective: Objective,
        settings: TrainingSettings,
        steps_per_epoch: int,
        *,
        device: torch.device,
        world: World,
    ) -> None:
        if settings.precision == "bfloat16" and not objective.allows_bfloat16:
            raise UserError(
                f"training.precision: got bfloat16, but the objective {type(objective).__name__} "
                "takes differences of gradients that need float32 (flag --training.precision)"
            )
        self.objective, self.settings, self.device = objective, settings, device
        self.steps_per_epoch = steps_per_epoch
        self.threat = objective.threat
        objective.micro_batches = settings.accumulate
        objective.label_smoothing = settings.label_smoothing
        self.micro_batch = local_batch(settings.batch_size, settings.accumulate, world)
        self.layout = memory_layout(objective.model, device, channels_last=settings.channels_last)
        objective.to(device)
        objective.model.to(memory_format=self.layout)  # type: ignore[call-overload]
        self.dtype = placement(objective.model)[1]
        self.parameters = [x for x in objective.parameters() if x.requires_grad]
        self.optimizer = torch.optim.SGD(
            self.parameters,
            lr=settings.lr,
            momentum=settings.momentum,
            nesterov=settings.nesterov,
            weight_decay=settings.weight_decay,
        )
        decay = settings.ema_decay
        self.average = None if decay is None else Average(objective.model, decay)
        self.wrapped: nn.Module | DistributedDataParallel = objective

    @property
    def judged_model(self) -> nn.Module:
        """The model that counts: the moving average where there is one."""
        return self.average.model if self.average else self.objective.model

    def share_among(self, world: World) -> None:
        """Wrap the objective, inner attacks and all, so that processes average their gradients."""
        if world.size > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            self.wrapped = DistributedDataParallel(self.objective, device_ids=ids)

    def work_alone(self) -> None:
        """Let go of the wrapper while the process group is still there.

        If the wrapper were the last to hold the group, its end would wait for the group's threads while
        holding the lock that they need to end: both would wait for ever.
        """
        if isinstance(self.wrapped, DistributedDataParallel):
            self.wrapped = self.objective
            gc.collect()

    def prepare(self, step: int) -> dict[str, float]:
        """Set the learning rate and the threat of an update; say what they are."""
        lr = self.settings.lr * schedules.lr_factor(self.settings, step, self.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if self.threat is None:
            return {"lr": lr}
        factor = schedules.eps_factor(self.settings, step, self.steps_per_epoch)
        self.objective.threat = self.threat if factor == 1 else self.threat.scaled(factor)
        return {"lr": lr, "eps": self.objective.threat.radius}

    def backward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Fill the gradients from a batch.

        Returns:
            The loss, the accuracy, the gradient's norm and the objective's metrics, as means over the batch.
        """
        self.optimizer.zero_grad(set_to_none=True)
        x = batch.x.to(self.device, self.dtype, memory_format=self.layout)
        y, index = batch.y.to(self.device), batch.index.to(self.device)
        parts = [*zip(*(part.split(self.micro_batch) for part in (x, y, index)), strict=True)]
        figures = self._with_perturbed_weights(parts, step) if self._perturbs(step) else self._go(parts, step)
        norms = torch.stack(torch._foreach_norm(self._gradients()))
        return figures | {"grad_norm": torch.linalg.vector_norm(norms)}

    def _perturbs(self, step: int) -> bool:
        begin = round(self.settings.weight_perturbation_after * self.steps_per_epoch)
        return self.settings.weight_perturbation > 0 and step >= begin

    def _with_perturbed_weights(self, parts: list[tuple[Tensor, ...]], step: int) -> dict[str, Tensor]:
        """Find out which way is uphill, and take the gradients there, at the points of the same attack."""
        recall = Recall()
        # Of the two looks at the batch, BatchNorm counts the second.
        with recall.recording(), statistics(self.objective.model, "batch"):
            self._go(parts, step)
        uphill = perturbed_weights(self.parameters, self.settings.weight_perturbation)
        with uphill, recall.replaying():
            return self._go(parts, step)

    def _go(self, parts: list[tuple[Tensor, ...]], step: int) -> dict[str, Tensor]:
        """Add up the gradients of one micro-batch after the other."""
        number = self.settings.accumulate
        figures: list[dict[str, Tensor]] = []
        for place, (images, labels, identities) in enumerate(parts, start=1):
            with self._synchronizing(place == number):
                with self._precision():
                    output = self.wrapped(images, labels, identities, step)
                (output.loss / number).backward()
            accuracy = (output.logits.argmax(dim=1) == labels).float().mean()
            figures.append({"loss": output.loss.detach(), "accuracy": accuracy, **output.metrics})
        return _means(figures)

    def apply(self, step: int, grad_norm: float) -> None:
        """Change the weights by the gradients, cut to the longest allowed norm."""
        longest = self.settings.clip_grad_norm
        if longest is not None and grad_norm > longest:
            for gradient in self._gradients():
                gradient.mul_(longest / grad_norm)
        self.optimizer.step()
        if self.average:
            self.average.update(step + 1)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold besides weights and generators."""
        own = {name: x for name, x in self.objective.state_dict().items() if not _is_weight(name)}
        return {"optimizer": self.optimizer.state_dict()["state"], "objective": own}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint, whose rates and factors are taken from the settings instead."""
        settings = self.optimizer.state_dict()
        self.optimizer.load_state_dict(settings | {"state": state["optimizer"]})
        missing, unexpected = self.objective.load_state_dict(state["objective"], strict=False)
        unknown = [*filter(lambda name: not _is_weight(name), missing), *unexpected]
        if unknown:
            raise UserError(f"the checkpoint is of another objective: '{unknown[0]}' does not match")

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def _precision(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _synchronizing(self, is_last: bool) -> AbstractContextManager[Any]:
        """Let processes exchange gradients only once, after the last micro-batch."""
        if isinstance(self.wrapped, DistributedDataParallel) and not is_last:
            return self.wrapped.no_sync()
        return nullcontext()


def _means(figures: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average the figures of the micro-batches."""
    if len(figures) == 1:
        return figures[0]
    return {name: torch.stack([row[name] for row in figures]).mean() for name in figures[0]}


def _is_weight(name: str) -> bool:
    return name.startswith("model.")
