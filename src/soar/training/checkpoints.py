"""Checkpoints that survive a kill at any moment.

A checkpoint is a folder `checkpoints/step-00001234` of a run:

    model.safetensors   the weights
    ema.safetensors     their moving average, where there is one
    trainer.pt          optimizer and generator states, read with `weights_only=True`
    state.json          step, position in the data, best so far, guards, SHA-256 of the files above

It is written to a temporary folder, forced to disk and renamed, so it is there completely or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from soar.errors import UserError

FOLDER = "checkpoints"
_NAME = re.compile(r"step-\d{8,}")
_TEMPORARY = ".writing-"


@dataclass(frozen=True)
class Snapshot:
    """Everything that a training needs to go on as if it had never stopped."""

    model: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    trainer: dict[str, Any]
    state: dict[str, Any]


def name_of(step: int) -> str:
    """Give the name of a step's folder.

    >>> name_of(1234)
    'step-00001234'
    """
    return f"step-{step:08}"


def open_run(run: Path, *, resume: bool) -> Snapshot | None:
    """Find out where a training in a folder has to begin.

    Args:
        run: the run folder, which need not exist
        resume: whether the folder may hold a training already

    Returns:
        The newest usable checkpoint, or None to begin at the beginning.

    Raises:
        UserError: when the folder holds a training that is not to be resumed
    """
    if not resume and (available(run) or (run / "metrics.jsonl").exists()):
        raise UserError(f"{run} holds a training already; resume it (flag --resume) or choose another folder")
    clean(run)
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
        OSError: when it cannot be written; whatever was saved before is untouched
    """
    target = run / FOLDER / name_of(snapshot.state["step"])
    temporary = target.with_name(f"{_TEMPORARY}{target.name}-{os.getpid()}")
    replaced = target.with_name(f"{_TEMPORARY}replaced-{target.name}-{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        _write_files(temporary, snapshot)
        if target.exists():
            os.replace(target, replaced)
        os.replace(temporary, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
    return target


def load(path: Path) -> Snapshot:
    """Read a checkpoint back; tensors are on the CPU."""
    ema = path / "ema.safetensors"
    return Snapshot(
        model=safetensors.torch.load_file(path / "model.safetensors"),
        ema=safetensors.torch.load_file(ema) if ema.exists() else None,
        trainer=torch.load(path / "trainer.pt", map_location="cpu", weights_only=True),
        state=json.loads((path / "state.json").read_text()),
    )


def available(run: Path) -> list[Path]:
    """List the checkpoints of a run, oldest first, whether they can be read or not."""
    folder = run / FOLDER
    found = folder.iterdir() if folder.is_dir() else []
    return sorted((path for path in found if _NAME.fullmatch(path.name)), key=_step)


def damage(path: Path) -> str | None:
    """Say what is wrong with a checkpoint, or None when every file is as it was written."""
    try:
        digests: dict[str, str] = json.loads((path / "state.json").read_text())["sha256"]
        for name, digest in digests.items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != digest:
                return f"{name} has changed since it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"state.json cannot be read ({error})"
    return None


def newest_usable(run: Path) -> Path | None:
    """Find the newest checkpoint whose files are undamaged, with a warning when it is not the newest."""
    return _first_usable(reversed(available(run)))


def best(run: Path) -> Path | None:
    """Find the checkpoint that validation chose, or the newest usable one when there is none."""
    pointer = run / FOLDER / "best"
    chosen = [pointer.parent / pointer.read_text().strip()] if pointer.exists() else []
    return _first_usable([*chosen, *reversed(available(run))])


def mark_best(run: Path, name: str) -> None:
    """Point to the best checkpoint, atomically."""
    pointer = run / FOLDER / "best"
    if not pointer.exists() or pointer.read_text().strip() != name:
        replace_text(pointer, name + "\n")


def prune(run: Path, *, keep: str | None, newest: int = 2) -> None:
    """Delete all checkpoints but the newest ones and one more; nothing else is ever deleted.

    Args:
        run: the run folder
        keep: the name of the best checkpoint
        newest: how many of the newest stay; two, so that one damaged checkpoint loses little
    """
    for path in available(run)[:-newest]:
        if path.name != keep:
            doomed = path.with_name(f"{_TEMPORARY}pruned-{path.name}")
            os.replace(path, doomed)
            shutil.rmtree(doomed)


def clean(run: Path) -> None:
    """Remove what a killed process left half written or half deleted."""
    for path in (run / FOLDER).glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old text or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(temporary, text.encode())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _first_usable(candidates: Iterable[Path]) -> Path | None:
    refused: dict[Path, str] = {}
    for path in candidates:
        if path in refused:
            continue
        problem = damage(path)
        if problem is None:
            for bad, why in refused.items():
                warnings.warn(f"checkpoint {bad} is damaged: {why}; using {path}", stacklevel=3)
            return path
        refused[path] = problem
    for bad, why in refused.items():
        warnings.warn(f"checkpoint {bad} is damaged: {why}; no other is left", stacklevel=3)
    return None


def _write_files(folder: Path, snapshot: Snapshot) -> None:
    files = {"model.safetensors": safetensors.torch.save(_plain(snapshot.model))}
    if snapshot.ema is not None:
        files["ema.safetensors"] = safetensors.torch.save(_plain(snapshot.ema))
    buffer = io.BytesIO()
    torch.save(snapshot.trainer, buffer)
    files["trainer.pt"] = buffer.getvalue()
    for name, data in files.items():
        _write(folder / name, data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    state = json.dumps(snapshot.state | {"sha256": digests}, indent=2)
    _write(folder / "state.json", state.encode())
    _sync(folder)


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the form safetensors takes: on the CPU, contiguous, sharing no memory."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))
