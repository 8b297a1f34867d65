"""What the software and the machine were, for the record beside every result."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from typing import Any

from soar import __version__


def environment() -> dict[str, Any]:
    """Return versions, hardware and the command that is running.

    >>> sorted(environment())[:3]
    ['command', 'cores', 'gpu']
    """
    import numpy
    import torch

    return {
        "soar": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
    }
