"""Is the model one function of the image? Randomness, state, batches, and what is left in training mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.evaluation import inspection
from soar.evaluation.checks.judgment import not_made
from soar.evaluation.checks.shared import SharedAttacks
from soar.evaluation.diagnosis import Evidence
from soar.evaluation.note import Note, NoteKind
from soar.model_state import placement, untouched
from soar.prediction import logits_of

CHECK = "consistency"
TITLE = "The same image, the same answer"
RULE = (
    "suspicious: answers differ beyond rounding when asked twice, after other calls or in another batch, a"
    " pass changes the model's buffers, layers do not follow model.eval(), or probabilities stand for logits"
)
# There is no ratio to a threshold here. But where an image has no answer of its own, every other number is in
# doubt, so it stands before what is suspicious by a little.
EXCESS = 10.0


class _Oddity(NamedTuple):
    """What a warning means and what to do about it."""

    sentence: str
    advice: str


_ODDITIES: dict[NoteKind, _Oddity] = {
    "random": _Oddity(
        "The model is randomized, so an attack that asks only once climbs noise. What it leaves may be luck.",
        "soar evaluate RUN --attacks rand",
    ),
    "state": _Oddity(
        "The model changes from call to call, so what is attacked is not what is judged.",
        "make the model's answer depend on the image alone, then evaluate it again",
    ),
    "batch": _Oddity(
        "Answers depend on the other images of the batch, so no image has a robustness of its own.",
        "give BatchNorm fixed statistics, then evaluate again",
    ),
    "modes": _Oddity(
        "BatchNorm or Dropout stays in training mode, so it is not the model in use that is attacked.",
        "let model.eval() reach every layer, then evaluate again",
    ),
    "probabilities": _Oddity(
        "The model returns probabilities in place of logits, which flattens the losses that attacks climb.",
        "remove the softmax from the model, then evaluate it again",
    ),
}


def judge(notes: Sequence[Note], *, told: str = "", numbers: dict[str, int] | None = None) -> Evidence:
    """Judge what notes about a model's answers mean for attacks; notes of other kinds are passed over.

    Args:
        notes: what `inspect` found, or what was found about state
        told: what else should be said
        numbers: what else was counted

    >>> judge([Note("probabilities", "model: got outputs that sum to 1, expected logits")]).finding
    'suspicious'
    """
    found = {kind: note for kind in _ODDITIES for note in notes if note.kind == kind}
    sentences = [_ODDITIES[kind].sentence for kind in found] or ["An image always gets the same answer."]
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding="suspicious" if found else "sound",
        sentence=" ".join(filter(None, [*sentences, told])),
        rule=RULE,
        numbers={**{note.kind: note.message for note in found.values()}, **(numbers or {})},
        excess=EXCESS if found else 0.0,
        advice=next((_ODDITIES[kind].advice for kind in found), ""),
    )


def examine(shared: SharedAttacks) -> Evidence:
    """Ask the same again in other ways: twice, alone, and with the same random numbers."""
    target = shared.target
    left_on = inspection.in_training(target.model)
    try:
        notes = inspection.inspect(target)
    except UserError as error:
        return not_made(CHECK, TITLE, RULE, str(error))
    batch = target.x[: target.batch_size]
    changed, drift = _changed_buffers(target.model, batch), _drift(target.model, batch)
    if changed or drift:
        what = (
            f"answers that differ by {drift}" if drift else f"{len(changed)} changed buffers ({changed[0]})"
        )
        text = f"model: got {what} after a call in eval mode, expected none; it remembers earlier calls"
        notes = (*notes, Note("state", text))
    told = ""
    if left_on and not any(note.kind == "modes" for note in notes):
        told = (
            f"The model came with {len(left_on)} BatchNorm or Dropout modules in training mode; all this was"
            " measured in eval mode."
        )
    return judge(
        notes, told=told, numbers={"in training mode": len(left_on), "changed buffers": len(changed)}
    )


def _changed_buffers(model: nn.Module, batch: Tensor) -> list[str]:
    """Name the buffers that a pass in eval mode changes."""
    with untouched(model):
        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        logits_of(model, batch)
        after = dict(model.named_buffers())
        return [name for name, kept in before.items() if not torch.equal(kept, after[name])]


def _drift(model: nn.Module, batch: Tensor) -> str | None:
    """Say how answers change from call to call where torch's random numbers are the same.

    That leaves a memory of earlier calls, or a generator of the model's own, which is one.
    """
    device, _ = placement(model)
    devices = [device] if device.type == "cuda" else []
    with untouched(model):
        answers = []
        for _ in range(2):
            with torch.random.fork_rng(devices=devices):
                answers.append(logits_of(model, batch))
    return inspection.difference(answers[0], answers[1], inspection.SAME_BATCH)
