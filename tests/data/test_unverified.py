"""Files that are not those that were published: taken only when asked, under a name that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from soar import data, runs
from soar.cli.main import main
from soar.data import catalog
from soar.data.fetch import fetch, verify
from soar.data.unverified import files_of
from soar.errors import UserError
from soar.evaluation import Assessment
from soar.evaluation.target import Target
from tests.cli.tiny import TINY
from tests.data.test_published import write_cifar10, write_svhn


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """A folder of datasets with rebuilt digits in it."""
    (tmp_path / "own").mkdir()
    write_svhn(tmp_path / "own")
    fetch("svhn", tmp_path / "root", origin=str(tmp_path / "own"), allow_unverified=True)
    return tmp_path / "root"


def test_other_files_are_taken_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    write_svhn(tmp_path / "own")
    with pytest.raises(UserError, match="wrong contents"):
        fetch("svhn", tmp_path / "root", origin=str(tmp_path / "own"))
    with pytest.raises(UserError, match=r"soar data fetch svhn --from DIR --allow-unverified"):
        fetch("svhn", tmp_path / "root", allow_unverified=True)
    with pytest.raises(UserError, match=r"soar data fetch svhn --from DIR --allow-unverified"):
        fetch("svhn-unverified", tmp_path / "root", origin=str(tmp_path / "own"))
    with pytest.raises(UserError, match=r"svhn-unverified' is not in .* --from DIR --allow-unverified"):
        catalog.read("svhn-unverified", tmp_path / "root")


def test_they_are_a_dataset_of_their_own(taken: Path) -> None:
    found = data.load("svhn-unverified", root=taken, validation=0)
    assert found.name == "svhn-unverified" and found.train.labels.tolist() == [0, 1, 9, 0]
    with pytest.raises(UserError, match=r"'svhn' is not in"):
        data.load("svhn", root=taken)


def test_damage_is_still_found(taken: Path) -> None:
    assert [state for _, state in verify("svhn-unverified", taken)] == ["ok", "ok"]
    path = taken / "svhn-unverified" / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert [state for _, state in verify("svhn-unverified", taken)] == ["ok", "damaged"]
    with pytest.raises(UserError, match=r"wrong contents, md5.*run `soar data verify svhn-unverified`"):
        data.load("svhn-unverified", root=taken)
    # What was published stays what it is, whatever lies beside it.
    assert files_of("svhn", taken / "svhn") == catalog.FETCHABLE["svhn"]


@pytest.mark.parametrize("record", ["", "{}", '{"train_32x32.mat": [1, "x"]}', "[1]"])
def test_a_damaged_record_is_refused(taken: Path, record: str) -> None:
    (taken / "svhn-unverified" / "md5.json").write_text(record)
    with pytest.raises(UserError, match=r"md5\.json"):
        data.load("svhn-unverified", root=taken)


def test_archives_are_unpacked_too(tmp_path: Path) -> None:
    import tarfile

    (tmp_path / "own").mkdir()
    write_cifar10(tmp_path / "own")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for path in sorted((tmp_path / "own").iterdir()):
            archive.add(path, f"cifar-10-batches-bin/{path.name}")
    fetch("cifar10", tmp_path / "root", origin=str(tmp_path), allow_unverified=True)
    assert len(data.load("cifar10-unverified", root=tmp_path / "root", validation=0).train) == 10


def test_the_commands_say_what_they_are(taken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(taken)]
    assert main(["data", "list", *root]) == 0
    assert "here, as svhn-unverified: unverified files, " in " ".join(capsys.readouterr().out.split())
    assert main(["data", "verify", "svhn-unverified", *root]) == 0
    assert "not the files that were published" in capsys.readouterr().out
    (taken / "svhn-unverified" / "test_32x32.mat").unlink()
    assert main(["data", "verify", "svhn-unverified", *root]) == 2
    assert "soar data fetch svhn --from DIR --allow-unverified" in capsys.readouterr().err
    own = str(taken.parent / "own")
    assert main(["data", "fetch", "svhn", "--from", own, "--allow-unverified", *root]) == 0
    assert capsys.readouterr().out.startswith("svhn-unverified is in ")


def test_run_assessment_and_other_data_carry_the_name(
    taken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", "svhn-unverified", "--root", str(taken), "--output", str(tmp_path / "run")]
    few = ["--batch_size", "2", "--data.validation", "0", "--max_steps", "1", "--eps", "1/255"]
    few += ["--model.input_normalization", "none"]
    assert main(["train", "demo-robust", *TINY, *words, *few]) == 0
    run = tmp_path / "run"
    assert runs.find(run).recipe.data.name == "svhn-unverified"
    capsys.readouterr()
    assert main(["evaluate", str(run), "--attacks", "fgsm", "--root", str(taken), "--quiet"]) == 0
    assert Assessment.load(run / "assessment.json").data == "svhn-unverified (test)"
    assert "images of svhn-unverified (test)" in capsys.readouterr().out
    other = data.load(f"folder:{_folder(tmp_path)}")
    assert Target.from_run(runs.find(run), root=taken, data=other).name.endswith("trained on svhn-unverified")


def _folder(tmp_path: Path) -> Path:
    from PIL import Image

    for name in "0123456789":
        (tmp_path / "images" / name).mkdir(parents=True)
        for place in range(2):
            Image.new("RGB", (32, 32), (place, 0, 0)).save(tmp_path / "images" / name / f"{place}.png")
    return tmp_path / "images"
