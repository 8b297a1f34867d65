import socket

import pytest

from soar.data import urls
from soar.errors import UserError
from tests.data import hostile_servers as servers


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 Other", "307 Moved", "308 Moved"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_redirect_on_the_web_is_followed(status: str, is_relative: bool) -> None:
    with servers.serve_raw(servers.says(servers.head(Content_Length=4) + b"file")) as url:

        def respond(connection: socket.socket, asked: bytes) -> None:
            is_first = asked.startswith(b"GET /first ")
            target = "second?a=b%20c" if is_relative else f"{url}/other"
            reply = servers.redirect(target, status) if is_first else servers.says(servers.head() + b"file")
            reply(connection, asked)

        with servers.serve_raw(respond) as first, urls.request(f"{first}/first", 0) as response:  # type: ignore[union-attr]
            assert response.read() == b"file"


def test_what_is_there_already_is_not_asked_for() -> None:
    asked = []

    def respond(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(servers.head("416 Range Not Satisfiable"))

    with servers.serve_raw(respond) as url:
        assert urls.request(f"{url}/file", 5) is None
        with pytest.raises(UserError, match="the server answers 416"):
            urls.request(f"{url}/file", 0)
    assert b"Range: bytes=5-" in asked[0] and b"Range" not in asked[1]


@pytest.mark.parametrize("url", ["http://a/", "https://a.b:8080/c?d=%20#e", "HTTP://[::1]/x", "http://a:0"])
def test_addresses_that_can_be_asked_for(url: str) -> None:
    urls.check_url(url)
