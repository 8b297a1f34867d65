"""What a training step costs: passes through the network, and time."""

from __future__ import annotations

import torch

from soar.cost import Counter
from soar.cost.step import measure_steps
from soar.cost.workload import Workload, build
from soar.reproduce.measuring.subject import Found, Subject
from soar.reproduce.planning.text_tables import PASSES, RATIO

REFERENCE = "adversarial:steps=10"
_EPOCH = 50_000
"""training images of CIFAR-10"""
_FEW = 4


def cost(subject: Subject) -> Found:
    """Give passes of a step, minutes of an epoch, or the time relative to PGD-10; on one thread of the CPU.

    Args:
        subject: options name the objective, the network and what is asked
    """
    options = subject.options
    what, text = options["what"], options["objective"]
    of_model = tuple(sorted(options["options"].items()))
    if what in PASSES:
        # Passes are the same for any batch.
        few = Workload(name="cost", model=options["model"], options=of_model, batch_size=_FEW)
        return Found(float(_passes(text, few)[PASSES.index(what)]))
    network = Workload(
        name="cost", model=options["model"], options=of_model, batch_size=options["batch_size"]
    )
    names = list(dict.fromkeys([REFERENCE, text] if what == RATIO else [text]))
    threads = torch.get_num_threads()
    try:
        costs = {
            one.objective: one
            for one in measure_steps(names, network, repeats=options["repeats"], memory=False)
        }
    finally:
        torch.set_num_threads(threads)
    ours = costs[text]
    details = {"seconds a step": ours.seconds, "batch": network.batch_size}
    if what == RATIO:
        return Found(ours.time_ratio(costs[REFERENCE]), details=details)
    return Found(ours.seconds * _EPOCH / network.batch_size / 60, details=details)


def _passes(text: str, network: Workload) -> tuple[int, int]:
    """Count as the paper does: the gradient for the parameters is one pass, at however many points."""
    objective, x, y = build(text, network)
    with Counter(objective.model) as counter:
        objective(x, y, torch.arange(len(y)), 0)
    return counter.forwards, counter.backwards + 1
