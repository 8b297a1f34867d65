from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from soar import models
from soar.errors import UserError
from soar.models.external import build_external, load_external_weights


def test_models_of_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_external_net.py").write_text("import torch\ndef build(): return torch.nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(build_external("my_external_net:build"), nn.Linear)


def test_initial_weights_depend_on_the_seed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_seeded_net.py").write_text("import torch\ndef build(): return torch.nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = torch.get_rng_state()
    one, same, other = (build_external("my_seeded_net:build", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    weights = [model.get_parameter("weight") for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_options_are_keyword_arguments_of_the_callable() -> None:
    spec = "torch.nn:Linear:in_features=3,out_features=2,bias=false"
    layer = build_external(spec)
    assert isinstance(layer, nn.Linear) and layer.weight.shape == (2, 3) and layer.bias is None
    named = models.build(
        "torch.nn:Linear", seed=0, options={"in_features": 3, "out_features": 2, "bias": False}
    )
    assert torch.equal(named.get_parameter("weight"), layer.weight)
    with pytest.raises(UserError, match=r"fails .*unexpected keyword argument 'width'"):
        build_external("torch.nn:Flatten:width=3")


@pytest.mark.parametrize(
    "spec, message",
    [
        ("torch.nn", "expected package.module:callable"),
        ("no_such_package.x:build", "cannot import no_such_package.x"),
        ("torch.nn:Linea", "torch.nn has no class or function 'Linea'"),
        ("os:getcwd", "returned a str, expected a torch.nn.Module"),
    ],
)
def test_what_is_no_model_is_refused(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_external(spec)


@pytest.mark.parametrize(
    "code, message",
    [
        ("def build(:", "cannot import my_broken_net (invalid syntax (my_broken_net.py, line 1))"),
        ("import nowhere", "cannot import my_broken_net (No module named 'nowhere')"),
        ("x = 1\ny = {}[x]", "cannot import my_broken_net (KeyError: 1; my_broken_net.py, line 2)"),
        ("def build():\n    {}['x']", "my_broken_net:build fails (KeyError: 'x'; my_broken_net.py, line 2)"),
    ],
)
def test_a_mistake_in_the_users_own_file_is_told_with_its_place(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_broken_net.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_broken_net", raising=False)
    with pytest.raises(UserError) as told:
        build_external("my_broken_net:build")
    assert str(told.value) == f"model: {message}"


@pytest.mark.parametrize("form", ["safetensors", "plain", "nested", "parallel", "compiled"])
def test_weights_are_read_from_all_common_forms(tmp_path: Path, form: str) -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    state = source.state_dict()
    path = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pt")
    if form == "safetensors":
        safetensors.torch.save_file(state, path)
    elif form == "plain":
        torch.save(state, path)
    elif form == "nested":
        torch.save({"epoch": 3, "state_dict": state}, path)
    else:
        prefix = "module." if form == "parallel" else "_orig_mod."
        torch.save({prefix + name: value for name, value in state.items()}, path)
    load_external_weights(target, path)
    assert torch.equal(target.weight, source.weight)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, ("x",))


def test_files_that_would_run_code_or_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError, match=r"evil\.pt is damaged or holds more than tensors"):
        load_external_weights(model, tmp_path / "evil.pt")
    torch.save(nn.Linear(4, 2).state_dict(), tmp_path / "other.pt")
    with pytest.raises(UserError, match=r"tensor 'weight' has shape \(2, 4\), the model needs \(2, 3\)"):
        load_external_weights(model, tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="holds no table of tensors"):
        load_external_weights(model, tmp_path / "list.pt")
    with pytest.raises(UserError, match="does not exist"):
        load_external_weights(model, tmp_path / "none.pt")
    (tmp_path / "w.h5").write_text("")
    with pytest.raises(UserError, match=r"expected a \.safetensors"):
        load_external_weights(model, tmp_path / "w.h5")
    (tmp_path / "w.safetensors").write_text("")
    with pytest.raises(UserError, match="is not a safetensors file"):
        load_external_weights(model, tmp_path / "w.safetensors")


def test_code_that_ends_the_program_is_a_mistake_and_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_leaving_net.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UserError, match=r"cannot import my_leaving_net \(SystemExit"):
        build_external("my_leaving_net:build")
    with pytest.raises(UserError, match=r"sys:exit fails \(SystemExit"):
        build_external("sys:exit")
