"""One update of the weights: rates, gradients, clipping, optimizer, moving average."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from soar import randomness
from soar.attacks.recall import Recall
from soar.distributed import World, local_batch
from soar.environment import computes_bfloat16
from soar.errors import UserError
from soar.model_state import placement
from soar.objectives.inner_passes import statistics
from soar.recipes.settings import TrainingSettings
from soar.training import schedules
from soar.training.muon import Muon
from soar.training.weights import Average, decay_groups, memory_layout, perturbed_weights

if TYPE_CHECKING:
    from soar.data import Batch
    from soar.objectives import Objective


class Updates:
    """Everything that changes the weights of a model in training.

    Args:
        objective: the objective to minimize; moved to the device
        settings: the settings of the training
        steps_per_epoch: updates per epoch
        device: the device to compute on
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
        self.objective, self.settings, self.device = objective, settings, device
        self.steps_per_epoch = steps_per_epoch
        self.threat = objective.threat
        objective.micro_batches = settings.accumulation_steps
        objective.label_smoothing = settings.label_smoothing
        self.micro_batch = local_batch(settings.batch_size, settings.accumulation_steps, world)
        self.layout = memory_layout(objective.model, device, channels_last=settings.channels_last)
        objective.to(device)
        objective.model.to(memory_format=self.layout)  # type: ignore[call-overload]
        self.dtype = placement(objective.model)[1]
        self.parameters = [x for x in objective.parameters() if x.requires_grad]
        self.optimizer = make_optimizer(self.parameters, settings)
        self._first_perturbed = round(settings.weight_perturbation_after * steps_per_epoch)
        self._perturbs = settings.weight_perturbation > 0 and self._first_perturbed == 0
        decay = settings.ema_decay
        self.average = None if decay is None else Average(objective.model, decay)
        self.wrapped: nn.Module | DistributedDataParallel = objective

    @property
    def judged_model(self) -> nn.Module:
        """The model that counts: the moving average where there is one."""
        return self.average.model if self.average else self.objective.model

    @contextmanager
    def shared_among(self, world: World) -> Iterator[None]:
        """Wrap the objective, inner attacks included, so that processes average their gradients.

        The wrapper must go while the process group is still there. If it were the last to hold the group, its
        end would wait for the group's threads while holding the lock that they need to end: a deadlock.
        """
        if world.size == 1:
            yield
            return
        ids = [self.device.index] if self.device.type == "cuda" else None
        self.wrapped = DistributedDataParallel(self.objective, device_ids=ids)
        try:
            yield
        finally:
            self.wrapped = self.objective
            gc.collect()

    @contextmanager
    def seeded(self, seed: int, rank: int) -> Iterator[None]:
        """Seed torch's own generators, for models with dropout and the like, and restore them after.

        Args:
            seed: the seed of the run
            rank: the process; each draws numbers of its own
        """
        number = int(randomness.key(seed, rank, "torch's generators"))
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.default_generator.manual_seed(number)
            if self.device.type == "cuda":
                with torch.cuda.device(self.device):
                    torch.cuda.manual_seed(number)
            yield

    def generator_states(self) -> dict[str, Tensor]:
        """Return the states of the generators that a model on the device may use."""
        found = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self.device)
        return found

    def restore_generators(self, states: dict[str, Tensor]) -> None:
        """Restore the states that `generator_states` returned."""
        torch.set_rng_state(states["cpu"])
        if self.device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], self.device)

    def prepare(self, position: int) -> dict[str, float]:
        """Set the learning rate and the threat of an update, and whether it perturbs weights.

        Args:
            position: the update in its schedules, see `Length.position`

        Returns:
            The learning rate, and the radius of the threat where there is one.
        """
        self._perturbs = self.settings.weight_perturbation > 0 and position >= self._first_perturbed
        lr = self.settings.lr * schedules.lr_factor(self.settings, position, self.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if self.threat is None:
            return {"lr": lr}
        factor = schedules.eps_factor(self.settings, position, self.steps_per_epoch)
        self.objective.threat = self.threat if factor == 1 else self.threat.scaled(factor)
        return {"lr": lr, "eps": self.objective.threat.radius}

    def backward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Compute the gradients of a batch.

        Returns:
            The loss, the accuracy, the gradient norm and the objective's metrics, as means over the batch.
        """
        self.optimizer.zero_grad(set_to_none=True)
        moved = batch.on(self.device, self.dtype, self.layout)
        parts = [*zip(*(part.split(self.micro_batch) for part in moved), strict=True)]
        figures = (self._perturbed if self._perturbs else self._accumulate)(parts, step)
        norms = torch.stack(torch._foreach_norm(self._gradients()))
        return figures | {"grad_norm": torch.linalg.vector_norm(norms)}

    def _perturbed(self, parts: list[tuple[Tensor, ...]], step: int) -> dict[str, Tensor]:
        """Compute the gradients at adversarially perturbed weights, at the points of the same attack."""
        recall = Recall()
        # Of the two passes over the batch, BatchNorm counts the second.
        with recall.recording(), statistics(self.objective.model, "batch"):
            self._accumulate(parts, step)
        uphill = perturbed_weights(self.parameters, self.settings.weight_perturbation)
        with uphill, recall.replaying():
            return self._accumulate(parts, step)

    def _accumulate(self, parts: list[tuple[Tensor, ...]], step: int) -> dict[str, Tensor]:
        """Accumulate the gradients of all micro-batches."""
        number = self.settings.accumulation_steps
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
        """Update the weights by the gradients, clipped to the largest allowed norm."""
        largest = self.settings.clip_grad_norm
        if largest is not None and grad_norm > largest:
            for gradient in self._gradients():
                gradient.mul_(largest / grad_norm)
        self.optimizer.step()
        if self.average:
            self.average.update(step + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold besides weights and generators."""
        own = {name: x for name, x in self.objective.state_dict().items() if not _is_weight(name)}
        return {"optimizer": self.optimizer.state_dict()["state"], "objective": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint, except for learning rate and other factors, which come from the settings."""
        settings = self.optimizer.state_dict()
        self.optimizer.load_state_dict(settings | {"state": state["optimizer"]})
        missing, unexpected = self.objective.load_state_dict(state["objective"], strict=False)
        unknown = [*filter(lambda name: not _is_weight(name), missing), *unexpected]
        if unknown:
            raise UserError(f"the checkpoint is of another objective: '{unknown[0]}' does not match")

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def _precision(self) -> AbstractContextManager[Any]:
        is_half = self.settings.precision == "bfloat16"
        if not is_half and not (self.settings.precision == "auto" and computes_bfloat16(self.device)):
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _synchronizing(self, is_last: bool) -> AbstractContextManager[Any]:
        """Let processes exchange gradients only once, after the last micro-batch."""
        if isinstance(self.wrapped, DistributedDataParallel) and not is_last:
            return self.wrapped.no_sync()
        return nullcontext()


def make_optimizer(parameters: Sequence[nn.Parameter], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimizer of a training run.

    Args:
        parameters: all that are trained, in the order of the model
        settings: the optimizer and its numbers

    Raises:
        UserError: for Muon without a convolution that it could train
    """
    decay, norms = settings.weight_decay, settings.weight_decay_norms
    rates: dict[str, Any] = {
        "lr": settings.lr,
        "momentum": settings.momentum,
        "nesterov": settings.nesterov,
    }
    if settings.optimizer == "muon":
        return Muon(parameters, weight_decay=decay, weight_decay_norms=norms, **rates)
    return torch.optim.SGD(decay_groups(parameters, decay, norms=norms), **rates)


def _means(figures: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average the figures of the micro-batches."""
    if len(figures) == 1:
        return figures[0]
    return {name: torch.stack([row[name] for row in figures]).mean() for name in figures[0]}


def _is_weight(name: str) -> bool:
    return name.startswith("model.")
