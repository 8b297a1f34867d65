import os
import socket
from pathlib import Path

import pytest

from soar.data.download import check_url, download, request
from soar.errors import UserError
from tests.data import hostile_servers as servers
from tests.data.server import Server, largest_file

CONTENTS = os.urandom(3_000_000)
LIMIT = 3_000_000


@pytest.fixture
def url(server: Server) -> str:
    server.files["/file"] = CONTENTS
    return f"{server.url}/file"


def test_a_whole_file(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    download(url, tmp_path / "file.part", LIMIT)
    assert (tmp_path / "file.part").read_bytes() == CONTENTS
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_download_is_continued(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    server.cut_after = 1_200_000
    with pytest.raises(UserError, match=r"closed after 1200000 of 3000000 bytes; the same command"):
        download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS[:1_200_000]
    server.cut_after = None
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS
    assert server.asked == [("/file", None), ("/file", "bytes=1200000-")]


def test_a_second_interruption_is_continued_too(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    server.cut_after = 1_000_000
    for reached in (1_000_000, 2_000_000):
        with pytest.raises(UserError, match=f"closed after {reached} of 3000000 bytes"):
            download(url, part, LIMIT)
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS


def test_a_server_without_ranges_starts_again(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(CONTENTS[:1000])
    server.knows_ranges = False
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS


def test_a_finished_download_is_not_repeated(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(CONTENTS)
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS
    assert server.asked == [("/file", "bytes=3000000-")]


def test_a_missing_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"/nothing: the server answers 404 Not Found$"):
        download(f"{server.url}/nothing", tmp_path / "part", LIMIT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["http://127.0.0.1:1/file", "http://name.invalid/f"])
def test_no_network(bad: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not reachable \(.+\)$"):
        download(bad, tmp_path / "part", LIMIT)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_os_error(url: str, tmp_path: Path) -> None:
    with largest_file(100_000), pytest.raises(OSError, match="File too large"):
        download(url, tmp_path / "part", LIMIT)


@pytest.mark.parametrize("knows_length", [True, False])
def test_a_longer_file_than_allowed_is_given_up(
    url: str, server: Server, tmp_path: Path, knows_length: bool
) -> None:
    server.knows_length = knows_length
    with pytest.raises(UserError, match=r"(announces 3000000 bytes|sends more than the 2999999 bytes)"):
        download(url, tmp_path / "part", 2_999_999)
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_attempt_left_is_not_continued_if_it_is_too_long(
    url: str, server: Server, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENTS + b"x")
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS
    assert server.asked == [("/file", None)]


@pytest.mark.parametrize("link", ["symbolic", "pipe"])
def test_what_is_no_unfinished_file_is_replaced_and_not_written_through(
    url: str, server: Server, tmp_path: Path, link: str
) -> None:
    part, other = tmp_path / "part", tmp_path / "other"
    other.write_bytes(b"somebody's")
    if link == "pipe":
        os.mkfifo(part)
    else:
        os.symlink(other, part)
    download(url, part, LIMIT)
    assert part.read_bytes() == CONTENTS and not part.is_symlink()
    assert other.read_bytes() == b"somebody's"


def test_another_part_than_was_asked_for_is_given_up(url: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(CONTENTS[:1000])
    server.shift = 1
    with pytest.raises(UserError, match="sends another part of the file"):
        download(url, tmp_path / "part", LIMIT)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_request(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    download(url, tmp_path / "file.part", LIMIT, "plain")
    assert "file  3/3 MiB  100%" in capsys.readouterr().err


def test_the_progress_of_a_file_of_unknown_length_shows_no_share(
    url: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.knows_length = False
    download(url, tmp_path / "file.part", LIMIT, "plain")
    shown = capsys.readouterr().err
    assert "file  3 MiB  0:0" in shown and " taken" in shown and "%" not in shown


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 Other", "307 Moved", "308 Moved"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_redirect_on_the_web_is_followed(status: str, is_relative: bool) -> None:
    with servers.serve_raw(servers.says(servers.head(Content_Length=4) + b"file")) as url:

        def respond(connection: socket.socket, asked: bytes) -> None:
            is_first = asked.startswith(b"GET /first ")
            target = "second?a=b%20c" if is_relative else f"{url}/other"
            reply = servers.redirect(target, status) if is_first else servers.says(servers.head() + b"file")
            reply(connection, asked)

        with servers.serve_raw(respond) as first, request(f"{first}/first", 0) as response:  # type: ignore[union-attr]
            assert response.read() == b"file"


def test_what_is_there_already_is_not_asked_for() -> None:
    asked = []

    def respond(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(servers.head("416 Range Not Satisfiable"))

    with servers.serve_raw(respond) as url:
        assert request(f"{url}/file", 5) is None
        with pytest.raises(UserError, match="the server answers 416"):
            request(f"{url}/file", 0)
    assert b"Range: bytes=5-" in asked[0] and b"Range" not in asked[1]


@pytest.mark.parametrize("url", ["http://a/", "https://a.b:8080/c?d=%20#e", "HTTP://[::1]/x", "http://a:0"])
def test_addresses_that_can_be_asked_for(url: str) -> None:
    check_url(url)
