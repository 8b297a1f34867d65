"""Judge the verdict of `soar diagnose` by networks of which is known whether they hide their gradients.

    python benchmarks/verdicts.py --set calibration              the networks that rules may be made by
    python benchmarks/verdicts.py --set fresh                    the ones for judging them, once
    python benchmarks/verdicts.py --set calibration --truth      only train, and measure what they withstand
    python benchmarks/verdicts.py --set calibration --stability  100, 200 and 400 images, three seeds

What a network is, is measured without any of the checks: its accuracy under PGD-20 on the cross-entropy, and
under the strongest attack there is, which knows how the network hides and goes around it. 10 points between
them are masking, up to 3 are none. Where predictions change from call to call, the network is random; where
gradients are zero and nothing gains on PGD-20, attacks cannot tell.

Networks and sets are in known.py, tricks and the ways around them in hiding.py. Weights are kept in
benchmarks/.cache; what was measured stays in the result file and is measured again where the weights, or the
code of the checks, have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group
from rich.table import Table
from torch import Tensor, nn

import hiding
import known
import soar
from known import Known
from plain_text import plain
from soar import losses
from soar.attacks import PGD, Transfer
from soar.data import to_unit
from soar.environment import environment
from soar.evaluation.diagnosis import SEVERITY
from soar.files import write

HERE = Path(__file__).parent
IMAGES = 200
MASKED, SOUND = 0.10, 0.03
"""how far the strongest attack lies below PGD-20 at least, and at most"""
DRAWS = 15
DIRECT = ("fast", "pgd:steps=100,loss=margin", "square:queries=2000")
TRUTHS = ("masked", "random", "inconclusive", "between", "sound")
RIGHT = {
    "masked": {"masked"},
    "random": {"suspicious", "masked"},
    "inconclusive": {"inconclusive"},
    "between": {"suspicious", "masked", "sound"},
    "sound": {"sound"},
}
"""the verdicts that fit a truth"""
Record = dict[str, Any]


def kept(model: nn.Module, points: Tensor, labels: Tensor) -> float:
    """Return the share of points that are correctly classified in most of several calls."""
    with torch.no_grad():
        right = torch.stack([model(points).argmax(dim=1) == labels for _ in range(DRAWS)])
    return (right.double().mean(dim=0) > 0.5).double().mean().item()


def is_random(model: nn.Module, x: Tensor) -> bool:
    """Return whether two calls differ."""
    with torch.no_grad():
        return not torch.equal(model(x), model(x))


def share_without_gradient(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Return the share of images where the gradient of the margin is zero or there is none."""
    x = x.clone().requires_grad_()
    margin = losses.margin(model(x), labels).sum()
    if not margin.requires_grad:
        return 1.0
    (gradient,) = torch.autograd.grad(margin, x, allow_unused=True)
    if gradient is None:
        return 1.0
    return (gradient.flatten(1).abs().amax(dim=1) == 0).double().mean().item()


def around(model: nn.Module) -> list[Transfer]:
    """Return the attacks on what a network hides."""
    source = hiding.opened(model)
    return [
        Transfer(source=source, source_name="opened", attack=PGD(steps=50, loss=loss))
        for loss in ("margin", "ce")
    ]


def left(one: Known, model: nn.Module, x: Tensor, y: Tensor, by_pgd: float) -> float:
    """Return the accuracy under the strongest attacks: around what is hidden, then as the network stands."""
    found, randomized = by_pgd, is_random(model, x)
    points = x
    if hiding.tricks(model):
        # Whatever asks a random network several times finds a call that is wrong by chance.
        plan = around(model)[:1] if randomized else around(model)
        points = soar.attack(model, x, y, one.threat, plan).adversarial
        found = min(found, kept(model, points, y))
    if randomized or by_pgd - found >= MASKED:
        return found
    direct = soar.attack(model, x, y, one.threat, DIRECT)
    with torch.no_grad():
        robust = ~direct.success & (model(points).argmax(dim=1) == y)
    return min(found, float(robust.double().mean()))


def measured(one: Known, images: int = IMAGES) -> Record:
    """Attack a network as it stands and with all that is known about it."""
    began = time.process_time()
    torch.manual_seed(0)
    model, test = one.model(), one.test.first(images)
    x, y = to_unit(test.images), test.labels
    by_pgd = kept(model, soar.attack(model, x, y, one.threat, "pgd:steps=20").adversarial, y)
    numbers = {
        "clean": kept(model, x, y),
        "pgd": by_pgd,
        "strongest": left(one, model, x, y, by_pgd),
        "without_gradient": share_without_gradient(model, x, y),
    }
    return {
        "truth": truth(**numbers, randomized=is_random(model, x)),
        "images": len(x),
        **{name: round(value, 4) for name, value in numbers.items()},
        "weights": fingerprint(one),
        "seconds": round(time.process_time() - began, 1),
    }


def truth(clean: float, pgd: float, strongest: float, without_gradient: float, *, randomized: bool) -> str:
    """Return what a network is.

    Args:
        clean: its accuracy
        pgd: its accuracy under PGD-20 as it stands
        strongest: its accuracy under all attacks
        without_gradient: the share of images whose gradient is zero
        randomized: whether its predictions change from call to call

    >>> truth(0.9, 0.8, 0.3, 1.0, randomized=False), truth(0.9, 0.4, 0.38, 0.0, randomized=False)
    ('masked', 'sound')
    """
    gap = round(pgd - strongest, 6)
    if randomized:
        return "random"
    if gap >= MASKED:
        return "masked"
    if gap > SOUND:
        return "between"
    # Where nothing is left, nothing was hidden.
    return "inconclusive" if without_gradient > 0.9 and strongest > clean / 2 else "sound"


def fingerprint(one: Known) -> str:
    """Return what changes with the weights of a network and nothing else."""
    found = hashlib.sha256()
    for name, tensor in sorted(one.model().state_dict().items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def rules() -> str:
    """Return what changes with the code of the attacks and checks."""
    folder = Path(str(soar.__file__)).parent
    found = hashlib.sha256()
    for path in sorted([*folder.glob("evaluation/**/*.py"), *folder.glob("attacks/*.py")]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def diagnosed(one: Known, examples: int, seed: int) -> Record:
    """Diagnose a network."""
    torch.manual_seed(seed)
    began = time.process_time()
    found = soar.diagnose(one.model(), one.test.first(examples), one.threat, name=one.name, seed=seed)
    is_sound = found.verdict == "sound"
    return {
        "examples": examples,
        "seed": seed,
        "rules": rules(),
        "verdict": found.verdict,
        "check": "" if is_sound else found.checks[0].check,
        "cause": "" if is_sound else found.summary,
        "findings": {check.check: check.finding for check in found.checks},
        "excess": {check.check: check.excess for check in found.checks},
        "seconds": round(time.process_time() - began, 1),
    }


def verdict_of(record: Record, examples: int, seed: int = 0) -> Record | None:
    """Return what was said of a network, by the rules as they are now, for so many images and a seed."""
    wanted = (examples, seed, rules())
    for found in record["verdicts"]:
        if (found["examples"], found["seed"], found["rules"]) == wanted:
            return dict(found)
    return None


def others(record: Record, examples: int, seed: int) -> list[Record]:
    """Return what was said for another number of images or another seed."""
    return [one for one in record["verdicts"] if (one["examples"], one["seed"]) != (examples, seed)]


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.125)
    '12.5'
    """
    return f"{100 * share:.1f}"


def main_table(records: list[Record], name: str, examples: int) -> Table:
    """Show every network, what it is, and what was said of it."""
    made = Table(title=f"The verdict on {examples} images of each network: {name} set", title_justify="left")
    for heading in ("network", "threat", "made", "clean", "PGD-20", "strongest", "is", "verdict", "check"):
        made.add_column(heading, justify="right" if heading in ("clean", "PGD-20", "strongest") else "left")
    made.add_column("cause", ratio=1)
    made.add_column("CPU s", justify="right")
    for record in records:
        is_what = record["measured"]
        said = verdict_of(record, examples)
        numbers = [percent(is_what[key]) for key in ("clean", "pgd", "strongest")]
        row = [record["network"], record["threat"], record["kind"], *numbers, is_what["truth"]]
        if said is not None:
            mark = "" if said["verdict"] in RIGHT[is_what["truth"]] else " !"
            row += [said["verdict"] + mark, said["check"], said["cause"], f"{said['seconds']:.0f}"]
        made.add_row(*row)
    return made


def confusion(records: list[Record], examples: int) -> Table:
    """Count networks by what they are and what was said of them."""
    verdicts = sorted(SEVERITY, key=lambda verdict: -SEVERITY[verdict])
    made = Table(title="Networks by what they are and what was said of them", title_justify="left")
    for heading in ("is", *verdicts, "networks"):
        made.add_column(heading, justify="left" if heading == "is" else "right")
    said = [(record["measured"]["truth"], verdict_of(record, examples)) for record in records]
    for is_what in TRUTHS:
        counts = Counter(one["verdict"] for what, one in said if what == is_what and one is not None)
        if counts:
            made.add_row(is_what, *(str(counts[verdict]) for verdict in verdicts), str(counts.total()))
    return made


def stability(records: list[Record], sizes: Iterable[int], seeds: int) -> Table:
    """Show the verdict for every number of images and seed, of networks that were judged more than once."""
    made = Table(
        title=f"The verdict for other numbers of images, seeds 0 to {seeds - 1}", title_justify="left"
    )
    for heading in ("network", "is", *(f"{size} images" for size in sizes), "same"):
        made.add_column(heading)
    for record in records:
        said = [[verdict_of(record, size, seed) for seed in range(seeds)] for size in sizes]
        words = [[one["verdict"] for one in row if one is not None] for row in said]
        if sum(map(len, words)) < 2:
            continue
        every = {word for row in words for word in row}
        cells = [row[0] if len(set(row)) == 1 else ", ".join(row) for row in words]
        made.add_row(
            record["network"], record["measured"]["truth"], *cells, "yes" if len(every) == 1 else "no"
        )
    return made


def stored(path: Path, chosen: Iterable[Known]) -> list[Record]:
    """Return the records of the networks of a set, empty where nothing was measured."""
    old = {one["network"]: one for one in json.loads(path.read_text())["networks"]} if path.exists() else {}
    return [
        old.get(one.name, {"measured": {}, "verdicts": []})
        | {"network": one.name, "kind": one.kind, "threat": str(one.threat)}
        for one in chosen
    ]


def save(path: Path, name: str, records: list[Record]) -> None:
    """Write what is known so far."""
    write(path, json.dumps({"set": name, "networks": records, "environment": environment()}, indent=1) + "\n")


def main(argv: list[str] | None = None) -> None:
    """Measure what is missing, print the tables and save them."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--set", choices=list(known.SETS), required=True)
    parser.add_argument("--examples", type=int, default=IMAGES)
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds --stability tries")
    parser.add_argument("--only", nargs="*", default=[], help="networks whose name contains one of these")
    parser.add_argument("--truth", action="store_true", help="diagnose nothing")
    parser.add_argument("--stability", action="store_true", help="also half and twice the images, and seeds")
    parser.add_argument("--again", action="store_true", help="measure again what these networks are")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the result files")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    name, chosen = arguments.set, known.SETS[arguments.set]
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"verdicts-{name}.json"
    records = stored(path, chosen)
    sizes = (arguments.examples // 2, arguments.examples, 2 * arguments.examples)
    wanted = [(arguments.examples, 0)]
    if arguments.stability:
        wanted += [(size, seed) for size in sizes for seed in range(arguments.seeds)]
    for one, record in zip(chosen, records, strict=True):
        if arguments.only and not any(part.lower() in one.name.lower() for part in arguments.only):
            continue
        if arguments.again or record["measured"].get("weights") != fingerprint(one):
            record["measured"] = measured(one)
            save(path, name, records)
        is_what = record["measured"]
        print(f"{one.name}: {is_what['truth']}, {is_what['seconds']} s", flush=True)
        for examples, seed in [] if arguments.truth else dict.fromkeys(wanted):
            if verdict_of(record, examples, seed) is None:
                said = diagnosed(one, examples, seed)
                same = [
                    old for old in record["verdicts"] if (old["examples"], old["seed"]) != (examples, seed)
                ]
                record["verdicts"] = [*same, said]
                save(path, name, records)
                print(
                    f"{one.name}, {examples} images, seed {seed}: {said['verdict']}, {said['seconds']} s",
                    flush=True,
                )
    ready = [record for record in records if record["measured"]]
    tables = [main_table(ready, name, arguments.examples), confusion(ready, arguments.examples)]
    if arguments.stability:
        tables.append(stability(ready, sizes, arguments.seeds))
    console = Console(record=True, width=200)
    console.print(Group(*tables))
    write(arguments.out / f"verdicts-{name}.txt", plain(console.export_text()))


if __name__ == "__main__":
    main()
