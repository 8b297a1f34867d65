"""Real networks of timm and Hugging Face, wherever these can be imported, and in an environment of their own.

Small packages stand for them in test_libraries.py, which tells what is promised.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.examples.test_fine_tune_timm import OPERATORS
from torch import Tensor, nn

import soar
from soar import models
from soar.objectives import OBJECTIVES
from soar.prediction import predict

ROOT = Path(soar.__file__).parents[2]


def library(name: str) -> Any:
    """Import a library, None where it is not installed or does not go with this build of torch."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except (ImportError, RuntimeError):
        return None


TIMM, TRANSFORMERS = library("timm"), library("transformers")
with_timm = pytest.mark.skipif(TIMM is None, reason="timm cannot be imported")
with_transformers = pytest.mark.skipif(TRANSFORMERS is None, reason="transformers cannot be imported")

# By name, with the options that make them small and fit images of 32 x 32.
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet10t": {},
    "test_resnet": {},
    "mobilenetv3_small_050": {},
    "test_efficientnet": {},
    "convnext_atto": {"depths": [1, 1, 1, 1]},
    "regnetx_002": {},
    "vit_tiny_patch16_224": {"img_size": 32, "depth": 2, "patch_size": 8},
    "deit_tiny_distilled_patch16_224": {"img_size": 32, "depth": 2, "patch_size": 8},
    "swin_tiny_patch4_window7_224": {
        "img_size": 32,
        "embed_dim": 24,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "window_size": 4,
    },
    "xcit_nano_12_p16_224": {"img_size": 32, "depth": 2},
    "cait_xxs24_224": {"img_size": 32, "depth": 2, "patch_size": 8},
    "resmlp_12_224": {"img_size": 32},
    "ghostnet_050": {},
    "edgenext_xx_small": {},
    "test_nfnet": {},
}
LARGE = {"edgenext_xx_small", "ghostnet_050", "regnetx_002", "resnet10t", "resmlp_12_224", "convnext_atto"}
X = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
THREAT = soar.Linf("8/255")


def check(model: nn.Module, x: Tensor) -> None:
    """Evaluate a network on its own predictions, and train it by a step."""
    y = predict(model.eval(), x).argmax(dim=1)
    found = soar.evaluate(model, (x, y), THREAT, "pgd:steps=3", check=False)
    assert found.accuracy("clean") == 1
    model.train()
    for name in ("nfgsm", "trades", "soar"):
        objective = OBJECTIVES[name].build(model, THREAT)
        model.zero_grad()
        output = objective(x, y)
        output.loss.backward()
        assert output.logits.shape == (4, 5)
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        assert gradients and all(gradient.isfinite().all() for gradient in gradients)


@with_timm
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in NETWORKS],
)
def test_networks_of_timm_are_evaluated_and_trained(name: str) -> None:
    model = models.build(
        f"timm:{name}", seed=0, num_classes=5, image_shape=(3, 32, 32), options=NETWORKS[name]
    )
    config = model.get_submodule("network").pretrained_cfg
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))  # type: ignore[index]
    network = model.eval().get_submodule("network")
    torch.testing.assert_close(model(X), network((X - mean) / std))
    check(model, X)


@with_timm
def test_weights_that_timm_saves_are_loaded(tmp_path: Path) -> None:
    source = TIMM.create_model("test_resnet", num_classes=5).eval()
    torch.save(source.state_dict(), tmp_path / "w.pth")
    model = models.build("timm:test_resnet:normalize=false", seed=1, num_classes=5)
    both = models.build("timm:test_resnet", seed=1, num_classes=5)
    for target in (model, both):
        models.load_external_weights(target, tmp_path / "w.pth")
    assert torch.equal(model.eval()(X), source(X))
    normalized = both.eval().get_submodule("normalization")(X)
    assert torch.equal(both(X), source(normalized))


@with_timm
def test_a_network_of_a_fixed_size_is_refused_for_others() -> None:
    with pytest.raises(soar.UserError, match=r"takes images of 224 x 224, got 32 x 32; .* img_size=32"):
        models.build("timm:vit_tiny_patch16_224", seed=0)


@with_transformers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["ViT", "ConvNext", "ResNet"])
def test_networks_of_hugging_face_are_opened_evaluated_and_trained(kind: str, tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {
        "ViT": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "image_size": 32,
            "patch_size": 8,
        },
        "ConvNext": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
        "ResNet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    }
    config = getattr(TRANSFORMERS, f"{kind}Config")(num_labels=5, **options[kind])
    network = getattr(TRANSFORMERS, f"{kind}ForImageClassification")(config).eval()
    network.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}'
    )
    model = models.build(f"hf:{tmp_path}", seed=0)
    torch.testing.assert_close(predict(model.eval(), X), network((X - 0.5) / 0.25).logits.detach())
    check(model, X)


@pytest.mark.slow
@pytest.mark.network
def test_all_of_this_passes_where_both_libraries_are_installed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n")
    minor = int(torch.__version__.split(".")[1])
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "timm", f"torchvision==0.{minor + 15}.*"], check=True)
    subprocess.run([*pip, "transformers"], check=True)
    (site / "sitecustomize.py").write_text(OPERATORS)
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not network", __file__, "-rs"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout
    assert "SKIPPED" not in done.stdout
