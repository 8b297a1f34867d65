import subprocess
import sys

import pytest

import soar.data


@pytest.mark.parametrize("name", soar.data.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(soar.data, name) is not None
    assert name in dir(soar.data)


def test_another_name_does_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'soar\.data' has no attribute 'laod'"):
        soar.data.laod  # noqa: B018


def test_importing_the_page_does_not_import_torch() -> None:
    code = "import sys, soar.data; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
