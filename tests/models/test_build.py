from typing import Any

import pytest
import torch

from soar import models
from soar.errors import UserError


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = models.build("resnet10", seed=5, options={"width": 4}).state_dict()
    torch.manual_seed(2)
    second = models.build("resnet10", seed=5, options={"width": 4}).state_dict()
    other = models.build("resnet10", seed=6, options={"width": 4}).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not any(torch.equal(first[key], other[key]) for key in first)


def test_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    models.build("wide_resnet", seed=3, options={"depth": 10, "widen_factor": 1})
    assert torch.equal(torch.random.get_rng_state(), before)


def test_global_generator_is_left_alone_after_an_error() -> None:
    before = torch.random.get_rng_state()
    with pytest.raises(UserError):
        models.build("wide_resnet", seed=3, options={"depth": 11})
    assert torch.equal(torch.random.get_rng_state(), before)


BAD: list[tuple[str, dict[str, Any], str]] = [
    (
        "resnet-10",
        {},
        "unknown model 'resnet-10' (model.name); did you mean 'resnet10'? "
        "Allowed: cnn6, cnn8, resnet10, resnet18, wide_resnet",
    ),
    (
        "resnet10",
        {"widht": 3},
        "unknown option of resnet10 'widht' (model.widht); did you mean 'width'? Allowed: "
        "activation, conv_bias, groups, he_init, input_normalization, norm, width, zero_init_residual",
    ),
    (
        "resnet10",
        {"norm": "layer"},
        "model.norm: got 'layer', expected one of none, batch, group (flag --model.norm)",
    ),
    (
        "resnet10",
        {"width": 0},
        "model.width: got 0, expected at least 1 (flag --model.width)",
    ),
    ("cnn6", {"width": -1}, "model.width: got -1, expected at least 1 (flag --model.width)"),
    ("cnn8", {"hidden": 0}, "model.hidden: got 0, expected at least 1 (flag --model.hidden)"),
    (
        "wide_resnet",
        {"widen_factor": 0},
        "model.widen_factor: got 0, expected at least 1 (flag --model.widen_factor)",
    ),
    (
        "resnet10",
        {"norm": "group", "groups": 0},
        "model.groups: got 0, expected at least 1 (flag --model.groups)",
    ),
    (
        "cnn8",
        {"norm": "group", "groups": 8},
        "model.groups: got 8, expected a divisor of the 196 channels (flag --model.groups)",
    ),
    *[
        (
            "wide_resnet",
            {"depth": depth},
            f"model.depth: got {depth}, expected 6n + 4 such as 10, 28 or 34 (flag --model.depth)",
        )
        for depth in (4, 9, 30, -2)
    ],
]


@pytest.mark.parametrize("name, options, message", BAD)
def test_bad_option_is_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        models.build(name, seed=0, options=options)
    assert str(caught.value) == message


def test_bad_norm_from_python_is_one_line() -> None:
    with pytest.raises(UserError, match=r"unknown norm 'batchnorm' \(model.norm\); did you mean"):
        models.resnet10(norm="batchnorm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "num_classes, image_shape, message",
    [
        (1, (3, 32, 32), "num_classes: got 1, expected at least 2 (set by the data)"),
        (
            10,
            (32, 32),
            "image_shape: got (32, 32), expected (channels, height, width), each at least 1 "
            "(set by the data)",
        ),
        (
            10,
            (0, 32, 32),
            "image_shape: got (0, 32, 32), expected (channels, height, width), each at least 1 "
            "(set by the data)",
        ),
    ],
)
def test_bad_task_is_one_line(num_classes: int, image_shape: Any, message: str) -> None:
    for entry in models.MODELS:
        with pytest.raises(UserError) as caught:
            models.build(entry.name, seed=0, num_classes=num_classes, image_shape=image_shape)
        assert str(caught.value) == message


@pytest.mark.parametrize("width", [10_000_000, 2**62])
def test_a_model_that_no_memory_holds_is_refused_in_one_line(width: int) -> None:
    with pytest.raises(UserError, match=r"^model: resnet10 cannot be built \(RuntimeError: ") as refused:
        models.build("resnet10", seed=0, options={"width": width})
    assert "\n" not in str(refused.value)
