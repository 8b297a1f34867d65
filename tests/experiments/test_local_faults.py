"""Workers and their parent, killed and interrupted by real signals in the middle of a training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from soar.experiments import local
from soar.experiments.cache import Cache
from soar.experiments.jobs import Event, Job
from soar.experiments.local import Local
from tests.experiments import tiny

LONG = ("--max_steps", "1000000", "--epochs", "100000")
SAVES = ("--max_steps", "60", "--save_steps", "1")


def test_a_killed_worker_harms_no_other_and_its_work_goes_on_later(tmp_path: Path) -> None:
    job, other = tiny.training(tmp_path, *SAVES), tiny.training(tmp_path, "--seed", "1")
    checkpoints = Cache(tmp_path).network(job.key) / "checkpoints"
    workers: dict[str, int] = {}
    made = local._Worker.__init__

    def remember(self: local._Worker, job: Job, *rest: object) -> None:
        made(self, job, *rest)  # type: ignore[arg-type]
        workers[job.key] = self.process.pid

    def kill() -> None:
        while not [*checkpoints.glob("step-*")]:
            time.sleep(0.01)
        os.kill(workers[job.key], signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local._Worker, "__init__", remember)
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        endings = Local(2).run([job, other], lambda _: None)
    assert endings[job.key].reason == "its process was ended by SIGKILL (out of memory?)"
    assert endings[other.key].status == "done"
    assert Cache(tmp_path).condition(job.key).name == "unfinished"
    heard: list[Event] = []
    assert Local(1).run([job], heard.append)[job.key].status == "done"
    lines = [one.text for one in heard if one.text.startswith("training ")]
    assert not lines[0].startswith("training  16/"), "it began again instead of going on"


SCRIPT = """
import sys
from pathlib import Path
from soar.experiments.local import Local
from tests.experiments import tiny
jobs = [tiny.training(Path(sys.argv[1]), "--seed", str(seed), *sys.argv[2:]) for seed in range(2)]
try:
    Local(2).run(jobs, lambda event: print(event.kind, event.text, flush=True))
except KeyboardInterrupt as interrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_all_workers_save(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), *LONG]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        begun = 0
        for line in process.stdout:
            begun += line.startswith("progress training")
            if begun == 2:
                break
        process.send_signal(number)
        assert process.stdout.read().endswith("interrupted\n")
        assert process.wait(30) == 0
    cache = Cache(tmp_path)
    for seed in range(2):
        job = tiny.training(tmp_path, "--seed", str(seed), *LONG)
        assert cache.condition(job.key).name == "unfinished"
        assert [*(cache.network(job.key) / "checkpoints").glob("step-*")]
