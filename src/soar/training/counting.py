"""Count what a training asks of its network, by one update and one attack on a few images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from soar import attacks
from soar.data import Batch, training_batches
from soar.model_state import probing
from soar.objectives.inner_passes import statistics
from soar.training import generators
from soar.training.cost import STILL_RIGHT, Cost, Work, phases, validations
from soar.training.validation import attack_of

if TYPE_CHECKING:
    from soar.training.trainer import Trainer

_FEW = 2
_CLEAR = 8.0
_TINY = 1e-6


def count(trainer: Trainer) -> Cost:
    """Count the passes and operations of a training; nothing is timed and nothing is written.

    Args:
        trainer: made for this purpose; it is not fit for training afterwards
    """
    whole = next(batches(trainer))
    few = Batch(*(part[:_FEW] for part in whole))
    parts = phases(trainer.training, trainer.total_steps, trainer.steps_per_epoch)
    return Cost(
        updates=tuple(_count_update(trainer, few, first, times) for first, times in parts),
        validation=count_validation(trainer, trainer.validation.steps) if len(trainer.held_out) else None,
        updates_per_epoch=trainer.steps_per_epoch,
        parameters=sum(x.numel() for x in trainer.objective.model.parameters()),
        processes=trainer.world.size,
    )


def batches(trainer: Trainer) -> Iterator[Batch]:
    """Return the batches of the first epoch, this process's part of each."""
    return training_batches(
        trainer.data.train,
        batch_size=trainer.training.batch_size,
        seed=trainer.seed,
        epoch=0,
        augmentation=trainer.augmentation,
        rank=trainer.world.rank,
        world_size=trainer.world.size,
        workers=trainer.training.workers,
    )


@contextmanager
def sure(trainer: Trainer, batch: Batch) -> Iterator[tuple[Batch, Passes]]:
    """Let the network be sure of its answers, and make these the labels of a batch.

    An objective that searches around right examples only, as MMA does, then has all its work to do.
    """
    model, updates = trainer.objective.model, trainer.updates
    trainer.objective.train()
    x = batch.x.to(updates.device, updates.dtype, memory_format=updates.layout)
    with statistics(model, "batch"), torch.no_grad():
        best = model(x).topk(2, dim=1)
    gap = float((best.values[:, 0] - best.values[:, 1]).median())
    passes = Passes(_CLEAR / gap if gap > 0 else 1.0)
    hook = model.register_forward_hook(passes)
    try:
        yield batch._replace(y=best.indices[:, 0].to(batch.y.device)), passes
    finally:
        hook.remove()


def update(trainer: Trainer, batch: Batch, step: int) -> None:
    """Do all the work of an update, with a learning rate of 0, so that weights stay as they are."""
    updates = trainer.updates
    updates.prepare(step)
    for group in updates.optimizer.param_groups:
        group["lr"] = 0.0
    figures = updates.backward(batch, step)
    updates.apply(step, float(figures["grad_norm"]))


def look(trainer: Trainer, images: Tensor, steps: int) -> tuple[int, int]:
    """Attack as validation does, within a radius so small that no image leaves the attack early.

    Args:
        trainer: whose validation it is
        images: held-out ones
        steps: of the attack

    Returns:
        The passes of an image, forwards and backwards.
    """
    model, size = trainer.updates.judged_model, trainer.validation.batch_size
    with probing(model):
        logits = attacks.predict(model, images, size)
    if trainer.threat is None:
        return 1, 0
    found = attacks.run(
        model,
        replace(attack_of(trainer.validation), steps=steps),
        trainer.threat.scaled(_TINY),
        images,
        logits.argmax(dim=1),
        batch_size=size,
        clean_logits=logits,
    )
    return 1 + int(found.forward.max()), int(found.backward.max())


def count_validation(trainer: Trainer, steps: int) -> Work:
    """Count the work of a validation whose attack has so many steps."""
    images, examples = trainer.held_out.images[:_FEW], len(trainer.held_out)
    with _Arithmetic() as arithmetic:
        forwards, backwards = look(trainer, images, steps)
    return Work(
        name="validation",
        times=validations(trainer.total_steps, trainer.validation.every * trainer.steps_per_epoch),
        images=examples,
        forwards=forwards,
        backwards=backwards,
        flop=arithmetic.flop * examples / len(images),
        needed=1.0 if trainer.threat is None else STILL_RIGHT,
    )


def _count_update(trainer: Trainer, few: Batch, step: int, times: int) -> Work:
    with generators.seeded(trainer.seed, trainer.world.rank, trainer.device), sure(trainer, few) as watched:
        batch, passes = watched
        with _Arithmetic() as arithmetic:
            update(trainer, batch, step)
    size = trainer.training.batch_size
    return Work(
        name="update",
        times=times,
        images=size,
        forwards=passes.forwards,
        backwards=passes.backwards,
        flop=arithmetic.flop * size / len(few.y),
    )


class Passes:
    """A hook that counts the passes through a model and makes its logits larger.

    Args:
        sharpness: the factor on the logits
    """

    def __init__(self, sharpness: float) -> None:
        self.sharpness, self.forwards, self.backwards = sharpness, 0, 0

    def __call__(self, _: nn.Module, __: Any, logits: Tensor) -> Tensor:
        """Count, and pass the logits on, larger."""
        self.forwards += 1
        sharp = self.sharpness * logits
        if sharp.requires_grad:
            sharp.register_hook(self._come_back)
        return sharp

    def _come_back(self, _: Tensor) -> None:
        self.backwards += 1


class _Arithmetic(TorchDispatchMode):
    """Adds up the floating-point operations of products and convolutions.

    PyTorch's own FlopCounterMode does not work with gradients inside a training step.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flop = 0.0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        answer = function(*given, **(named or {}))
        formula = flop_registry.get(function._overloadpacket)
        if formula is not None:
            self.flop += formula(*given, **(named or {}), out_val=answer)
        return answer
