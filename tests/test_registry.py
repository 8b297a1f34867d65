from __future__ import annotations

from fractions import Fraction

import pytest

from soar.errors import UserError
from soar.registry import Registry


def test_things_are_built_by_name_from_options() -> None:
    things: Registry[str] = Registry("thing")

    @things.register("word")
    def word(start: str, *, times: int = 1) -> str:
        """Repeat a word.

        And say no more.
        """
        return start * times

    assert things.build("word", {"times": "2"}, "ab") == "abab"
    assert [(entry.name, entry.description) for entry in things] == [("word", "Repeat a word.")]
    with pytest.raises(UserError, match=r"unknown thing 'wrd' \(thing\.name\); did you mean 'word'"):
        things["wrd"]
    with pytest.raises(ValueError, match="thing 'word' is registered twice"):
        things.register("word")(word)


def test_a_builder_of_any_package_is_found_by_its_path() -> None:
    things: Registry[object] = Registry("thing")
    assert things.build("fractions:Fraction", {}, 3, 6) == Fraction(1, 2)
    with pytest.raises(UserError, match=r"thing: cannot import no_such_package"):
        things["no_such_package:build"]
    with pytest.raises(UserError, match=r"thing: math has no class or function 'pi' \(flag --thing\)"):
        things["math:pi"]
    with pytest.raises(UserError, match=r"thing: got 'math:', expected package.module:callable"):
        things["math:"]
