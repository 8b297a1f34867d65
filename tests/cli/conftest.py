"""What several commands are tested with."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    executor = Pretender(lambda job: perform(job, lambda _: None))
    monkeypatch.setattr(Local, "run", lambda _, jobs, listen: executor.run(jobs, listen))
    return executor
