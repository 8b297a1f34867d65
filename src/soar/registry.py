"""Builders by name with one-line descriptions: objectives, attacks, models, datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from soar.errors import UserError, unknown
from soar.imports import imported
from soar.options import REQUIRED, bind, defaults

Built = TypeVar("Built")
Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry(Generic[Built]):
    """A registered name, its builder, and the description that `soar list` shows."""

    name: str
    build: Callable[..., Built]
    description: str


class Registry(Generic[Built]):
    """Look up builders by name, with a suggestion when a name is misspelled.

    A name may also be `package.module:callable`, a builder of any package.

    Args:
        kind: the noun for messages, such as "objective"; the recipe section carries the same name

    >>> shapes: Registry[int] = Registry("shape")
    >>> @shapes.register("square")
    ... def square(*, side: int = 1) -> int:
    ...     "A square of the given side."
    ...     return side * side
    >>> shapes.build("square", {"side": "3"})
    9
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[Built]] = {}

    def register(self, name: str) -> Callable[[Builder], Builder]:
        """Decorate a class or function; the first line of its docstring is its description."""

        def add(builder: Builder) -> Builder:
            if name in self._entries:
                raise ValueError(f"{self.kind} '{name}' is registered twice")
            description = (builder.__doc__ or "").strip().split("\n")[0]
            self._entries[name] = Entry(name, builder, description)
            return builder

        return add

    def __getitem__(self, name: str) -> Entry[Built]:
        if isinstance(name, str) and ":" in name:
            return Entry(name, imported(name, self.kind), "")
        if not isinstance(name, str) or name not in self._entries:
            raise unknown(self.kind, name, self._entries, f"{self.kind}.name")
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry[Built]]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def spelled_out(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options together with the defaults of all others.

        Args:
            name: a name; one that is not registered has no defaults
            options: those of a recipe

        >>> shapes: Registry[int] = Registry("shape")
        >>> @shapes.register("square")
        ... def square(*, side: int = 1, unit: str = "m") -> int:
        ...     "A square of the given side."
        ...     return side * side
        >>> shapes.spelled_out("square", {"side": 3})
        {'side': 3, 'unit': 'm'}
        """
        known = defaults(self._entries[name].build) if name in self._entries else {}
        return {**{option: value for option, value in known.items() if value is not REQUIRED}, **options}

    def build(self, name: str, options: dict[str, Any], *arguments: Any, **fixed: Any) -> Built:
        """Build `name` from the options of a recipe or a flag, checked against its signature.

        Args:
            name: the registered name
            options: keyword arguments, possibly text
            arguments: positional arguments that do not come from the user
            fixed: keyword arguments that do not come from the user

        Raises:
            UserError: for an unknown option, a value of the wrong type, or a missing option
        """
        builder = self[name].build
        chosen = bind(builder, options, self.kind)
        for option, default in defaults(builder).items():
            if default is REQUIRED and option not in {**chosen, **fixed}:
                raise UserError(f"{self.kind}.{option} is missing; {name} requires it")
        return builder(*arguments, **fixed, **chosen)
