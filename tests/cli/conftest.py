"""What several commands are tested with."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from soar.experiments.jobs import Job
from soar.experiments.local import Local
from soar.experiments.worker import perform
from tests.experiments.made import Pretender


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Pretender:
    """Do jobs in this process, which needs no time to start."""

    def work(job: Job) -> None:
        # The progress of a process of its own is not on the screen.
        with redirect_stderr(io.StringIO()):
            perform(job, lambda _: None)

    executor = Pretender(work)
    monkeypatch.setattr(Local, "run", lambda _, jobs, listen: executor.run(jobs, listen))
    return executor
