from __future__ import annotations

import pytest

from soar.attacks import FGSM, PGD
from soar.attacks.suites import SUITES, resolve
from soar.errors import UserError


@pytest.mark.parametrize("name", SUITES)
def test_suites_are_found_by_name(name: str) -> None:
    assert resolve(name) == list(SUITES[name])


def test_attacks_are_written_as_text() -> None:
    assert resolve("fgsm") == [FGSM()]
    text = "pgd:steps=7,step_size=2/255,loss=dlr,random_start=false"
    assert resolve(text) == [PGD(steps=7, step_size="2/255", loss="dlr", random_start=False)]
    assert resolve([PGD(steps=3), "fgsm"]) == [PGD(steps=3), FGSM()]


@pytest.mark.parametrize(
    "text, message",
    [
        ("pdg", r"unknown attack 'pdg' \(flag --attacks\); did you mean 'pgd'"),
        ("pgd:stps=3", r"unknown option of PGD 'stps' .* did you mean 'steps'"),
        ("pgd:steps=three", "attack.steps: got 'three', expected `int`"),
        ("pgd:steps", "got 'steps' in 'pgd:steps', expected option=value"),
        ("pgd:steps=0", "attack.steps: got 0, expected at least 1"),
    ],
)
def test_misspelt_attacks_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve(text)


def test_twice_the_same_attack_is_refused() -> None:
    with pytest.raises(UserError, match="got 'FGSM' more than once"):
        resolve(["quick", "fgsm"])
    with pytest.raises(UserError, match="got none"):
        resolve([])
