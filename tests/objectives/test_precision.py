"""What a user allows float32 products to round is left as it was, in PyTorch's older way and in the newer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from soar.objectives import OBJECTIVES
from soar.objectives.inner_passes import full_precision
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said

HAS_NEWER = hasattr(torch.backends, "fp32_precision")
PARTS = [(backend, kind) for backend in ("cuda", "mkldnn") for kind in ("matmul", "conv", "rnn")]


def newer() -> dict[tuple[str, str], str]:
    """The precision of every part, as PyTorch resolves it."""
    if not HAS_NEWER:
        return {}
    kinds = [("generic", "all"), ("cuda", "all"), ("mkldnn", "all"), *PARTS]
    return {kind: torch._C._get_fp32_precision_getter(*kind) for kind in kinds}


def older() -> list[object]:
    """What the older way tells, which refuses once the newer one says something else."""
    found: list[object] = []
    asked: list[Callable[[], object]] = [
        torch.get_float32_matmul_precision,
        lambda: torch.backends.cudnn.allow_tf32,
        lambda: torch.backends.cuda.matmul.allow_tf32,
    ]
    for ask in asked:
        try:
            found.append(ask())
        except RuntimeError:
            found.append("refused")
    return found


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, (products, convolutions, _) = newer(), older()
    yield
    for kind in before:
        torch._C._set_fp32_precision_setter(*kind, "none")
    torch.set_float32_matmul_precision(str(products))
    torch.backends.cudnn.allow_tf32 = bool(convolutions)
    for kind, precision in before.items():
        torch._C._set_fp32_precision_setter(*kind, precision)
    assert (newer(), older()[:2]) == (before, [products, convolutions])


def set_products() -> None:
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False


def set_in_the_older_way() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True


def set_newer(*names: str, to: str) -> Callable[[], None]:
    def change() -> None:
        owner: Any = torch.backends
        for name in names:
            owner = getattr(owner, name)
        owner.fp32_precision = to

    return change


@pytest.mark.parametrize(
    "change, is_newer",
    [
        (lambda: None, False),
        (set_products, False),
        (set_in_the_older_way, False),
        (set_newer(to="tf32"), True),
        (set_newer("cuda", "matmul", to="tf32"), True),
        (set_newer("cudnn", "conv", to="ieee"), True),
        (set_newer("mkldnn", "matmul", to="bf16"), True),
    ],
    ids=["nothing", "products", "older", "everything", "cuda.matmul", "cudnn.conv", "mkldnn.matmul"],
)
def test_every_objective_leaves_the_precision_as_it_was(change: Callable[[], None], is_newer: bool) -> None:
    if is_newer and not HAS_NEWER:
        pytest.skip("this PyTorch has only the older way")
    change()
    before = newer(), older()
    with full_precision(torch.device("cpu")):
        assert {newer()[part] for part in PARTS if HAS_NEWER} <= {"ieee"}
        assert set(older()) <= {"highest", False, "refused"}
        assert is_newer or "refused" not in older(), "the older way still tells what is so"
    assert (newer(), older()) == before
    model, x = TinyNet(), images(2)
    for entry in OBJECTIVES:
        entry.build(model, Linf("1/10"))(x, said(model, x), torch.arange(2)).loss.backward()
        assert (newer(), older()) == before, entry.name
