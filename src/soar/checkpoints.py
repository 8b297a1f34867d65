"""Checkpoints that survive a kill at any moment.

A checkpoint is a folder `checkpoints/step-00001234` of a run:

    model.safetensors   the weights
    ema.safetensors     their moving average, where there is one
    trainer.pt          optimizer and generator states, read with `weights_only=True`
    state.json          step, position in the data, best so far, guards, SHA-256 of all files and of itself

It is written to a temporary folder, forced to disk and renamed, so it exists completely or not at all. The
file `checkpoints/best` names the one that validation selected.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from soar import files
from soar.errors import UserError

FOLDER = "checkpoints"
_NAME = re.compile(r"step-\d{8,}")
_POINTER = "best"


@dataclass(frozen=True)
class Snapshot:
    """Everything that a training needs to continue as if it had never stopped."""

    model: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    trainer: dict[str, Any]
    state: dict[str, Any]


def name_of(step: int) -> str:
    """Return the name of a step's folder.

    >>> name_of(1234)
    'step-00001234'
    """
    return f"step-{step:08}"


def open_run(run: Path, *, resume: bool) -> Snapshot | None:
    """Find the checkpoint from which a training run in a folder continues.

    Args:
        run: the run folder, which need not exist
        resume: whether the folder may hold a training already

    Returns:
        The newest usable checkpoint, or None to start from scratch.

    Raises:
        UserError: when the folder holds a training run that is not to be resumed
    """
    if not resume and (available(run) or (run / "metrics.jsonl").exists()):
        raise UserError(f"{run} holds a training already; resume it (flag --resume) or choose another folder")
    files.clean(run)
    files.clean(run / FOLDER)
    newest = newest_usable(run)
    return load(newest) if newest else None


def save(run: Path, snapshot: Snapshot) -> Path:
    """Write a checkpoint of a step; one of the same step is replaced.

    Args:
        run: the run folder
        snapshot: what to save; `state["step"]` names the folder

    Returns:
        The checkpoint's folder.

    Raises:
        OSError: when it cannot be written; earlier checkpoints are untouched
    """
    target = run / FOLDER / name_of(snapshot.state["step"])
    with files.temporary_folder(target.parent) as folder:
        written, replaced = folder / "written", folder / "replaced"
        _write_files(written, snapshot)
        if target.exists():
            os.replace(target, replaced)
        try:
            os.replace(written, target)
        except OSError:
            if replaced.exists():
                os.replace(replaced, target)
            raise
        files.sync(target.parent)
    return target


def load(path: Path) -> Snapshot:
    """Read a checkpoint back; tensors are on the CPU."""
    ema = path / "ema.safetensors"
    return Snapshot(
        model=safetensors.torch.load_file(path / "model.safetensors"),
        ema=safetensors.torch.load_file(ema) if ema.exists() else None,
        trainer=torch.load(path / "trainer.pt", map_location="cpu", weights_only=True),
        state=json.loads((path / "state.json").read_text(encoding="utf-8")),
    )


def available(run: Path) -> list[Path]:
    """List the checkpoints of a run, oldest first, whether they can be read or not."""
    folder = run / FOLDER
    found = folder.iterdir() if folder.is_dir() else []
    return sorted((path for path in found if _NAME.fullmatch(path.name)), key=lambda path: _step(path.name))


def damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None if every file is as it was written."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        digests: dict[str, str] = state.pop("sha256")
        if digests.pop("state.json") != _digest(_text(state)):
            return "state.json has changed since it was written"
        for name, digest in digests.items():
            if _digest((path / name).read_bytes()) != digest:
                return f"{name} has changed since it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"state.json cannot be read ({error})"
    return None


def newest_usable(run: Path) -> Path | None:
    """Return the newest undamaged checkpoint, with a warning about newer ones that are damaged."""
    refused: dict[Path, str] = {}
    found = None
    for path in reversed(available(run)):
        problem = damage(path)
        if problem is None:
            found = path
            break
        refused[path] = problem
    instead = f"using {found}" if found else "no other is left"
    for damaged, why in refused.items():
        warnings.warn(f"checkpoint {damaged} is damaged: {why}; {instead}", stacklevel=2)
    return found


def best(run: Path) -> Path | None:
    """Return the checkpoint that validation selected, damaged or not; None if there is no checkpoint.

    A process that was killed right after it wrote a checkpoint has not moved the pointer yet, but the
    checkpoint itself records which one is the best. A later selection always replaces an earlier one.
    """
    pointer = run / FOLDER / _POINTER
    chosen = [pointer.read_text(encoding="utf-8", errors="replace").strip()] if pointer.exists() else []
    for path in reversed(available(run)):
        if damage(path) is None:
            state = json.loads((path / "state.json").read_text(encoding="utf-8"))
            chosen.append(name_of(state["best"]["step"]) if state.get("best") else path.name)
            break
    names = [name for name in chosen if _NAME.fullmatch(name)]
    return run / FOLDER / max(names, key=_step) if names else None


def mark_best(run: Path, name: str) -> None:
    """Point to the best checkpoint, atomically."""
    pointer = run / FOLDER / _POINTER
    if not pointer.exists() or pointer.read_bytes() != f"{name}\n".encode():
        files.write(pointer, f"{name}\n")


def prune(run: Path, *, keep: str | None, newest: int = 2) -> None:
    """Delete all checkpoints but the newest ones and one more; nothing else is ever deleted.

    Args:
        run: the run folder
        keep: the name of the best checkpoint
        newest: how many of the newest to keep; two, so that one damaged checkpoint loses little
    """
    for path in available(run)[:-newest]:
        if path.name != keep:
            with files.temporary_folder(path.parent) as folder:
                os.replace(path, folder / path.name)


def _write_files(folder: Path, snapshot: Snapshot) -> None:
    contents = {"model.safetensors": safetensors.torch.save(_plain(snapshot.model))}
    if snapshot.ema is not None:
        contents["ema.safetensors"] = safetensors.torch.save(_plain(snapshot.ema))
    buffer = io.BytesIO()
    torch.save(snapshot.trainer, buffer)
    contents["trainer.pt"] = buffer.getvalue()
    digests = {name: _digest(data) for name, data in contents.items()}
    digests["state.json"] = _digest(_text(snapshot.state))
    contents["state.json"] = _text(snapshot.state | {"sha256": digests})
    for name, data in contents.items():
        files.write(folder / name, data)


def _text(state: dict[str, Any]) -> bytes:
    return json.dumps(state, indent=2).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the form safetensors takes: on the CPU, contiguous, sharing no memory."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))
