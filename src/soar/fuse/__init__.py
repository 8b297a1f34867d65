"""Copies of a model that return the same logits in less time: batch norms fused, ReLUs in place."""

from soar.fuse.batch_norm import CannotFuseError, fuse_batch_norm
from soar.fuse.inference import inference_copy

__all__ = ["CannotFuseError", "fuse_batch_norm", "inference_copy"]
