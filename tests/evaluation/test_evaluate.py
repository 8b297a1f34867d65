from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import FGSM, PGD, run
from soar.data import Split
from soar.errors import UserError
from soar.evaluation import evaluate
from soar.evaluation.journal import Journal, fingerprint
from soar.threat import L2, Linf
from tests.attacks.problems import Linear, TinyNet, images, said

ATTACKS = [FGSM(), PGD(steps=4), PGD(steps=4, loss="margin", restarts=2)]


def problem(count: int = 40) -> tuple[TinyNet, Tensor, Tensor]:
    model, x = TinyNet(), images(count)
    labels = said(model, x)
    labels[::9] = (labels[::9] + 1) % 5
    return model, x, labels


def test_linear_models_get_their_exact_accuracy() -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, dual=1)
    eps = distances.sort().values[20:22].mean().item()
    found = evaluate(model, (x, labels), Linf(eps), "fgsm")
    assert found.accuracy("FGSM") == (distances > eps).double().mean().item()


def test_an_assessment_holds_what_the_engine_found() -> None:
    model, x, labels = problem()
    found = evaluate(model, (x, labels), Linf(0.05), ATTACKS, seed=3, name="tiny", data_name="made up")
    assert found.model == "tiny" and found.data == "made up" and found.seed == 3
    assert torch.equal(found.correct, said(model, x) == labels)
    with torch.no_grad():
        logits = model(x)
    for attack, result in zip(ATTACKS, found.attacks, strict=True):
        # The clean prediction is made once for all attacks.
        alone = run(model, attack, Linf(0.05), x, labels, seed=3, clean_logits=logits)
        assert torch.equal(result.robust, alone.robust)
        assert torch.equal(result.forward, alone.forward) and torch.equal(result.backward, alone.backward)
    assert found.attacks[2].name == "PGD"
    assert found.attacks[2].parameters["loss"] == "margin" and found.attacks[2].parameters["restarts"] == 2
    assert found.environment["torch"] == torch.__version__


def test_splits_bring_their_own_identities() -> None:
    model, x, _ = problem()
    pixels = (x * 255).round().to(torch.uint8)
    labels = said(model, pixels.double() / 255)
    indices = torch.arange(100, 140)
    split = Split(pixels, labels, indices)
    found = evaluate(model, split, L2(0.1), [PGD(steps=2)])
    assert torch.equal(found.index, indices)
    part = evaluate(model, split.subset(torch.arange(20, 30)), L2(0.1), [PGD(steps=2)])
    assert torch.equal(part.attacks[0].robust, found.attacks[0].robust[20:30])


class Fragile(nn.Module):
    """Fails after so many calls, as a machine that is switched off."""

    def __init__(self, model: nn.Module, calls: int) -> None:
        super().__init__()
        self.model, self.calls = model, calls

    def forward(self, x: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        logits: Tensor = self.model(x)
        return logits


def test_an_interrupted_evaluation_goes_on_where_it_was(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "assessment.partial.jsonl"
    whole = evaluate(Fragile(model, 10**9), (x, labels), Linf(0.05), ATTACKS, batch_size=8)
    for calls in (8, 20, 30, 40):
        with pytest.raises(KeyboardInterrupt):
            evaluate(Fragile(model, calls), (x, labels), Linf(0.05), ATTACKS, batch_size=8, journal=journal)
    counting = Fragile(model, 10**9)
    resumed = evaluate(counting, (x, labels), Linf(0.05), ATTACKS, batch_size=8, journal=journal)
    for one, other in zip(resumed.attacks, whole.attacks, strict=True):
        assert torch.equal(one.robust, other.robust)
        assert torch.equal(one.forward, other.forward) or one.parameters["restarts"] > 1
    fresh = Fragile(model, 10**9)
    evaluate(fresh, (x, labels), Linf(0.05), ATTACKS, batch_size=8)
    assert counting.calls > fresh.calls, "what was known is not computed again"


def test_journals_of_other_weights_attacks_or_seeds_are_not_used(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "j.jsonl"
    evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    other = TinyNet(seed=1)
    expected = evaluate(other, (x, labels), Linf(0.05), [PGD(steps=4)])
    found = evaluate(other, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    assert torch.equal(found.attacks[0].robust, expected.attacks[0].robust)
    weaker = evaluate(model, (x, labels), Linf("1/100000"), [PGD(steps=4)], journal=journal)
    assert weaker.worst_case == weaker.accuracy("clean")


def test_journal_lines_cut_by_a_crash_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    (tmp_path / "j.rank0.jsonl").write_text('["f", "A", 3, 1, 5, 4]\n["f", "A", 4, 0,')
    (tmp_path / "j.rank1.jsonl").write_text('["f", "A", 9, 0, 2, 1]\n["g", "A", 5, 0, 2, 1]\n')
    with Journal(path, "f") as journal:
        assert journal.known == {"A": {3: (1, 5, 4), 9: (0, 2, 1)}}


def test_fingerprints_see_weights_and_description() -> None:
    one, other = TinyNet(seed=0), TinyNet(seed=1)
    prints = {fingerprint(one, "a"), fingerprint(one, "b"), fingerprint(other, "a")}
    assert len(prints) == 3
    assert fingerprint(one, "a") == fingerprint(TinyNet(seed=0), "a")


def test_data_that_cannot_be_evaluated_is_refused() -> None:
    model, x, labels = problem()
    with pytest.raises(UserError, match="expected as many of each"):
        evaluate(model, (x, labels[:-1]), Linf(0.1))
    with pytest.raises(UserError, match="unknown attack"):
        evaluate(model, (x, labels), Linf(0.1), "quik")
