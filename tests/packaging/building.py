"""Build the package without a network, and make environments that hold nothing but its wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def build(kind: str, source: Path, target: Path) -> Path:
    """Build a "wheel" or an "sdist" with the build tools of this environment."""
    words = [
        sys.executable,
        "-m",
        "build",
        f"--{kind}",
        "--no-isolation",
        "--outdir",
        str(target),
        str(source),
    ]
    subprocess.run(words, check=True, capture_output=True, text=True, cwd=target)
    (made,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def environment_with(wheel: Path, folder: Path) -> Path:
    """Make an environment, install a wheel into it, and give its `bin` folder.

    PyTorch and the other dependencies come from this environment, by a path. A .pth file adds a folder but
    reads no .pth files inside it, so the source tree, which is installed here as editable, stays out.
    """
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*words, str(wheel)], check=True, capture_output=True, text=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(program: Path, *words: str, cwd: Path) -> str:
    """Run a program of such an environment, without anything that would lead it back to the source tree."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    outside |= {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(program), *words], cwd=cwd, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
