"""Other libraries: their attacks in our evaluation, ours called as theirs, and models in folders."""

from soar.interop.external import ExternalAttack
from soar.interop.folders import Architecture, load_folder, save_folder
from soar.interop.libraries import from_art, from_foolbox, from_torchattacks
from soar.interop.styles import CallableAttack, FoolboxStyleAttack

__all__ = [
    "Architecture",
    "CallableAttack",
    "ExternalAttack",
    "FoolboxStyleAttack",
    "from_art",
    "from_foolbox",
    "from_torchattacks",
    "load_folder",
    "save_folder",
]
