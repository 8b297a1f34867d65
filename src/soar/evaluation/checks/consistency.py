"""Is the model one function of the image? Randomness, state, batches, and layers left in training mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.evaluation import inspection
from soar.evaluation.assessment import Note, NoteKind
from soar.evaluation.checks import SharedAttacks
from soar.evaluation.diagnosis import AdviceKind, Check, CheckResult, Judgment
from soar.model_state import placement, untouched
from soar.prediction import logits_of

CONSISTENCY = Check(
    "consistency",
    "The same image, the same output",
    "suspicious: outputs differ beyond rounding between two passes, after other calls or in another batch, a"
    " pass changes the model's buffers, layers do not follow model.eval(), or probabilities stand for logits",
)
# There is no ratio to a threshold here. But where an image has no output of its own, every other number is in
# doubt, so it stands before what is suspicious by a little.
EXCESS = 10.0


class _Meaning(NamedTuple):
    """What a note means for attacks and what to do about it."""

    sentence: str
    advice: AdviceKind


_MEANINGS: dict[NoteKind, _Meaning] = {
    "random": _Meaning(
        "The model is randomized, so an attack on a single output climbs noise. What it leaves may be luck.",
        "average",
    ),
    "state": _Meaning(
        "The model changes from call to call, so what is attacked is not what is judged.",
        "state",
    ),
    "batch": _Meaning(
        "Outputs depend on the other images of the batch, so no image has a robustness of its own.",
        "batch",
    ),
    "modes": _Meaning(
        "BatchNorm or Dropout stays in training mode, so it is not the model in use that is attacked.",
        "modes",
    ),
    "probabilities": _Meaning(
        "The model returns probabilities in place of logits, which flattens the losses that attacks climb.",
        "softmax",
    ),
}


def judge(notes: Sequence[Note], *, remark: str = "", numbers: dict[str, int] | None = None) -> CheckResult:
    """Return what notes about a model's outputs mean for attacks; notes of other kinds are ignored.

    Args:
        notes: what `inspect` found, or what was found about state
        remark: a sentence to add
        numbers: what else was counted

    >>> judge([Note("probabilities", "model: got outputs that sum to 1, expected logits")]).finding
    'suspicious'
    """
    found = {kind: note for kind in _MEANINGS for note in notes if note.kind == kind}
    sentences = [_MEANINGS[kind].sentence for kind in found] or ["An image always gets the same output."]
    return CONSISTENCY.result(
        Judgment("suspicious", EXCESS) if found else Judgment("sound", 0.0),
        " ".join(filter(None, [*sentences, remark])),
        {**{note.kind: note.message for note in found.values()}, **(numbers or {})},
        advice=tuple(_MEANINGS[kind].advice for kind in found),
    )


def examine(shared: SharedAttacks) -> CheckResult:
    """Evaluate the same images in other ways: twice, alone, and with the same random numbers."""
    target = shared.target
    left_on = inspection.in_training(target.model)
    try:
        notes = inspection.inspect(target)
    except UserError as error:
        return CONSISTENCY.skipped(str(error))
    batch = target.x[: target.batch_size]
    changed, drift = _changed_buffers(target.model, batch), _drift(target.model, batch)
    if changed or drift:
        what = (
            f"outputs that differ by {drift}" if drift else f"{len(changed)} changed buffers ({changed[0]})"
        )
        text = f"model: got {what} after a call in eval mode, expected none; it remembers earlier calls"
        notes = (*notes, Note("state", text))
    remark = ""
    if left_on and not any(note.kind == "modes" for note in notes):
        remark = (
            f"The model came with {len(left_on)} BatchNorm or Dropout modules in training mode; all this was"
            " measured in eval mode."
        )
    return judge(
        notes, remark=remark, numbers={"in training mode": len(left_on), "changed buffers": len(changed)}
    )


def _changed_buffers(model: nn.Module, batch: Tensor) -> list[str]:
    """Return the names of the buffers that a pass in eval mode changes."""
    with untouched(model):
        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        logits_of(model, batch)
        after = dict(model.named_buffers())
        return [name for name, kept in before.items() if not torch.equal(kept, after[name])]


def _drift(model: nn.Module, batch: Tensor) -> str | None:
    """Return how outputs change from call to call where torch's random numbers are the same.

    That leaves a memory of earlier calls, or a generator of the model's own, which is one.
    """
    device, _ = placement(model)
    devices = [device] if device.type == "cuda" else []
    with untouched(model):
        outputs = []
        for _ in range(2):
            with torch.random.fork_rng(devices=devices):
                outputs.append(logits_of(model, batch))
    return inspection.difference(outputs[0], outputs[1], inspection.SAME_BATCH)
