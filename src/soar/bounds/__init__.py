"""Bounds of a model's logits over all images that a threat allows: what no attack can exceed."""

from soar.bounds.crown import crown_margins
from soar.bounds.ibp import LogitBounds, propagate, worst_logits
from soar.bounds.interval import Interval, require_bounded

__all__ = ["Interval", "LogitBounds", "crown_margins", "propagate", "require_bounded", "worst_logits"]
