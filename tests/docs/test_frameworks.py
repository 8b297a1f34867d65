"""The guide to other frameworks with the frameworks themselves; elsewhere stand-ins take their place."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs.running import ROOT

PROGRAM = """
import pytest
from tests.docs.running import ROOT, run_page

with pytest.MonkeyPatch.context() as patch:
    run_page(ROOT / "docs/guides/frameworks.md", patch)
"""


@pytest.mark.slow
@pytest.mark.network
def test_the_guide_runs_with_the_frameworks_themselves(tmp_path: Path) -> None:
    """Install them in an environment of its own, which takes torch from this one."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n{ROOT}\n")
    libraries = ["lightning", "transformers", "accelerate"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *libraries], check=True)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [python, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=one_thread, check=True, text=True, capture_output=True)
    assert done.stdout.count("worst case") == len(libraries)
