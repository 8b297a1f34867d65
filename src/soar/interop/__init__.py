"""Attacks of foolbox, torchattacks and ART in our evaluation."""

from soar.interop.external import ExternalAttack
from soar.interop.libraries import from_art, from_foolbox, from_torchattacks

__all__ = ["ExternalAttack", "from_art", "from_foolbox", "from_torchattacks"]
