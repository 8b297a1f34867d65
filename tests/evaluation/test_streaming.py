"""Images in files are evaluated like images in memory, and only some of them are in memory at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import soar
from soar.data import Split
from soar.data.npy import Mapped
from soar.data.stored import Pixels, Rows
from soar.evaluation import target as targets
from soar.evaluation.journal import fingerprint
from soar.evaluation.target import Target

COUNT = 40


class Watched(Mapped):
    """Notes how many images are read at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[int] = []

    def read(self, rows: Rows) -> Pixels:
        self.sizes.append(len(rows))
        return super().read(rows)


def both(folder: Path) -> tuple[Split, Split, Watched]:
    """The same examples in memory and in a file."""
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (COUNT, 1, 4, 4), dtype=np.uint8))
    labels = (images.float().mean(dim=(1, 2, 3)) > 127).long()
    np.save(folder / "images.npy", images.numpy())
    held = Watched(folder / "images.npy")
    return (*(Split(one, labels, torch.arange(COUNT)) for one in (images, held)), held)  # type: ignore[return-value]


def model() -> nn.Module:
    """Return a linear model that separates bright images from dark ones."""
    layer = nn.Linear(16, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([-torch.ones(16), torch.ones(16)]))
        layer.bias.copy_(torch.tensor([8.0, -8.0]))
    return nn.Sequential(nn.Flatten(), layer)


def test_an_assessment_is_that_of_images_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_NUMBERS_AT_ONCE", 8 * 16)
    kept, streamed, held = both(tmp_path)
    found = [
        soar.evaluate(model(), split, soar.Linf("2/255"), "quick", batch_size=4, check=False)
        for split in (kept, streamed)
    ]
    for one, other in zip(found[0].attacks, found[1].attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and torch.equal(one.forward, other.forward)
    assert 0 < found[1].worst_case < found[1].accuracy("clean")
    assert max(held.sizes) == 8, "never all of them"


def test_a_subset_and_the_journal_do_not_read_everything_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.evaluation.journal._AT_ONCE", 16)
    kept, streamed, held = both(tmp_path)
    one = model()
    names = [fingerprint(one, "x", split.stored, split.labels) for split in (kept, streamed)]
    assert (names[0], held.sizes) == (names[1], [16, 16, 8])
    held.sizes.clear()
    some = Target(model=one, data=streamed, threat=soar.Linf("0.1")).subset(torch.arange(COUNT) % 2 == 1)
    assert (len(some), held.sizes) == (COUNT // 2, [])
    expected: Tensor = kept.images[[1, 3]].float() / 255
    assert torch.equal(some.x[:2], expected)
    assert torch.equal(some.x[1], expected[1])
