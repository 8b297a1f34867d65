from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import soar
from soar.double_backward import FastDoubleBackward
from soar.double_backward.attention import attend

SEEN = torch.tensor([[True, False, True], [True, True, False]])


def tokens(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, 4, 2, 5), (2, 4, 3, 5), (2, 4, 3, 6))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.3}, {"is_causal": True}, {"attn_mask": SEEN}, {"attn_mask": SEEN.double() * 2}],
    ids=str,
)
def test_it_is_pytorchs_attention(options: dict[str, Tensor | float | bool]) -> None:
    q, k, v = tokens()
    expected = F.scaled_dot_product_attention(q, k, v, **options)  # type: ignore[arg-type]
    found = attend(q, k, v, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = tokens()
    expected = F.scaled_dot_product_attention(1e6 * q, k, v)
    torch.testing.assert_close(attend(1e6 * q, k, v), expected)


def test_dropout_drops_what_pytorch_drops() -> None:
    found = []
    for call in (F.scaled_dot_product_attention, attend):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            found.append(call(*tokens(), dropout_p=0.5))
    torch.testing.assert_close(*found)


def test_keys_are_shared_by_groups_of_queries() -> None:
    q, k, v = tokens()
    k, v = k[:, ::2], v[:, ::2]
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(attend(q, k, v, enable_gqa=True), expected)


def test_second_derivatives_are_those_of_the_plain_kernel() -> None:
    def twice(q: Tensor) -> Tensor:
        q = q.clone().requires_grad_()
        loss = F.scaled_dot_product_attention(q, *tokens()[1:]).square().sum()
        (gradient,) = torch.autograd.grad(loss, q, create_graph=True)
        (bend,) = torch.autograd.grad(gradient.square().sum(), q)
        return bend

    with sdpa_kernel(SDPBackend.MATH):
        expected = twice(tokens()[0])
    with FastDoubleBackward():
        found = twice(tokens()[0])
    torch.testing.assert_close(found, expected)


class Transformer(nn.Module):
    """Patches, one layer of attention, a mean; with PyTorch's layer or with its function."""

    def __init__(self, *, layer: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, 4)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) if layer else None
        self.triple, self.last = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = self.patches(x).flatten(2).transpose(1, 2)
        if self.mix is not None:
            found = self.mix(found)
        found = F.scaled_dot_product_attention(*self.triple(found).chunk(3, dim=-1))
        logits: Tensor = self.last(found.mean(dim=1))
        return logits


def batch() -> tuple[Tensor, Tensor]:
    return torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(3)


@pytest.mark.parametrize("layer", [False, True])
@pytest.mark.parametrize(
    "objective",
    [soar.objectives.FOAR, soar.objectives.CURE, soar.objectives.LLR],
    ids=lambda objective: str(objective.__name__),
)
def test_penalties_train_transformers(objective: type[soar.objectives.Objective], layer: bool) -> None:
    model = Transformer(layer=layer)
    objective(model, soar.Linf("8/255"))(*batch()).loss.backward()
    assert all(part.grad is not None and bool(part.grad.isfinite().all()) for part in model.parameters())


@pytest.mark.parametrize("layer", [False, True])
def test_soars_products_agree_on_attention(layer: bool) -> None:
    model, losses = Transformer(layer=layer), []
    for product in ("exact", "finite-difference", "gauss-newton"):
        step = 1e-3 if product == "finite-difference" else 0.5
        objective = soar.objectives.SOAR(model, soar.Linf("8/255"), hvp=product, fd_step=step)
        losses.append(float(objective(*batch(), None, 0).loss.detach()))
    # Gauss-Newton leaves out the curvature of the logits, which is small here.
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] == pytest.approx(losses[2], rel=0.05)
