"""The base class of training objectives: modules that hold the model and return loss, logits and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar import values
from soar.double_backward.graph import obstacle, undifferentiable
from soar.errors import UserError
from soar.inputs import check_batch, check_images, check_numbers
from soar.losses import cross_entropy
from soar.model_state import require_module, uncompiled, warn_if_compiled
from soar.prediction import knowing
from soar.registry import Registry
from soar.threat import Threat, require_threat

_HALF = (torch.float16, torch.bfloat16)


class Output(NamedTuple):
    """The result of an objective for a batch."""

    loss: Tensor
    """the scalar to call backward on"""
    logits: Tensor
    """the predictions the loss was computed from, without a graph"""
    metrics: dict[str, Tensor]
    """scalars worth logging, without a graph"""


class Objective(nn.Module, ABC):
    """Holds a model; `objective(x, y).loss` is the training loss, in any training loop.

    Inner attacks and every inner gradient happen inside `forward`. Data-parallel wrapping therefore goes
    around the objective and never around the bare model. The threat may be replaced between steps, for
    example by a smaller one while training warms up.

    A module may hold both the model and its objective, as a `LightningModule` does: assign the model first,
    and `state_dict` has its tensors once, under the name of the model.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        seed: seed of all random numbers drawn inside
    """

    allows_bfloat16: ClassVar[bool] = True
    """Whether weights and logits of bfloat16 are precise enough; for differences of gradients, and for bounds
    that allow for rounding, they are not.

    Autocast is allowed in any case: what needs float32 is computed in it.
    """

    differentiates_twice: ClassVar[bool] = False
    """Whether gradients by the pixels are differentiated again, which takes layers that support it."""

    needs_index: ClassVar[bool] = False
    """Whether it keeps values per example, and so needs the index of each."""

    couples_examples: ClassVar[bool] = False
    """Whether the loss of an example depends on the others of its batch; otherwise it is their mean."""

    model: nn.Module
    threat: Threat | None
    label_smoothing: float
    """Label smoothing of the classification loss."""
    micro_batches: int
    """How many calls make up one update; set by a loop that accumulates gradients."""

    def __init__(self, model: nn.Module, threat: Threat | None = None, *, seed: int = 0) -> None:
        super().__init__()
        require_module(model)
        if threat is not None:
            require_threat(threat)
        values.whole(seed, "seed")
        self.model = model
        self.threat = threat
        self.seed = seed
        self.calls = 0
        self.label_smoothing = 0.0
        self.micro_batches = 1
        self._is_checked = False
        self._check_weights()
        if self.differentiates_twice:
            why = f"compiled code has one derivative and {type(self).__name__} needs two"
            # The line that builds the objective.
            warn_if_compiled(model, why, stacklevel=4)

    def forward(self, x: Tensor, y: Tensor, index: Tensor | None = None, step: int | None = None) -> Output:
        """Return the loss of a batch.

        Random numbers depend on the seed, the step and each example's index. A loop that passes neither
        still gets new random numbers at every call.

        Args:
            x: images in [0, 1]
            y: true classes
            index: identity of each example; by default its position in the batch
            step: the training step; by default the number of calls so far

        Raises:
            UserError: for images, labels, indices or a step of another type or shape; without an index where
                the objective needs it; for a model that does not return logits. Pixels outside of [0, 1] are
                checked for at the first call, labels without a logit at the first call and on the CPU at each
        """
        check_batch(x, y)
        if x.dtype == torch.uint8:
            raise UserError("images: got torch.uint8, expected float in [0, 1]; see soar.data.to_unit")
        if not len(x):
            raise UserError("images: got none, expected at least one in a batch")
        if x.device != y.device:
            raise UserError(
                f"labels: got some on {y.device}, expected them on {x.device}, where the images are"
            )
        index, step = self._identities(index, y), self._step(step)
        is_first = not self._is_checked
        if is_first:
            # Once is enough to find a wrong setup, and on a GPU every check synchronizes.
            check_images(x, y)
            self._check_weights()
        with (
            knowing(y) if is_first or y.device.type == "cpu" else nullcontext(),
            uncompiled() if self.differentiates_twice else nullcontext(),
        ):
            output = self.compute(x, y, index, step)
        if is_first and self.differentiates_twice and (reason := obstacle(output.loss)) is not None:
            raise undifferentiable(reason)
        self._is_checked = True
        is_autocast = torch.is_autocast_enabled(x.device.type)
        if not self.allows_bfloat16 and output.logits.dtype in _HALF and not is_autocast:
            raise UserError(
                f"model: got logits of {output.logits.dtype}, which {type(self).__name__} cannot use, because"
                " it computes differences that vanish in their rounding; compute in float32 inside the model"
            )
        return output

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state, without the model where a module around this one has put the model there before.

        Files of safetensors hold no tensor twice.
        """
        found = super().state_dict(*args, **kwargs)
        prefix = kwargs.get("prefix", "")
        addresses = {name: _address(value) for name, value in found.items()}
        elsewhere = {address for name, address in addresses.items() if not name.startswith(prefix)}
        own = [name for name in found if name.startswith(f"{prefix}model.")]
        here = {addresses[name] for name in own} - {None}
        if here and here <= elsewhere:
            for name in own:
                del found[name]
        return found

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Load the state; the module around this one loads the model where `state_dict` left it out."""
        if prefix and not any(name.startswith(f"{prefix}model.") for name in state_dict):
            state_dict.update(self.model.state_dict(prefix=f"{prefix}model.", keep_vars=True))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _identities(self, index: Tensor | None, y: Tensor) -> Tensor:
        """Return the identity of each example, where the images are."""
        if index is not None:
            return check_numbers(index, len(y), "index").to(y.device)
        if self.needs_index:
            name = type(self).__name__
            raise UserError(
                f"{name} keeps values per example, so its data need indices: call objective(x, y, index)"
                " with each example's position in the training set"
            )
        return torch.arange(len(y), device=y.device)

    def _step(self, step: int | None) -> int:
        """Return the step, and count the call where none was given."""
        if step is not None:
            values.whole(step, "step", least=0, flag="")
            return step
        self.calls += 1
        return self.calls - 1

    def _check_weights(self) -> None:
        """Check that the weights are precise enough for the gradients of this objective.

        Gradients of float16 below 6e-8 are zero: those of pixels are often smaller, so that inner attacks
        stand still, and PyTorch refuses loss scaling, the usual remedy, for float16 weights.
        """
        allowed = "float32 or bfloat16" if self.allows_bfloat16 else "float32"
        refused = (torch.float16,) if self.allows_bfloat16 else _HALF
        for name, weight in self.model.named_parameters():
            if weight.dtype in refused:
                raise UserError(
                    f"model: got {name} of {weight.dtype}, expected weights of {allowed} for"
                    f" {type(self).__name__}: convert them by model.float();"
                    " training.precision = bfloat16 computes in half precision with such weights"
                )

    @abstractmethod
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Return the loss of a batch; this is what a new objective implements."""

    def classification_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of each example, with label smoothing if it is set.

        (1 - s) (-log p_y) + s mean_k (-log p_k), with s the label smoothing (Szegedy et al., 2016). Only the
        classification loss is smoothed: inner searches and penalties keep the true label.

        Args:
            logits: the model's predictions
            y: true classes
        """
        if not self.label_smoothing:
            return cross_entropy(logits, y)
        return F.cross_entropy(logits, y, reduction="none", label_smoothing=self.label_smoothing)

    def required_threat(self) -> Threat:
        """Return the threat, which this objective requires.

        Raises:
            UserError: if the objective was made without a threat
        """
        if self.threat is None:
            raise UserError(f"{type(self).__name__} needs a threat, such as Linf('8/255') (field threat)")
        return self.threat


def _address(value: object) -> tuple[torch.device, int, torch.Size] | None:
    """Return where a tensor lies in memory, None for one without numbers there and for anything else."""
    pointer = value.data_ptr() if isinstance(value, Tensor) else 0
    return (value.device, pointer, value.shape) if isinstance(value, Tensor) and pointer else None


OBJECTIVES: Registry[Objective] = Registry("objective")
"""the objectives of recipes and the command line, by name"""
