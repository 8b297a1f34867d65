"""Inspect a model's outputs before any attack is run: what cannot be evaluated, and what misleads attacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.evaluation.assessment import Note
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of

# Rounding, in units of the last place of the largest logit. A batch of another size takes other kernels,
# which round more differently than the same ones do when run again.
SAME_BATCH = 1e2
_OTHER_BATCH = 1e4
# Fewer images may well be of a few classes only.
_ENOUGH = 20
# In low precision the above would let everything pass.
_MOST = 0.05


class SpareOutputsWarning(UserWarning):
    """A model has more outputs than its data has classes."""


def inspect(target: Target) -> tuple[Note, ...]:
    """Refuse outputs that cannot be evaluated and note those that mislead attacks, each in one line.

    At most two extra forward passes are made: the first batch again, and its first image alone. The latter is
    left out where there is only one image, and for randomized models, of which it would tell nothing. The
    model's modes, flags and buffers are left as they were, and so is the global generator.

    Args:
        target: the model, in any mode, with its examples

    Returns:
        Notes: probabilities in place of logits, random outputs, outputs that depend on the other images
        of the batch, layers that do not follow `model.eval()`. None for a sound model or without images.

    Raises:
        UserError: if the outputs are not one row of at least two finite logits for each image, if a label is
            not one of the classes, or if the model does not take a single image

    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.2]]], [[[0.4, 0.5]]]]), torch.tensor([0, 1])
    >>> inspect(Target(model=nn.Flatten(), data=(x, y), threat=Linf("0.1")))
    ()
    """
    if not len(target):
        return ()
    with untouched(target.model):
        return tuple(_notes(target))


def _notes(target: Target) -> Iterator[Note]:
    model, logits, batch = target.model, target.logits, target.x[: target.batch_size]
    if _are_probabilities(logits):
        yield Note(
            "probabilities",
            "model: got outputs in [0, 1] that sum to 1, expected logits; the model returns probabilities,"
            " which weakens attacks on the cross-entropy and on margins: remove the softmax",
        )
    noise = difference(logits[: len(batch)], logits_of(model, batch), SAME_BATCH)
    if noise is not None:
        yield Note(
            "random",
            f"model: got outputs that differ by {noise} between two passes, expected the same;"
            ' the model is randomized: use attacks="rand"',
        )
    # An attack would otherwise fail with its last example.
    elif len(target) > 1 and (change := difference(logits[:1], logits_of(model, batch[:1]), _OTHER_BATCH)):
        yield Note(
            "batch",
            f"model: got outputs that differ by {change} between an image alone and in a batch, expected the"
            " same; outputs depend on the batch, as with BatchNorm on batch statistics",
        )
    if names := in_training(model):
        kind = type(model.get_submodule(names[0])).__name__
        yield Note(
            "modes",
            f"model: got {len(names)} BatchNorm or Dropout modules in training mode after model.eval(), such"
            f" as '{names[0]}' ({kind}), expected none; an overridden train() or forward() puts them there",
        )


def _are_probabilities(logits: Tensor) -> bool:
    allowed = max(1e-4, 8 * torch.finfo(logits.dtype).eps)
    sums = logits.cpu().double().sum(dim=1)
    return bool(((sums - 1).abs() <= allowed).all()) and float(logits.min()) >= 0


def spare_outputs(outputs: int, labels: Tensor, class_names: Sequence[str] = ()) -> Note | None:
    """Return a note where a model has more outputs than its data has classes.

    Args:
        outputs: how many logits the model returns per image
        labels: true classes of all examples
        class_names: what the classes are called, if that is known

    Raises:
        UserError: if there are more names than outputs

    >>> spare_outputs(10, torch.arange(10), ["plane", "car"]).message.split(",")[0]
    'model: got 10 outputs for 2 classes'
    >>> spare_outputs(10, torch.arange(10))
    """
    if len(class_names) > outputs:
        raise UserError(
            f"class_names: got {len(class_names)} names, expected at most {outputs}, one per output"
        )
    if class_names:
        known, is_spare = f"{len(class_names)} classes", len(class_names) < outputs
    else:
        highest = int(labels.max())
        known, is_spare = f"labels up to {highest}", len(labels) >= _ENOUGH and 2 * (highest + 1) < outputs
    if not is_spare:
        return None
    return Note(
        "outputs",
        f"model: got {outputs} outputs for {known}, expected one for each class;"
        " a prediction beyond the classes counts as wrong: use a last layer with one output per class",
    )


def in_training(model: nn.Module) -> list[str]:
    """Return the names of the modules in training mode whose outputs depend on it.

    >>> in_training(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    ['1']
    """
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    return [name for name, one in model.named_modules() if isinstance(one, kinds) and one.training]


def difference(logits: Tensor, others: Tensor, rounding: float) -> str | None:
    """Return by how much outputs differ, if that is more than rounding.

    Args:
        logits: the model's outputs
        others: its outputs in another pass
        rounding: what is forgiven, in units of the last place of the largest logit
    """
    largest = float(logits.abs().max())
    most = float((logits - others).abs().max())
    if most <= largest * min(_MOST, rounding * torch.finfo(logits.dtype).eps):
        return None
    return f"up to {most:.3g} (largest logit {largest:.3g})"
