import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from soar.cli import data
from soar.errors import UserError


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="soar data")
    data.add_arguments(parser)
    return data.run(parser.parse_args(words))


def test_list_says_what_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--root", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cifar10               50,000 + 10,000 photographs")
    assert lines[1].strip() == "not here, 184 MB; soar data fetch cifar10"
    assert any(line.strip().startswith("here, ") for line in lines)
    assert any(line.startswith("folder ") and "DIR/train/<class>/" in line for line in lines)


def test_verify_of_whole_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "fashion-mnist-sample") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["train.png", "ok"],
        ["test.png", "ok"],
        ["labels.npz", "ok"],
    ]


def test_verify_of_missing_and_damaged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "train_32x32.mat").write_bytes(b"cut")
    with pytest.raises(
        UserError, match=r"^svhn: 2 of 2 files are missing or damaged; .* soar data fetch svhn$"
    ):
        run("verify", "svhn", "--root", str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["train_32x32.mat", "damaged"],
        ["test_32x32.mat", "missing"],
    ]


def test_fetch_says_where_the_files_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "fashion-mnist-sample") == 0
    assert capsys.readouterr().out.startswith("fashion-mnist-sample is in ")


def test_quiet_fetch_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "fashion-mnist-sample", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_fetch_takes_a_place_and_a_root(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"could not be fetched: .*/nowhere: holds neither"):
        run("fetch", "svhn", "--from", f"{tmp_path}/nowhere", "--root", str(tmp_path))


def test_an_unknown_name_is_answered_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown dataset 'cifar' .*did you mean 'cifar10'"):
        run("verify", "cifar")


def test_importing_the_command_is_cheap() -> None:
    code = "import sys, soar.cli.data; print({'torch', 'numpy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
