"""Studies: several trainings compared under the same attacks, by one command."""

from __future__ import annotations

from soar.studies.conduct import conduct
from soar.studies.findings import Finding, Findings
from soar.studies.study import Arm, Study, load, names

__all__ = ["Arm", "Finding", "Findings", "Study", "conduct", "load", "names"]
