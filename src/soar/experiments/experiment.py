"""What an experiment is, as plain values: training runs, measurements, the rows and columns of its table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from soar.errors import UserError
from soar.experiments.claims import Claim
from soar.experiments.hashing import recipe_hash
from soar.recipes import Recipe

VERSION = 1
"""raised when the same measurement would return another number, so that stored ones are not used"""
RECORD = "record"
"""the kind of measurement that reads a number which training itself has written"""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One number to measure on a network.

    Args:
        kind: how it is measured, a key of `measure.KINDS`, or RECORD
        options: what that kind needs to know, JSON values only
        sources: names of other networks that it needs
        examples: number of test images
        part: which number of the result; its value when empty
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    examples: int = 0
    part: str = ""

    def key(self, network_key: str, source_keys: Sequence[str], seed: int) -> str:
        """Return 16 hexadecimal digits that identify everything the number depends on.

        Args:
            network_key: key of the measured network; empty where there is none
            source_keys: keys of the networks it needs, in the order of `sources`
            seed: of the attacks

        >>> first = Measurement(kind="accuracy", options={"attack": "pgd", "steps": 20}, examples=500)
        >>> other = Measurement(kind="accuracy", options={"steps": 20, "attack": "pgd"}, examples=500)
        >>> first.key("a", (), 0) == other.key("a", (), 0) != first.key("a", (), 1)
        True
        """
        options, sources = dict(self.options), list(source_keys)
        content = [VERSION, self.kind, options, network_key, sources, self.examples, seed]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def in_larger_ball(self, others: Iterable[Measurement]) -> Measurement | None:
        """Return the same measurement in the next larger ball, if robust there implies robust here.

        That holds for FAB without restarts: its path to the decision boundary does not depend on eps, which
        only sets the distance at which it may stop. For other attacks a larger ball implies nothing.

        >>> small, large = (
        ...     Measurement(kind="accuracy", options={"attack": "fab", "eps": eps}) for eps in ("1/2", "2/3")
        ... )
        >>> small.in_larger_ball([small, large]) == large, large.in_larger_ball([small, large])
        (True, None)
        """
        if self.options.get("attack") != "fab" or self.options.get("restarts", 1) > 1:
            return None
        eps = self.options["eps"]
        same = [one for one in others if replace(one, options={**one.options, "eps": eps}) == self]
        larger = [one for one in same if Fraction(one.options["eps"]) > Fraction(eps)]
        return min(larger, key=lambda one: Fraction(one.options["eps"]), default=None)


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that is trained, or whose weights a user brings.

    Args:
        title: what readers call it
        recipe: how it is trained, without the weights it starts from
        start: the network whose weights it starts from
        weights: a file of the user's own, in place of training
        about: a sentence about it, shown in the plan
    """

    title: str
    recipe: Recipe
    start: Network | None = None
    weights: str = ""
    about: str = ""

    @cached_property
    def key(self) -> str:
        """The key it is stored under: a hash of everything its weights depend on."""
        if self.weights:
            digest = hashlib.blake2b(repr(sorted(self.recipe.model.items())).encode(), digest_size=8)
            digest.update(Path(self.weights).read_bytes())
            return digest.hexdigest()
        return recipe_hash(self.recipe, self.start.key if self.start else "")

    def with_seed(self, seed: int) -> Network:
        """Return the network, and the one it starts from, with the seed of its recipe plus the given one."""
        start = self.start.with_seed(seed) if self.start else None
        return replace(self, recipe=replace(self.recipe, seed=self.recipe.seed + seed), start=start)

    def with_weights(self, path: str | Path) -> Network:
        """Return the network with weights of the user's own in place of training.

        Args:
            path: a .safetensors file with a tensor for every parameter and buffer of the model

        Raises:
            UserError: if there is no such file
        """
        if not (Path(path).is_file() and Path(path).suffix == ".safetensors"):
            raise UserError(f"--weights: got '{path}', expected a .safetensors file that exists")
        return replace(self, weights=str(Path(path).resolve()), start=None)


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row of the table and what is measured for it.

    Args:
        name: unique in its table; "GROUP / NAME" where rows have groups
        network: name of the network that is measured; None where the numbers are about none
        columns: what to measure, by column
        paper: the paper's number by column; None where it prints a dash
        paper_std: the standard deviations that it prints
        weights: a file of the user's own, in place of training the network
        seeds: how many training runs each of its numbers is the mean of
        missing: why the row cannot be measured here, in a few words
        command: what would measure it
    """

    name: str
    network: str | None
    columns: Mapping[str, Measurement]
    paper: Mapping[str, float | None] = field(default_factory=dict)
    paper_std: Mapping[str, float] = field(default_factory=dict)
    weights: str = ""
    seeds: int = 1
    missing: str = ""
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Training runs, what is measured on them, and the table the numbers make up.

    Args:
        name: such as adv_linf
        title: what it shows, in one line
        rows: from top to bottom
        columns: names of the columns, from left to right
        networks: every network that some row or measurement needs, by name, with the first seed
        unit: of all numbers, such as percent
        row_key: what a row is, such as method or beta
        scale: smoke, small or paper; empty for an experiment of one size
        caution: how it differs from what the paper did, shown with every number
        claims: what the paper says about the numbers
        selects: whether rows are values of one parameter, the best of which validation selects
        seeds: how many training runs each number is the mean of, unless a row has more
    """

    name: str
    title: str
    rows: tuple[TableRow, ...]
    columns: tuple[str, ...]
    networks: Mapping[str, Network]
    unit: str = "percent"
    row_key: str = "training"
    scale: str = ""
    caution: str = ""
    claims: tuple[Claim, ...] = ()
    selects: bool = False
    seeds: int = 1
