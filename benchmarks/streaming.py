"""Read an epoch of images from files, beside a plain torch `DataLoader` over the same files.

    python benchmarks/streaming.py             minutes; writes results/streaming.{txt,json}
    python benchmarks/streaming.py --quick     seconds, few images, to see that it works

Images are made: JPEG files of 64 x 64, and of about 300 x 256 that are scaled to 256 and cropped to 224.
Both sides decode with Pillow, in a shuffled order, into batches of bytes; each runs in a process of its own,
twice in turn, and the better run counts. Images per second of CPU time of the process and its workers decide,
since neighbors on the machine disturb them least. Loading is apart: ours lists the files and, where images
have no crop, reads all headers, or all pixels where they take no more than 256 MiB. Memory is the largest sum
of what the process and its workers hold alone and their shares of what they hold together (PSS). Last, all
images are attacked by FGSM on a linear model, for the memory of an evaluation.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

import soar
from plain_text import plain
from soar import data
from soar.data import Augmentation
from soar.data.decoding import Framing
from soar.environment import environment

RESULTS = Path(__file__).parent / "results"
_BATCH, _REPEATS = 128, 2


@dataclass(frozen=True)
class Case:
    """So many images of one kind, read by so many workers."""

    images: int
    size: int
    workers: int

    @property
    def framing(self) -> Framing:
        """How they are brought to one size."""
        return Framing(256, 224) if self.size == 224 else Framing()


CASES = (
    Case(5_000, 64, 0),
    Case(5_000, 64, 2),
    Case(50_000, 64, 0),
    Case(50_000, 64, 2),
    Case(2_000, 224, 0),
    Case(2_000, 224, 2),
)
QUICK = (Case(300, 64, 1),)


class Reading(NamedTuple):
    """What reading an epoch took."""

    images_per_cpu_second: float
    images_per_second: float
    megabytes: float
    loading_seconds: float


def make(folder: Path, count: int, size: int) -> None:
    """Write JPEG files of smooth noise into class folders, for training; and ten for the test."""
    numbers = np.random.default_rng(0)
    shape = (size, size) if size == 64 else (256, 300)
    coarse = [numbers.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8) for _ in range(50)]
    contents = []
    for pixels in coarse:
        stream = io.BytesIO()
        smooth = Image.fromarray(pixels).resize(shape[::-1], Image.Resampling.BICUBIC)
        smooth.save(stream, "JPEG", quality=90)
        contents.append(stream.getvalue())
    for part, number in (("train", count), ("test", 10)):
        for label in range(10):
            (folder / part / str(label)).mkdir(parents=True)
        for row in range(number):
            (folder / part / str(row % 10) / f"{row:06}.jpg").write_bytes(contents[row % len(contents)])


class Pictures(TorchDataset[tuple[torch.Tensor, int]]):
    """What anyone would write for a `DataLoader`."""

    def __init__(self, folder: Path, framing: Framing) -> None:
        self.files = sorted((folder / "train").glob("*/*.jpg"))
        self.framing = framing

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.files[row]) as picture:
            image = picture.convert("RGB")
        resize, crop = self.framing.resize, self.framing.crop
        if resize is not None and crop is not None:
            scale = resize / min(image.size)
            width, height = (round(side * scale) for side in image.size)
            left, top = (width - crop) // 2, (height - crop) // 2
            image = image.resize((width, height), Image.Resampling.BILINEAR)
            image = image.crop((left, top, left + crop, top + crop))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels, int(self.files[row].parent.name)


def ours(folder: Path, case: Case) -> Iterable[Any]:
    """Return the batches of an epoch of ours."""
    split = data.load(
        f"folder:{folder}", validation=0, resize=case.framing.resize, crop=case.framing.crop
    ).train
    return data.training_batches(
        split, batch_size=_BATCH, seed=0, epoch=0, augmentation=Augmentation(), num_workers=case.workers
    )


def evaluated(folder: Path, case: Case) -> Iterable[Any]:
    """Attack all images, and return their labels as one batch."""
    split = data.load(
        f"folder:{folder}", validation=0, resize=case.framing.resize, crop=case.framing.crop
    ).train
    side = split.stored.shape[-1] // 8
    model = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(3 * side * side, 10))
    soar.evaluate(model, split, soar.Linf("8/255"), "fgsm", check=False)
    return [(None, split.labels)]


def theirs(folder: Path, case: Case) -> Iterable[Any]:
    """Return the batches of an epoch of PyTorch."""
    return DataLoader(
        Pictures(folder, case.framing),
        batch_size=_BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=case.workers,
    )


_SIDES: dict[str, Callable[[Path, Case], Iterable[Any]]] = {
    "ours": ours,
    "theirs": theirs,
    "evaluated": evaluated,
}


def held(processes: list[int]) -> float:
    """Return the megabytes that processes hold, what they share divided among its holders."""
    found = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        found += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1024


def read(side: str, folder: Path, case: Case, answer: Any) -> None:
    """Read an epoch in this process, and answer what it took."""
    torch.set_num_threads(1)
    stop, peak = threading.Event(), [0.0]

    def watch() -> None:
        while True:
            children = [one.pid for one in multiprocessing.active_children() if one.pid is not None]
            peak[0] = max(peak[0], held([os.getpid(), *children]))
            if stop.wait(0.1):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    batches = _SIDES[side](folder, case)
    loading = time.perf_counter() - began
    began, spent = time.perf_counter(), cpu_seconds()
    count = sum(len(batch[1]) for batch in batches)
    del batches
    seconds, spent = time.perf_counter() - began, cpu_seconds() - spent
    stop.set()
    watcher.join()
    answer.send(Reading(count / spent, count / seconds, peak[0], loading))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its workers that have ended."""
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(case: Case) -> dict[str, Reading]:
    """Let both sides read the same files in turn."""
    with tempfile.TemporaryDirectory() as root:
        make(Path(root), case.images, case.size)
        found: dict[str, list[Reading]] = {"ours": [], "theirs": []}
        for _ in range(_REPEATS):
            for side, readings in found.items():
                readings.append(apart(partial(read, side, Path(root), case)))
        evaluation = apart(partial(read, "evaluated", Path(root), case))
    return {"evaluated": evaluation} | {side: max(readings) for side, readings in found.items()}


def apart(task: Callable[[Any], None]) -> Reading:
    """Run a task in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=task, args=(sender,))
    process.start()
    answer: Reading = receiver.recv()
    process.join()
    return answer


def table(found: list[tuple[Case, dict[str, Reading]]]) -> str:
    """Return the readings as a plain table of ours and ratios to theirs."""
    lines = [
        "images   size  workers  images/CPU s  ratio  images/s  ratio  MB of ours  of theirs  attack  load s"
    ]
    for case, sides in found:
        own, other, attacked = sides["ours"], sides["theirs"], sides["evaluated"]
        lines.append(
            f"{case.images:6}  {case.size:5}  {case.workers:7}  {own.images_per_cpu_second:12.0f}"
            f"  {own.images_per_cpu_second / other.images_per_cpu_second:5.2f}"
            f"  {own.images_per_second:8.0f}  {own.images_per_second / other.images_per_second:5.2f}"
            f"  {own.megabytes:10.0f}  {other.megabytes:9.0f}"
            f"  {attacked.megabytes:6.0f}  {own.loading_seconds:6.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="Read images from files beside a torch DataLoader.")
    parser.add_argument("--quick", action="store_true", help="few images, nothing saved")
    arguments = parser.parse_args()
    found = []
    for case in QUICK if arguments.quick else CASES:
        found.append((case, measure(case)))
        print(table(found[-1:]), flush=True)
    if arguments.quick:
        return
    record = {
        "environment": environment(),
        "rows": [
            {**vars(case), **{side: reading._asdict() for side, reading in sides.items()}}
            for case, sides in found
        ],
    }
    (RESULTS / "streaming.txt").write_text(plain(table(found)))
    (RESULTS / "streaming.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
