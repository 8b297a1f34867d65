"""What the documentation tells people to type is typed here: its blocks of code, one after the other.

A block of Python runs in the page's own module, a line of bash in the page's own folder; a block with a
`title="FILE"` is written to that file. Data and training runs are cut short, the code is not touched.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import textwrap
import tomllib
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import split

import pytest

import soar
from soar import recipes
from soar.cli.main import TAKES_FIELDS, main, make_parser
from tools.figures import command

ROOT = Path(__file__).parents[2]

# Lines that cannot run here. The real parser reads them all the same.
ONLY_PARSED = {
    ("soar", "data", "fetch"): "needs a network; tests/data fetches for real",
    ("soar", "demo"): "takes minutes; tests/cli/test_demo.py runs it",
    ("soar", "study", "frontier"): "needs CIFAR-10 and minutes; tests/cli/test_study.py runs studies",
    ("soar", "bench"): "measures, which says nothing on a busy machine; tests/cli/test_bench.py runs it",
}
ONLY_PARSED_FLAGS = {
    "--cluster": "needs a cluster; tests/experiments starts one of Ray's",
    "--device": "may name a GPU",
    "robustbench": "needs all of AutoAttack on CIFAR-10; tests/cli/test_export.py writes entries",
}
PARTS_ONLY_PARSED = {"tightness": "takes the whole Hessian of a network; tests/tools/theory runs it"}
# Libraries that a page may import although they cannot be had here.
NOT_HERE = ("torchattacks", "timm", "torchvision", "ray")
FENCE = re.compile(r"^([ \t]*)(```+)[ \t]*(\w*)([^\n`]*)\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    title: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """Find the blocks of code of a page in their order."""
    found = []
    for match in FENCE.finditer(text):
        _, _, language, info, code = match.groups()
        title = re.search(r'title="([^"]+)"', info)
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, title[1] if title else "", textwrap.dedent(code), line))
    return found


def commands(code: str) -> list[list[str]]:
    """Split the lines of a bash block into words; a backslash at the end joins a line to the next."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for words in (split(line, comments=True) for line in lines) if words]


def run_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all blocks of a page, in the folder that is current."""
    module = types.ModuleType(f"page_{path.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for block in blocks(path.read_text(encoding="utf-8")):
        where = f"{path.name}:{block.line}"
        if block.title:
            _write(block, monkeypatch)
        elif block.language == "python":
            run_python(block.text, module.__dict__, where)
        elif block.language == "bash":
            for words in commands(block.text):
                run_command(words, where)


def run_python(code: str, names: dict[str, object], where: str) -> None:
    """Run a block; one that imports a library that cannot be had here is only compiled."""
    compiled = compile(code, where, "exec")
    if any(re.search(rf"^\s*(?:import|from) {name}\b", code, re.MULTILINE) for name in NOT_HERE):
        return
    with warnings.catch_warnings():
        # Other libraries use what is deprecated elsewhere; no reader is shown that.
        warnings.simplefilter("ignore", DeprecationWarning)
        exec(compiled, names)


def run_command(words: Sequence[str], where: str) -> None:
    """Run a line of bash, shortened, or hold it to the real parser where it cannot run here."""
    if words[0] == "torchrun":
        words = ["soar", *_under_torchrun(words[1:])]
    if words[0] == "soar":
        run_soar(words, where)
    elif words[:2] == ["python", "-m"] and words[2] in ("tools.theory", "tools.figures"):
        run_paper(words[2], words[3:], where)
    elif words[:2] == ["python", "-m"] and words[2] == "soar.experiments.show.page":
        assert importlib.import_module(words[2]).main(words[3:]) == 0, f"{where}: {' '.join(words)}"
    elif words[:2] == ["python", "-m"] and words[2].startswith("tools.figures."):
        program = importlib.import_module(words[2])
        assert command.carried_out(program.act, words[3:]) == 0, f"{where}: {' '.join(words)}"
    elif words[0] == "pip" or (words[:2] == ["python", "-m"] and words[2] in ("pip", "mkdocs", "build")):
        check_extras(words, where)
    elif words[0] == "tensorboard":
        assert words[1] == "--logdir" and list(Path(words[2]).rglob("events.*")), f"{where}: nothing to show"
    elif words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[0] == "python" and words[1].startswith(("examples/", "docs/", "benchmarks/", "tools/")):
        # The tests beside these programs run them.
        assert (ROOT / words[1]).is_file(), f"{where}: there is no {words[1]}"
    else:
        raise AssertionError(f"{where}: nobody knows how to try '{' '.join(words)}'")


def run_soar(words: Sequence[str], where: str) -> None:
    """Run a command of ours with fewer images and steps."""
    arguments, fields = make_parser().parse_known_args(words[1:])
    assert not fields or words[1] in TAKES_FIELDS, f"{where}: {fields}"
    if _only_parsed(words):
        if words[1] in ("train", "sweep") and arguments.recipe is not None:
            recipes.load(arguments.recipe, fields)
        return
    few = {
        "evaluate": ["--examples", "4"],
        "diagnose": ["--examples", "4"],
        "certify": ["--examples", "4"],
        "report": ["--examples", "4"],
        "study": ["--examples", "4", "--max_steps", "1", "--model.width", "4", "--validation.examples", "5"],
    }.get(words[1], [])
    takes_no_flags = words[1] in ("list", "data", "export")
    quiet = [] if takes_no_flags else ["--quiet", "--threads", "1"]
    assert main([*words[1:], *few, *quiet]) == 0, f"{where}: {' '.join(words)}"


def run_paper(module: str, words: Sequence[str], where: str) -> None:
    """Run a part of the paper's theory or a figure, with few images and directions."""
    program = importlib.import_module(f"{module}.__main__")
    arguments = command.make_parser(module, "", program.PARTS).parse_args(words)
    if arguments.part in PARTS_ONLY_PARSED:
        return
    few = {"examples": ["--examples", "2"], "samples": ["--samples", "2"]}
    shorter = [word for name, flags in few.items() if hasattr(arguments, name) for word in flags]
    assert program.main([*words, *shorter]) == 0, f"{where}: {' '.join(words)}"


def check_extras(words: Sequence[str], where: str) -> None:
    """Hold what is installed, such as "soar-robust[onnx]", to the extras and the version that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = " ".join(words)
    for package, name in re.findall(r"([\w.-]+)\[([^\]]+)\]", installed):
        assert package in (project["name"], "."), f"{where}: {package} is not this package"
        assert set(name.split(",")) <= set(project["optional-dependencies"]), f"{where}: no extra {name}"
    wheel = f"dist/{project['name'].replace('-', '_')}-{soar.__version__}-py3-none-any.whl"
    assert all(word == wheel for word in words if word.endswith(".whl")), f"{where}: expected {wheel}"
    assert not {"soar", project["name"]} & set(words), f"{where}: relies on the package index"


def _only_parsed(words: Sequence[str]) -> bool:
    named = any(tuple(words[: len(start)]) == start for start in ONLY_PARSED)
    return named or any(flag in words for flag in ONLY_PARSED_FLAGS)


def _under_torchrun(words: Sequence[str]) -> list[str]:
    """Return the arguments of the program that torchrun starts, parsed by its own parser."""
    from torch.distributed.run import get_args_parser

    arguments = get_args_parser().parse_args(words)
    assert arguments.module and arguments.training_script == "soar", words
    return list(arguments.training_script_args)


def _write(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file that a page shows; a module of that name from another page is forgotten."""
    path = Path(block.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)
    if path.suffix == ".py":
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
        importlib.invalidate_caches()
