"""The wheel and the sdist as a stranger meets them: built, installed away from the source tree, used."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import soar
from soar import recipes
from tests.packaging.building import ROOT, build, environment_with, run

DATA = (
    "py.typed",
    "data/fashion_mnist_sample/LICENSE",
    "data/fashion_mnist_sample/labels.npz",
    "data/fashion_mnist_sample/test.png",
    "data/fashion_mnist_sample/train.png",
    "evaluation/assessment.schema.json",
    "evaluation/diagnosis.schema.json",
    "experiments/paper/adv_linf.toml",
    "experiments/paper/networks.toml",
    "experiments/studies/demo.toml",
    "report/assets/page.css",
    "report/assets/page.js",
    "recipes/demo-robust.toml",
)


ABOUT = f"soar_robust-{soar.__version__}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(wheel, tmp_path_factory.mktemp("empty") / "venv")


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"soar/{name}" for name in DATA} <= names
    folder = ROOT / "src" / "soar"
    files = {path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    assert {name for name in names if not name.startswith(f"{ABOUT}/")} == files


def test_its_metadata_are_complete(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    about = message_from_bytes(archive.read(f"{ABOUT}/METADATA"))
    assert wheel.name == f"soar_robust-{soar.__version__}-py3-none-any.whl"
    assert about["Name"] == "soar-robust" and about["Version"] == soar.__version__
    assert about["License-Expression"] == "MIT" and about["Author"] and about["Summary"]
    assert about["Requires-Python"] == ">=3.11" and about["Description-Content-Type"] == "text/markdown"
    assert len(about.get_all("Classifier", [])) >= 10
    needed = [text for text in about.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert len(needed) == 8 and "torch>=2.6" in needed
    scripts = archive.read(f"{ABOUT}/entry_points.txt").decode()
    assert "soar = soar.cli.main:main" in scripts


def test_every_message_and_page_calls_the_package_by_its_name() -> None:
    tree = [path for name in ("src", "docs", "tests") for path in (ROOT / name).rglob("*.*")]
    texts = {path: path.read_text() for path in tree if path.suffix in (".py", ".md", ".toml")}
    texts[ROOT / "README.md"] = (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wrong = re.compile(rf"(?<![\w-])soar\\?\[({'|'.join(extras)}|\{{)")
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if wrong.search(text)] == []


def test_hooks_and_workflow_run_what_make_test_runs() -> None:
    hooks, workflow = ROOT / ".pre-commit-config.yaml", ROOT / ".github" / "workflows" / "test.yml"
    if not hooks.exists():
        pytest.skip("the sdist does not hold how the repository is run")
    assert re.findall(r"repo: (.+)", hooks.read_text()) == ["local"], "nothing is fetched to run a hook"
    entries = re.findall(r"entry: \.venv/bin/(.+)", hooks.read_text())
    lint = re.findall(r"^\t\$\(BIN\)/((?:ruff|mypy).*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert entries == [line.removesuffix(" .") for line in lint] and len(entries) == 3
    versions = ", ".join(f'"{version}"' for version in _supported("Programming Language :: Python :: 3."))
    assert re.findall(r"python: \[(.+)\]", workflow.read_text()) == [versions]
    first, *others = re.findall(r"- run: (.+)", workflow.read_text())
    assert first == "make test PYTHON=python"
    assert others[0] == "python -m pip install ." and all(one.startswith("soar ") for one in others[1:])


def _supported(start: str) -> list[str]:
    """Return what the classifiers that start so say is supported."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [one.rpartition(" ")[2] for one in classifiers if one.startswith(start)]


def test_every_system_of_the_classifiers_has_a_job() -> None:
    workflow = ROOT / ".github" / "workflows" / "test.yml"
    if not workflow.exists():
        pytest.skip("the sdist does not hold how the repository is run")
    jobs = {"MacOS": "macos-latest", "Windows": "windows-latest", "Linux": "ubuntu-latest"}
    assert all(jobs[system] in workflow.read_text() for system in _supported("Operating System ::"))


def test_the_citation_agrees_with_the_metadata() -> None:
    cited = (ROOT / "CITATION.cff").read_text().splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"title: soar ({project['name']})" in cited and f"license: {project['license']}" in cited
    assert all(f"  - name: {one['name']}" in cited for one in project["authors"])


def test_its_size_is_the_one_that_is_stated(wheel: Path) -> None:
    kilobytes = wheel.stat().st_size / 1000
    print(f"{wheel.name}: {kilobytes:.0f} kB")
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    (stated,) = re.findall(r"The wheel has ([\d,]+) kB", page)
    assert kilobytes == pytest.approx(float(stated.replace(",", "")), rel=0.1)


def test_the_sdist_holds_what_tests_need_and_not_how_the_repository_is_run(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.partition("/")[0] for name in names}
    wanted = {"src", "tests", "tools", "benchmarks", "docs"}
    wanted |= {"Makefile", "LICENSE", "CITATION.cff", "SECURITY.md", "README.md", "pyproject.toml"}
    wanted |= {name for name in ("examples", "mkdocs.yml") if (ROOT / name).exists()}
    assert wanted <= tops
    assert not tops & {".ci", ".git", ".venv", "runs", "site", ".mypy_cache", ".hypothesis"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (tmp_path / "made").mkdir()
    again = build("wheel", unpacked, tmp_path / "made")
    first, second = ({n: z.read(n) for n in z.namelist()} for z in map(zipfile.ZipFile, (wheel, again)))
    assert first == second


def test_the_command_and_its_lists_work_without_the_source_tree(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import soar; print(soar.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert run(installed / "soar", "--version", cwd=tmp_path).strip() == f"soar {soar.__version__}"
    listed = run(installed / "soar", "list", "recipes", cwd=tmp_path)
    assert all(name in listed for name in recipes.names())


def test_training_and_evaluation_work_without_the_source_tree(installed: Path, tmp_path: Path) -> None:
    code = "import sys; from soar.cli.main import main; sys.exit(main(TRAIN) or main(EVALUATE))"
    few = ["--max_steps", "2", "--model.width", "4", "--validation.examples", "8", "--validation.steps", "1"]
    common = ["--threads", "1", "--quiet"]
    code = code.replace("TRAIN", repr(["train", "demo-standard", *few, *common]))
    code = code.replace("EVALUATE", repr(["evaluate", "runs/demo-standard", "--examples", "8", *common]))
    assert "worst case" in run(installed / "python", "-c", code, cwd=tmp_path)
    assert (tmp_path / "runs" / "demo-standard" / "assessment.json").exists()
