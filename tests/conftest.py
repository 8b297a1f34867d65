"""Settings for all tests: no deadlines on a busy machine, one thread each because tests run side by side."""

from __future__ import annotations

import os
import signal

import hypothesis
import pytest
import torch

# A failed assertion of a helper then shows its numbers, as those in tests do.
pytest.register_assert_rewrite("tests.objectives.shared")
hypothesis.settings.register_profile("soar", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("soar")
torch.set_num_threads(1)
# Workers of pytest-xdist get the width of the terminal that started them.
os.environ.pop("COLUMNS", None)
# A shell that runs tests in the background lets them ignore Ctrl-C, and so would the processes they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
