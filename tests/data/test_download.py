import os
from pathlib import Path

import pytest

from soar.data.download import download
from soar.errors import UserError
from tests.data.server import Server

CONTENTS = os.urandom(3_000_000)


@pytest.fixture
def url(server: Server) -> str:
    server.files["/file"] = CONTENTS
    return f"{server.url}/file"


def test_a_whole_file(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    download(url, tmp_path / "file.part")
    assert (tmp_path / "file.part").read_bytes() == CONTENTS
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_download_is_continued(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    server.cut_after = 1_200_000
    with pytest.raises(UserError, match=r"closed after 1200000 of 3000000 bytes; the same command"):
        download(url, part)
    assert part.read_bytes() == CONTENTS[:1_200_000]
    server.cut_after = None
    download(url, part)
    assert part.read_bytes() == CONTENTS
    assert server.asked == [("/file", None), ("/file", "bytes=1200000-")]


def test_a_second_interruption_is_continued_too(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    server.cut_after = 1_000_000
    for reached in (1_000_000, 2_000_000):
        with pytest.raises(UserError, match=f"closed after {reached} of 3000000 bytes"):
            download(url, part)
    download(url, part)
    assert part.read_bytes() == CONTENTS


def test_a_server_without_ranges_starts_again(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(CONTENTS[:1000])
    server.knows_ranges = False
    download(url, part)
    assert part.read_bytes() == CONTENTS


def test_a_finished_download_is_not_repeated(url: str, server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(CONTENTS)
    download(url, part)
    assert part.read_bytes() == CONTENTS
    assert server.asked == [("/file", "bytes=3000000-")]


def test_a_missing_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"/nothing: the server answers 404 Not Found$"):
        download(f"{server.url}/nothing", tmp_path / "part")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["http://127.0.0.1:1/file", "http://name.invalid/f", "http://["])
def test_no_network(bad: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not reachable \(.+\)$"):
        download(bad, tmp_path / "part")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_os_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        download(url, tmp_path / "part")


def test_progress_is_shown_on_request(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    download(url, tmp_path / "file.part", "plain")
    assert "file  3/3 MiB  100 %" in capsys.readouterr().err
