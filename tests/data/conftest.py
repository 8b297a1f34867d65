from collections.abc import Iterator

import pytest

from tests.data.server import Server, serve


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running
