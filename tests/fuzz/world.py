"""A folder full of traps, and calls of the command line in it that are watched."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import signal
import stat
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import save_file

from soar import recipes
from soar.cli.main import main
from soar.data import published
from tests.cli.tiny import TINY

SECONDS = 30
"""a call that takes longer is taken to hang"""

EXPENSIVE = [
    *("soar.training.trainer:Trainer.fit", "soar.cost.training:measure_training"),
    "soar.cost.training:count_training",
    *("soar.evaluation.evaluate:evaluate", "soar.evaluation.diagnose:diagnose", "soar.report.gather:gather"),
    "soar.evaluation.certification:certify_target",
    *("soar.export:to_onnx", "soar.export:to_torchscript", "soar.export:to_torch_export"),
    *("soar.experiments.local:Local.run", "soar.experiments.cluster:Cluster.run"),
    *("soar.cost.step:measure_steps", "soar.data.fetch:download"),
]


class Begun(BaseException):
    """The expensive part has begun; everything before it went well."""


@dataclass
class World:
    """The folder that calls are made in, and what they did.

    Args:
        folder: everything is written inside of it
        stubbed: whether calls end where the expensive part begins
    """

    folder: Path
    stubbed: bool
    calls: int = 0
    written: list[str] = field(default_factory=list)
    precious: dict[Path, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.here.mkdir(parents=True)
        _set_traps(self.here)
        self.precious = {path: _seen(path) for path in self.folder.rglob("*") if not path.is_dir()}

    @property
    def here(self) -> Path:
        """The folder that is current; those above it are still inside of the world."""
        return self.folder / "a" / "b" / "c"

    def call(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Call the command line, and check what holds for every call.

        Returns:
            The exit code, what was printed, and what was printed as an error.
        """
        self.calls += 1
        out, err = io.StringIO(), io.StringIO()
        path, threads = [*sys.path], torch.get_num_threads()
        with self._entered(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _alarm(words):
            try:
                code = main(words)
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 0
            except Begun:
                code = 0
        sys.path[:] = path
        torch.set_num_threads(threads)
        printed = f"{out.getvalue()[-2000:]}\n{err.getvalue()[-2000:]}"
        shown = f"{[word[:100] for word in words]}: {code}\n{printed}"
        assert code in (0, 1, 2), shown
        self._check_told(code, err.getvalue(), shown)
        self._check_kept(shown)
        return code, out.getvalue(), err.getvalue()

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.here)
            for name in ("HOME", "XDG_CACHE_HOME", "SOAR_DATA"):
                patch.setenv(name, str(self.folder))
            # The same images every time; decoding them is most of what is left to do.
            patch.setattr(published, "fashion_mnist_sample", _images)
            for owner, name in _expensive() if self.stubbed else ():
                patch.setattr(owner, name, _begin)
            self.written.clear()
            _watching.append(self)
            try:
                yield
            finally:
                _watching.pop()

    def _check_told(self, code: int, err: str, shown: str) -> None:
        told = [line for line in err.splitlines() if line.startswith("soar: ")]
        mistakes = [line for line in told if not line.startswith("soar: warning: ")]
        if code == 2:
            assert len(mistakes) == 1 and err.endswith(f"{mistakes[0]}\n"), shown
            assert len(mistakes[0]) > len("soar: x") and len(mistakes[0]) < 4000, shown
        strange = {one for one in err if not one.isprintable() and one != "\n"}
        assert not strange, f"{strange} in {shown}"
        assert "Traceback" not in err, shown

    def _check_kept(self, shown: str) -> None:
        outside = [path for path in self.written if not self._is_inside(path)]
        assert not outside, f"{outside} was written by {shown}"
        for path, was in self.precious.items():
            assert _seen(path) == was, f"{path} was changed by {shown}"

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(self.here / path)
        return f"{real}/".startswith((f"{self.folder}/", "/dev/", "/proc/")) or "__pycache__" in real


def _seen(path: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced."""
    found = path.lstat()
    return stat.S_IFMT(found.st_mode), found.st_ino, found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def _alarm(words: Sequence[str]) -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> NoReturn:
        raise AssertionError(f"{[word[:100] for word in words]} hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_images = functools.cache(published.fashion_mnist_sample)
_watching: list[World] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what is written while a world is watched; a hook of the interpreter cannot be taken away again."""
    if not _watching:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes | os.PathLike) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _watching[-1].written.append(os.fsdecode(path))
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate"):
        _watching[-1].written.append(os.fsdecode(arguments[0]))
    elif event in ("os.rename", "os.link", "os.symlink"):
        _watching[-1].written.append(os.fsdecode(arguments[1]))


sys.addaudithook(_watch)


@functools.cache
def _expensive() -> list[tuple[object, str]]:
    """Find the owners of what is expensive, a module or a class."""
    found: list[tuple[object, str]] = []
    for name in EXPENSIVE:
        module, _, attribute = name.partition(":")
        *classes, last = attribute.split(".")
        owner = importlib.import_module(module)
        found.append((getattr(owner, classes[0]) if classes else owner, last))
    return found


def _begin(*_: object, **__: object) -> NoReturn:
    raise Begun


def _set_traps(here: Path) -> None:
    """Put files, folders, pipes, devices, loops and damaged things under the names of `words.PLACES`."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", "demo-robust", *TINY, "--max_steps", "1", "--output", str(here / "run")]) == 0
    shipped = (recipes.FOLDER / "demo-robust.toml").read_text()
    texts = {
        "file": "mine",
        "recipe.toml": shipped,
        "study.toml": 'title = "d"\nrecipe = "demo-robust"\n[[rows]]\nname = "one"\n',
        "large.toml": "# large\n" * 1_300_000,
        "bom.toml": "\ufeff" + shipped,
        "empty.toml": "",
        "empty.npz": "",
        "empty.safetensors": "",
        "text.pt": "no weights",
        "out.json": "precious",
        "out.html": "precious",
    }
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "binary.toml").write_bytes(b"\xff\xfe\x00")
    save_file({"w": torch.zeros(1)}, here / "w.safetensors")
    for name in ("dir", "dir.toml", "dir.npz", "dir.safetensors", "damaged", "piped"):
        (here / name).mkdir()
    (here / "damaged" / "recipe.toml").write_text("[data")
    for name in ("pipe", "pipe.toml", "pipe.npz", "pipe.safetensors", "pipe.pt", "piped/recipe.toml"):
        os.mkfifo(here / name)
    for name, target in (
        ("loop", "loop"),
        ("loop.toml", "loop.toml"),
        ("dangling", "no"),
        ("dangling.toml", "no"),
    ):
        (here / name).symlink_to(target)
    for name in ("device", "device.toml"):
        # A node of our own, because a mistake would replace it; it needs root.
        with contextlib.suppress(PermissionError):
            os.mknod(here / name, stat.S_IFCHR | 0o666, os.makedev(1, 5))
