"""The paper's qualitative claims, each held, not held or undecided by our numbers."""

from soar.experiments.claims.claim import Claim as Claim
from soar.experiments.claims.claim import Judged as Judged
from soar.experiments.claims.judge import claims as claims
from soar.experiments.claims.judge import judge as judge
