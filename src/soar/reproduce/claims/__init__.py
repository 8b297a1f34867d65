"""The paper's qualitative claims, each held, not held or undecided by our numbers."""

from soar.reproduce.claims.claim import Claim as Claim
from soar.reproduce.claims.claim import Judged as Judged
from soar.reproduce.claims.judge import claims as claims
from soar.reproduce.claims.judge import judge as judge
