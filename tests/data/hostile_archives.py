"""Archives that were made to break what unpacks them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable

FOLDER = "cifar-10-batches-bin"
SIZE = 6146
_FIRST = f"{FOLDER}/data_batch_1.bin"
_DAMAGED = r"cifar-10-binary\.tar\.gz: damaged \("
_SPARE = "holds more than the published files"


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Write headers and contents as they are, whatever they say."""
    blocks = [info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512) for info, data in members]
    return gzip.compress(b"".join([*blocks, bytes(1024)]), 1, mtime=0)


def info(
    name: str = _FIRST, size: int = SIZE, kind: bytes = tarfile.REGTYPE, **fields: object
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type = size, kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def _long(start: bytes, size: int, end: bytes = b"") -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as stream:
        stream.write(start)
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
        stream.write(end)
    return packed.getvalue()


def _header(made: tarfile.TarInfo) -> bytes:
    return made.tobuf(tarfile.GNU_FORMAT)


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "wanted file as a bomb": (
        lambda: _long(_header(info(size=64 << 20)), 64 << 20),
        _SPARE,
    ),
    "other file as a bomb": (lambda: _long(_header(info("other", 64 << 20)), 64 << 20), _SPARE),
    "announces a terabyte": (lambda: tar((info("other", 1 << 40), b"")), _SPARE),
    "wanted terabyte": (
        lambda: tar((info(size=1 << 40), b"")),
        _SPARE,
    ),
    "200,000 members": (lambda: gzip.compress(_header(info("x", 0)) * 200_000, 1), _SPARE),
    "huge extended header": (
        lambda: _long(_header(info("x", 64 << 20, tarfile.XHDTYPE)), 64 << 20),
        _SPARE,
    ),
    "extended header of digits": (
        lambda: tar((info("x", 900_000, tarfile.XHDTYPE), b"1" * 900_000)),
        "is not in the archive",
    ),
    "global header": (
        lambda: tar((info("x", 30, tarfile.XGLTYPE), b"99999999999999 path=/etc/pass\n")),
        "is not in",
    ),
    "long name": (lambda: _long(_header(info("x", 64 << 20, tarfile.GNUTYPE_LONGNAME)), 64 << 20), _SPARE),
    "sparse": (lambda: tar((info(kind=tarfile.GNUTYPE_SPARSE), bytes(SIZE))), "is not in the archive"),
    "symbolic link": (
        lambda: tar((info(kind=tarfile.SYMTYPE, linkname="/etc/passwd"), b"")),
        "is not in the archive",
    ),
    "hard link": (
        lambda: tar((info(kind=tarfile.LNKTYPE, linkname="/etc/passwd"), b"")),
        "is not in the archive",
    ),
    "device": (lambda: tar((info(kind=tarfile.CHRTYPE), b"")), "is not in the archive"),
    "pipe": (lambda: tar((info(kind=tarfile.FIFOTYPE), b"")), "is not in the archive"),
    "folder": (lambda: tar((info(kind=tarfile.DIRTYPE), b"")), "is not in the archive"),
    "continuous": (lambda: tar((info(kind=tarfile.CONTTYPE), bytes(SIZE))), "is not in the archive"),
    "unknown kind": (lambda: tar((info(kind=b"\xff"), bytes(SIZE))), "is not in the archive"),
    "name outside": (lambda: tar((info(f"../{_FIRST}"), bytes(SIZE))), "is not in the archive"),
    "name from the root": (lambda: tar((info(f"/{_FIRST}"), bytes(SIZE))), "is not in the archive"),
    "name with escapes": (lambda: tar((info("\x1b[2J\n"), bytes(SIZE))), "is not in the archive"),
    "empty file": (lambda: tar((info(size=0), b"")), "0 of the 6146 bytes that were published"),
    "short file": (
        lambda: tar((info(size=SIZE - 1), bytes(SIZE))),
        "6145 of the 6146 bytes that were published",
    ),
    "long file": (
        lambda: tar((info(size=SIZE + 1), bytes(SIZE + 1))),
        "more than the 6146 bytes that were published",
    ),
    "other contents": (lambda: tar((info(), bytes(SIZE))), "md5 is"),
    "cut in a file": (
        lambda: gzip.compress(_header(info()) + bytes(100)),
        f"{_DAMAGED}unexpected end of data",
    ),
    "cut at a block": (lambda: gzip.compress(_header(info(size=512))), f"{_DAMAGED}unexpected end of data"),
    "cut in a header": (lambda: gzip.compress(_header(info())[:300]), f"{_DAMAGED}truncated header"),
    "header with a wrong sum": (lambda: gzip.compress(b"x" + _header(info())[1:]), f"{_DAMAGED}bad checksum"),
    "only zeros": (lambda: _long(b"", 64 << 20), "is not in the archive"),
    "nothing": (lambda: b"", "is not in the archive"),
    "packed nothing": (lambda: gzip.compress(b""), "is not in the archive"),
    "a page": (lambda: b"<html>log in first</html>", f"{_DAMAGED}Not a gzipped file"),
    "not packed": (lambda: gzip.decompress(tar((info(), bytes(SIZE)))), f"{_DAMAGED}Not a gzipped file"),
    "packed twice": (lambda: gzip.compress(tar((info(), bytes(SIZE)))), _DAMAGED),
    "packing cut short": (lambda: tar((info(), bytes(SIZE)))[:-40], "damaged|wrong contents"),
    "larger than allowed": (
        lambda: bytes(2 << 20),
        "announces 2097152 bytes|2097152 bytes, allowed are at most",
    ),
    "negative size": (
        lambda: gzip.compress(_header(info("x", 0))[:124] + b"\xff" * 12 + _header(info("x", 0))[136:]),
        _DAMAGED,
    ),
}
