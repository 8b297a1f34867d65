from __future__ import annotations

import shlex
import sys

import pytest

from soar.environment import environment


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["reproduce", "adv_linf", "--only", "ResNet / SOAR", "--eps", "8/255"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/soar", *words])
    assert shlex.split(environment()["command"]) == ["soar", *words]
