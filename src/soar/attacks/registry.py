"""The attacks that recipes and the command line know by name."""

from __future__ import annotations

from typing import Any

from soar.attacks.attack import Attack
from soar.registry import Registry

ATTACKS: Registry[Attack[Any]] = Registry("attack")
