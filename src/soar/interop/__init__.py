"""Other libraries: their attacks in our evaluation, ours in their habits, models in plain folders."""

from soar.interop.architecture import Architecture
from soar.interop.art import from_art
from soar.interop.calling import Aimed, Unaimed
from soar.interop.foolbox import from_foolbox
from soar.interop.foreign import Foreign
from soar.interop.huggingface import load_folder, save_folder
from soar.interop.torchattacks import from_torchattacks

__all__ = [
    "Aimed",
    "Architecture",
    "Foreign",
    "Unaimed",
    "from_art",
    "from_foolbox",
    "from_torchattacks",
    "load_folder",
    "save_folder",
]
