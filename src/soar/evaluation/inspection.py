"""Look at a model's answers before any attack is run: what cannot be evaluated, and what misleads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from soar.errors import UserError, first_line
from soar.evaluation.note import Note
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
    model, logits, batch = target.model, target.logits, target.x[: target.batch_size]
    with untouched(model):
        found = [_probabilities(logits), _randomness(model, batch, logits)]
        if found[-1] is None and len(target) > 1:
            found.append(_batch_dependence(model, batch, logits))
        found.append(_training_modes(model))
    return tuple(note for note in found if note is not None)


def spare_outputs(outputs: int, labels: Tensor, class_names: Sequence[str] = ()) -> Note | None:
    """Return a note where a model has more outputs than its data has classes.

    Args:
        outputs: how many logits the model gives for an image
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
            f"class_names: got {len(class_names)} names, expected at most {outputs}, one an output"
        )
    highest = int(labels.max()) if len(labels) else outputs
    if class_names:
        known = f"{len(class_names)} classes" if len(class_names) < outputs else ""
    else:
        known = f"labels up to {highest}" if len(labels) >= _ENOUGH and 2 * (highest + 1) < outputs else ""
    if not known:
        return None
    return Note(
        "outputs",
        f"model: got {outputs} outputs for {known}, expected one for each class;"
        " an answer beyond the classes counts as wrong: use a last layer of the data's own",
    )


def _probabilities(logits: Tensor) -> Note | None:
    allowed = max(1e-4, 8 * torch.finfo(logits.dtype).eps)
    sums = logits.double().sum(dim=1)
    is_one = bool(((sums - 1).abs() <= allowed).all())
    if not is_one or float(logits.min()) < 0:
        return None
    return Note(
        "probabilities",
        "model: got outputs in [0, 1] that sum to 1, expected logits; the model returns probabilities, which"
        " weakens attacks on the cross-entropy and on margins: remove the softmax",
    )


def _randomness(model: nn.Module, batch: Tensor, logits: Tensor) -> Note | None:
    asked = logits[: len(batch)]
    told = difference(asked, logits_of(model, batch), SAME_BATCH)
    if told is None:
        return None
    return Note(
        "random",
        f"model: got answers that differ by {told} when asked twice, expected the same;"
        ' the model is randomized: use attacks="rand"',
    )


def _batch_dependence(model: nn.Module, batch: Tensor, logits: Tensor) -> Note | None:
    try:
        alone = model(batch[:1].clone())  # it may work in place
    except Exception as error:  # whatever the model raises, an attack would meet it with its last example
        reason = first_line(error)
        raise UserError(
            f"model: got an error for a single image ({reason}), expected answers for batches of any size"
        ) from error
    shape = tuple(alone.shape) if isinstance(alone, Tensor) else type(alone).__name__
    if shape != tuple(logits[:1].shape):
        raise UserError(
            f"model: got outputs of shape {shape} for a single image, expected {tuple(logits[:1].shape)}"
        )
    told = difference(logits[:1], alone, _OTHER_BATCH)
    if told is None:
        return None
    return Note(
        "batch",
        f"model: got answers that differ by {told} between an image alone and in a batch, expected the"
        " same; answers depend on the batch, as with BatchNorm on batch statistics",
    )


def _training_modes(model: nn.Module) -> Note | None:
    names = in_training(model)
    if not names:
        return None
    kind = type(model.get_submodule(names[0])).__name__
    return Note(
        "modes",
        f"model: got {len(names)} BatchNorm or Dropout modules in training mode after model.eval(), such as"
        f" '{names[0]}' ({kind}), expected none; an overridden train() or forward() puts them there",
    )


def in_training(model: nn.Module) -> list[str]:
    """Name the modules in training mode whose answers depend on it.

    >>> in_training(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    ['1']
    """
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    return [name for name, one in model.named_modules() if isinstance(one, kinds) and one.training]


def difference(logits: Tensor, others: Tensor, rounding: float) -> str | None:
    """Say by how much answers differ, if that is more than rounding.

    Args:
        logits: the model's answers
        others: its answers at another time
        rounding: what is forgiven, in units of the last place of the largest logit
    """
    largest = float(logits.abs().max())
    most = float((logits - others).abs().max())
    if most <= largest * min(_MOST, rounding * torch.finfo(logits.dtype).eps):
        return None
    return f"up to {most:.3g} (largest logit {largest:.3g})"
