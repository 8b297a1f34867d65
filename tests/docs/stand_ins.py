"""Stand-ins for libraries that the documentation uses and the tests do not install.

They take what the real ones take, call what these call and in the same order, and know no other option, so
that a block fails if it uses our side wrongly. `test_frameworks.py` runs the same blocks with the real ones.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

Batches = Iterable[Any]


def provide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins where the libraries would be imported from."""
    libraries: dict[str, dict[str, Any]] = {
        "lightning": {"LightningModule": LightningModule, "Trainer": LightningTrainer},
        "transformers": {
            "Trainer": HuggingFaceTrainer,
            "TrainingArguments": TrainingArguments,
            "ViTConfig": SimpleNamespace,
            "ViTForImageClassification": VisionTransformer,
        },
        "accelerate": {"Accelerator": Accelerator},
        "wandb": {"init": WandBRun},
    }
    for name, members in libraries.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def half(precision: str) -> Any:
    """Return autocast to bfloat16 where a library was asked for it."""
    return torch.autocast("cpu", torch.bfloat16) if "bf16" in precision else nullcontext()


class LightningModule(nn.Module):
    """What is logged must be numbers, and finite by the time it is."""

    def log_dict(self, values: dict[str, Any], *, batch_size: int | None = None) -> None:
        assert values and batch_size != 0
        assert all(bool(torch.as_tensor(value).isfinite()) for value in values.values()), values


class LightningTrainer:
    def __init__(
        self,
        *,
        max_epochs: int,
        precision: str,
        gradient_clip_val: float,
        logger: bool,
        enable_checkpointing: bool,
    ) -> None:
        self.epochs, self.precision, self.longest = max_epochs, precision, gradient_clip_val

    def fit(self, module: Any, train: Batches, held_out: Batches) -> None:
        optimizer = module.configure_optimizers()
        for _ in range(self.epochs):
            for number, batch in enumerate(train):
                with half(self.precision):
                    loss = module.training_step(batch, number)
                optimizer.zero_grad()
                loss.backward()
                module.on_after_backward()
                nn.utils.clip_grad_norm_(module.parameters(), self.longest)
                optimizer.step()
            with torch.inference_mode(), half(self.precision):
                for number, batch in enumerate(held_out):
                    module.validation_step(batch, number)


class TrainingArguments(SimpleNamespace):
    KNOWN = (
        *("output_dir", "num_train_epochs", "per_device_train_batch_size", "learning_rate", "max_grad_norm"),
        *("bf16", "use_cpu", "eval_strategy", "save_strategy", "report_to"),
        *("label_names", "remove_unused_columns"),
    )

    def __init__(self, **options: Any) -> None:
        assert options.keys() <= set(self.KNOWN), options.keys() - set(self.KNOWN)
        super().__init__(**options)


class HuggingFaceTrainer:
    def __init__(self, *, model: nn.Module, args: Any, train_dataset: Any, eval_dataset: Any) -> None:
        self.model, self.args, self.data = model, args, (train_dataset, eval_dataset)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False) -> Any:
        raise NotImplementedError

    def train(self) -> None:
        train, held_out = (DataLoader(one, self.args.per_device_train_batch_size) for one in self.data)
        optimizer = torch.optim.AdamW(self.model.parameters(), self.args.learning_rate)
        precision = "bf16" if self.args.bf16 else ""
        self.model.train()
        for inputs in train:
            with half(precision):
                loss = self.compute_loss(self.model, inputs)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            optimizer.step()
        self.model.eval()
        for inputs in held_out:
            with torch.no_grad(), half(precision):
                loss, outputs = self.compute_loss(self.model, inputs, return_outputs=True)
            assert bool(loss.isfinite()) and len(outputs["logits"]) == len(inputs["labels"])


class VisionTransformer(nn.Module):
    """A linear model with the interface of Transformers' classifiers."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.head = nn.Linear(config.num_channels * config.image_size**2, config.num_labels)

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(pixel_values.flatten(1)))


class Accelerator:
    def __init__(self, *, mixed_precision: str) -> None:
        self.precision = mixed_precision

    def prepare(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(_Prepared(one, self.precision) if isinstance(one, nn.Module) else one for one in parts)

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Iterable[Tensor], longest: float) -> None:
        nn.utils.clip_grad_norm_(parameters, longest)

    def unwrap_model(self, wrapped: Any) -> nn.Module:
        unwrapped: nn.Module = wrapped.module
        return unwrapped


class _Prepared(nn.Module):
    """Hides the attributes of what it wraps, as a data-parallel wrapper does."""

    def __init__(self, module: nn.Module, precision: str) -> None:
        super().__init__()
        self.module, self.precision = module, precision

    def forward(self, *arguments: Any) -> Any:
        with half(self.precision):
            return self.module(*arguments)


class WandBRun:
    def __init__(self, **settings: Any) -> None:
        assert settings["project"] == "soar" and settings["config"]

    def log(self, row: dict[str, float], *, step: int) -> None:
        assert row and step > 0

    def finish(self) -> None:
        pass
