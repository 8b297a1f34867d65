# PYTHON_ARGCOMPLETE_OK
"""`python -m soar` and `torchrun -m soar`."""

import sys

from soar.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
