"""Made content of a report, as large and as varied as that of real runs, without any training."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from soar import epsilon
from soar.evaluation import Assessment, Certificate, Note, bracket
from soar.evaluation.assessment import AttackResult
from soar.evaluation.diagnosis import CheckResult, Diagnosis, Verdict
from soar.evaluation.interval import wilson
from soar.report.content import RunContent
from soar.report.drawing.lines import ChartLine
from soar.report.drawing.surfaces import Surface
from soar.report.sections.classes import ClassOutcome
from soar.report.sections.gallery import Frame, GalleryImage
from soar.threat import Linf

CLASSES = (
    "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert('2')</script>]]>\"'&amp;|_%#$\\{}~^"
EPS = Fraction(1, 10)
ENVIRONMENT = {
    "soar": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0+cpu",
    "platform": "Linux-6.18-x86_64-with-glibc2.36",
    "cores": 2,
    "threads": 1,
    "gpu": None,
    "command": "soar train small --epochs 12",
}
# name, clean accuracy, accuracy under PGD, DLR and Square, verdict
_RUNS: tuple[tuple[str, float, float, float, float, Verdict | None], ...] = (
    ("pgd-10", 0.836, 0.674, 0.661, 0.712, "sound"),
    ("soar-zero-start", 0.871, 0.562, 0.187, 0.241, "masked"),
    ("trades", 0.812, 0.688, 0.672, 0.718, "sound"),
    ("cure", 0.868, 0.402, 0.371, 0.455, "suspicious"),
    ("standard", 0.902, 0.021, 0.003, 0.088, None),
)


def made_content(runs: int = 2, *, size: int = 32, examples: int = 1000) -> tuple[RunContent, ...]:
    """Make content of up to five runs: sound, masked, sound, suspicious, not diagnosed.

    Args:
        runs: how many
        size: height and width of the images, which have three colors
        examples: how many images were assessed
    """
    return tuple(_run(place, size, examples) for place in range(runs))


def certified(run: RunContent) -> RunContent:
    """Add certificates of its first 200 images at a quarter of eps, half of eps and eps."""
    found = run.assessment
    left, made = found.survivors("worst case"), []
    for quarters in (1, 2, 4):
        # Some of those that are still certified: none that an attack fools.
        left = left & (found.index % (quarters + 2) > 0)
        made.append(
            Certificate(
                model=found.model,
                data=found.data,
                threat=Linf(EPS * Fraction(quarters, 4)),
                seed=0,
                method="crown",
                options={"refine": False, "steps": 0, "precision": "float32"},
                index=found.index[:200],
                labels=found.labels[:200],
                correct=found.correct[:200],
                certified=left[:200],
                seconds=1.5,
                cpu_seconds=1.4,
                environment={**ENVIRONMENT, "command": f"soar certify runs/{run.name} --eps 1/40 1/20 1/10"},
            )
        )
    attacked = run.accuracy_by_eps[-1]
    both = (
        ChartLine(label="attacked", x=attacked.x, y=attacked.y),
        ChartLine(
            label="certified (crown)",
            x=(0.0, *(one.threat.radius for one in made)),
            y=(attacked.y[0], *(one.accuracy for one in made)),
        ),
    )
    return replace(
        run,
        certificates=tuple(made),
        bracket=bracket(made[-1], found),
        bracket_by_eps=both,
        bracket_examples=200,
    )


def bare(run: RunContent) -> RunContent:
    """Take everything away that a report can do without."""
    return replace(
        run,
        assessment=replace(run.assessment, environment={}),
        diagnosis=None,
        training=(),
        trained_seconds=None,
        guards=(),
        gallery=(),
        surfaces=(),
        environment={},
    )


def hostile(run: RunContent) -> RunContent:
    """Put markup into every text of a run."""
    found, diagnosis = run.assessment, run.diagnosis
    assert diagnosis is not None
    evil = {HOSTILE: HOSTILE}
    attacks = tuple(
        replace(one, label=f"{k}{HOSTILE}", name=HOSTILE, parameters=evil)
        for k, one in enumerate(found.attacks)
    )
    evidence = tuple(
        replace(one, title=HOSTILE, sentence=HOSTILE, rule=HOSTILE, numbers=dict(evil))
        for one in diagnosis.checks
    )
    return replace(
        run,
        name=HOSTILE,
        classes=tuple(f"{k}{HOSTILE}" for k in range(len(run.classes))),
        assessment=replace(
            found,
            model=HOSTILE,
            data=HOSTILE,
            attacks=attacks,
            notes=(Note("other", HOSTILE),),
            environment=dict(evil),
        ),
        diagnosis=replace(diagnosis, model=HOSTILE, data=HOSTILE, checks=evidence),
        accuracy_by_eps=tuple(replace(one, label=HOSTILE) for one in run.accuracy_by_eps),
        training=tuple(replace(one, label=f"{one.label}{HOSTILE}") for one in run.training),
        guards=(HOSTILE,),
        recipe=f"{run.recipe}\n# {HOSTILE}",
        commands=(f"soar train '{HOSTILE}'",),
        environment=dict(evil),
    )


@lru_cache(maxsize=32)
def _run(place: int, size: int, examples: int) -> RunContent:
    name, *_, verdict = _RUNS[place]
    found = _assessment(place, examples)
    return RunContent(
        name=name,
        folder=f"runs/{name}",
        classes=CLASSES,
        assessment=found,
        diagnosis=None if verdict is None else _diagnosis(verdict),
        accuracy_by_eps=_accuracy_by_eps(place),
        curve_examples=200,
        training=_training(place),
        trained_seconds=171.7 + 60 * place,
        guards=("epoch 9: robust accuracy fell from 67.4% to 45.0%",) if place == 1 else (),
        gallery=tuple(_gallery_image(place, k, size) for k in range(6)),
        surfaces=tuple(_surface(k, is_masked=verdict == "masked") for k in range(3)),
        class_outcomes=_class_outcomes(found),
        recipe=f'description = "Clothes"\nseed = 0\n\n[objective]\nname = "{name}"\nscale = 0.0039\n',
        commands=(
            f"soar train runs/{name}/recipe.toml",
            f"soar evaluate runs/{name} --attacks standard",
            f"soar report runs/{name}",
        ),
        environment=ENVIRONMENT,
    )


def _flags(share: float, order: NDArray[np.int64]) -> torch.Tensor:
    """Mark a share of examples; the same ones are the easiest for all attacks."""
    flags = torch.zeros(len(order), dtype=torch.bool)
    flags[torch.from_numpy(order[: round(share * len(order))])] = True
    return flags


def _assessment(place: int, examples: int) -> Assessment:
    name, clean, pgd, dlr, square, _ = _RUNS[place]
    order = np.random.default_rng(place).permutation(examples)
    correct = _flags(clean, order)
    shares = {"PGD-20": pgd, "APGD-CE": pgd - 0.002, "APGD-DLR": dlr, "Square-500": square}
    attacks = tuple(
        AttackResult(
            label=label,
            name=label.split("-")[0],
            parameters={"steps": 20, "step_size": None, "restarts": 1, "loss": "ce"},
            robust=_flags(share, order),
            forward=torch.full((examples,), 21 + 100 * k),
            backward=torch.full((examples,), 0 if label.startswith("Square") else 20 + 100 * k),
            seconds=9.7 * (k + 1) + place,
        )
        for k, (label, share) in enumerate(shares.items())
    )
    return Assessment(
        model=name,
        data="fashion-mnist-sample (test)",
        threat=Linf(EPS),
        seed=0,
        index=torch.arange(examples),
        labels=torch.arange(examples) % len(CLASSES),
        correct=correct,
        attacks=attacks,
        environment={**ENVIRONMENT, "command": f"soar evaluate runs/{name}"},
    )


def _diagnosis(verdict: Verdict) -> Diagnosis:
    evidence = [
        CheckResult(
            check="losses",
            title="Cross-entropy against margin attacks",
            finding=verdict,
            sentence="At the same budget, margin attacks leave 18.7% right, cross-entropy attacks 56.2%."
            if verdict == "masked"
            else "Attacks on the margin and on the cross-entropy agree within 1.3 points.",
            rule="masked if the margin attack is at least 10 points stronger, suspicious from 4 points on",
            numbers={"cross_entropy": 0.562, "margin": 0.187, "difference": 0.375, "examples": 200},
            excess=3.75 if verdict == "masked" else 0.3,
            advice=("autoattack", "transfer") if verdict != "sound" else (),
        ),
        CheckResult(
            check="gradients",
            title="Zero gradients and saturated softmax",
            finding="suspicious" if verdict == "masked" else "sound",
            sentence="The softmax gives exactly 1 for 31.5% of the images: the loss has no gradient there."
            if verdict == "masked"
            else "No image has a gradient of zero, and none a probability of exactly 1.",
            rule="suspicious if more than 10% of the images are saturated",
            numbers={"zero_gradients": 0.0, "saturated": 0.315, "median_norm": 3.1e-7, "note": None},
            excess=3.15 if verdict == "masked" else 0.0,
        ),
        CheckResult(
            check="budgets",
            title="More steps and a larger radius",
            finding="sound",
            sentence="Accuracy falls with every larger radius and ends at 0%.",
            rule="masked if an attack within the whole pixel range leaves more than 1% right",
            numbers={"eps_1": 0.0, "eps_2": 0.0, "steps_100": 0.55},
        ),
    ]
    return Diagnosis(
        model="made",
        data="fashion-mnist-sample (test)",
        threat=Linf(EPS),
        examples=200,
        checks=tuple(evidence),
    )


def _accuracy_by_eps(place: int) -> tuple[ChartLine, ...]:
    _, clean, pgd, dlr, square, _ = _RUNS[place]
    x = tuple(float(EPS * Fraction(k, 4)) for k in range(9))
    curves = []
    for label, at_eps in (
        ("PGD-20", pgd),
        ("APGD-DLR", dlr),
        ("Square-500", square),
        ("worst case", min(pgd, dlr)),
    ):
        rate = math.log(clean / max(at_eps, 0.002))
        counts = [round(200 * clean * math.exp(-rate * (k / 4) ** 1.5)) for k in range(9)]
        limits = [wilson(count, 200) for count in counts]
        curves.append(
            ChartLine(
                label=label,
                x=x,
                y=tuple(count / 200 for count in counts),
                low=tuple(low for low, _ in limits),
                high=tuple(high for _, high in limits),
            )
        )
    return tuple(curves)


def _training(place: int) -> tuple[ChartLine, ...]:
    rng = np.random.default_rng(100 + place)
    epochs = tuple(round(0.1 * k, 2) for k in range(1, 121))
    loss = tuple(float(2.3 * math.exp(-e / 4) + 0.6 + 0.05 * rng.normal()) for e in epochs)
    whole = tuple(float(k) for k in range(1, 13))
    return (
        ChartLine(label="loss", x=epochs, y=loss),
        ChartLine(label="penalty", x=epochs, y=tuple(0.4 * one for one in loss)),
        ChartLine(label="lr", x=epochs, y=tuple(0.1 * (1 + math.cos(e / 12 * math.pi)) / 2 for e in epochs)),
        ChartLine(label="grad_norm", x=epochs, y=tuple(0.5 + 0.1 * one for one in loss)),
        ChartLine(label="images_per_second", x=epochs, y=tuple(246.0 + 10 * place for _ in epochs)),
        ChartLine(label="clean", x=whole, y=tuple(0.85 - 0.5 * math.exp(-k / 3) for k in whole)),
        ChartLine(label="robust", x=whole, y=tuple(0.65 - 0.5 * math.exp(-k / 4) for k in whole)),
    )


def _png(pixels: NDArray[np.float64]) -> bytes:
    file = io.BytesIO()
    Image.fromarray((255 * pixels.clip(0, 1)).round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def _gallery_image(place: int, number: int, size: int) -> GalleryImage:
    """Make an example that is taken for another class from 3/4 eps on, and within eps at the masked run."""
    rng = np.random.default_rng(1000 + number)
    y, x = np.mgrid[0:size, 0:size] / (size - 1)
    shape = ((x - 0.5) ** 2 / 0.06 + (y - 0.5) ** 2 / (0.05 + 0.02 * number)) < 1
    color = rng.uniform(0.4, 0.9, 3)
    image = np.where(shape[..., None], color, 0.12) + 0.06 * rng.normal(size=(size, size, 3))
    change = np.sign(rng.normal(size=(size, size, 3)))
    label, other = number % 10, (number + 3) % 10
    frames = []
    for k in range(9):
        eps = EPS * Fraction(k, 4)
        odds = 4.0 - (1.2 + 0.1 * number + 0.1 * place) * k
        logits = np.full(10, -2.0)
        logits[label], logits[other] = odds / 2, -odds / 2
        shares = np.exp(logits) / np.exp(logits).sum()
        frames.append(
            Frame(
                eps="0" if k == 0 else epsilon.show(eps),
                image=_png(image + float(eps) * change),
                perturbation=_png(0.5 + 5 * float(eps) * change * rng.uniform(0.5, 1, change.shape) / 2),
                probabilities=tuple(map(float, shares)),
            )
        )
    return GalleryImage(index=17 * number + 3, label=label, magnified=2.5, frames=tuple(frames))


def _surface(number: int, *, is_masked: bool) -> Surface:
    along = tuple(round(k / 6, 6) for k in range(-12, 13))
    margin = tuple(
        tuple(
            float(9 - 4 * max(0.0, u) ** 3 + 0.4 * math.sin(5 * v))
            if is_masked
            else float(4 - 3.2 * u - 0.3 * v * v)
            for u in along
        )
        for v in along
    )
    loss = tuple(tuple(math.log1p(math.exp(-max(-30.0, one))) for one in row) for row in margin)
    return Surface(index=5 * number, label=number, along=along, margin=margin, loss=loss)


def _class_outcomes(found: Assessment) -> tuple[ClassOutcome, ...]:
    worst, broken = found.survivors("worst case"), []
    for label in range(len(CLASSES)):
        mine = found.labels == label
        correct, robust = int(found.correct[mine].sum()), int(worst[mine].sum())
        lost = correct - robust
        into = (((label + 2) % 10, lost - lost // 3), ((label + 5) % 10, lost // 3)) if lost > 1 else ()
        broken.append(
            ClassOutcome(label=label, examples=int(mine.sum()), correct=correct, robust=robust, into=into)
        )
    return tuple(broken)
