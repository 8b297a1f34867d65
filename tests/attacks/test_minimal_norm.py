from __future__ import annotations

import pytest
import torch

from soar.attacks.fab import FAB
from soar.attacks.hyperplane import nearest
from soar.attacks.minimal_norm import minimal_norm
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, Passes, TinyNet, images, said

KINDS: list[tuple[Threat, int]] = [(Linf(1), 1), (L2(1), 2)]
kinds = pytest.mark.parametrize("threat, dual", KINDS, ids=str)


@kinds
@pytest.mark.parametrize("classes", [2, 5])
def test_distances_of_a_linear_model_are_the_closed_form(threat: Threat, dual: int, classes: int) -> None:
    model, x = Linear(classes), images(40)
    labels = said(model, x)
    distances = model.distances(x, labels, dual)
    near = distances < 0.25
    assert near.sum() >= 4
    found = minimal_norm(model, FAB(steps=10), threat, x[near], labels[near])
    torch.testing.assert_close(found.norm, distances[near], atol=1e-6, rtol=0)
    assert (said(model, found.points) != labels[near]).all()
    torch.testing.assert_close(threat.norm(found.points - x[near]), found.norm)


@kinds
def test_distances_at_the_edge_of_the_pixel_range(threat: Threat, dual: int) -> None:
    model, x = Linear(2), images(12).round()
    labels = said(model, x)
    w = model.weight.detach()
    value = model(x).detach().diff(dim=1)[:, 0]
    move = nearest(x, (w[1] - w[0]).expand_as(x), value, threat)
    found = minimal_norm(model, FAB(), threat, x, labels)
    assert (found.norm > 1.02 * model.distances(x, labels, dual)).sum() >= 4
    assert (found.norm >= threat.norm(move) - 1e-9).all()
    torch.testing.assert_close(found.norm, threat.norm(move), atol=0, rtol=0.01)


@kinds
def test_points_of_a_network_are_wrong_but_hardly_so(threat: Threat, dual: int) -> None:
    model, x = TinyNet(), images(10)
    labels = said(model, x)
    found = minimal_norm(model, FAB(steps=20, restarts=2), threat, x, labels, batch_size=4)
    is_found = found.norm.isfinite()
    assert is_found.sum() >= 5
    assert (said(model, found.points)[is_found] != labels[is_found]).all()
    assert (said(model, torch.lerp(x, found.points, 0.9999))[is_found] == labels[is_found]).all()
    assert torch.equal(found.points[~is_found], x[~is_found])
    whole = minimal_norm(model, FAB(steps=20, restarts=2), threat, x, labels)
    torch.testing.assert_close(whole.norm, found.norm)


def test_images_that_are_wrong_already_have_no_distance() -> None:
    model, x = TinyNet(), images(4)
    labels = said(model, x)
    labels[1] = (labels[1] + 1) % 5
    found = minimal_norm(model, FAB(steps=3), Linf(1), x, labels)
    assert found.norm[1] == 0 and torch.equal(found.points[1], x[1])
    assert (found.norm[[0, 2, 3]] > 0).all()


def test_uint8_images_and_no_images() -> None:
    model, x = TinyNet(), (images(3) * 255).round().to(torch.uint8)
    labels = said(model, x.double() / 255)
    from_bytes = minimal_norm(model, FAB(steps=3), L2(1), x, labels)
    from_numbers = minimal_norm(model, FAB(steps=3), L2(1), x.double() / 255, labels)
    torch.testing.assert_close(from_bytes.norm, from_numbers.norm)
    assert minimal_norm(model, FAB(steps=3), L2(1), x[:0], labels[:0]).norm.shape == (0,)


def test_the_model_is_left_as_it_was() -> None:
    model, x = Passes(), images(2)
    labels = said(model.model, x)
    model.train()
    minimal_norm(model, FAB(steps=2), Linf(1), x, labels)
    assert not any(model.modes) and model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_images_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match=r"expected \[0, 1\]"):
        minimal_norm(TinyNet(), FAB(), Linf(1), 3 * images(2), torch.zeros(2, dtype=torch.int64))
