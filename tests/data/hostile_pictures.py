"""Images that were made to break their reader."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image

PIXELS = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
# Refused or read, as the version of Pillow has it.
EITHER = ""
FORMATS = ("png", "jpg", "gif", "bmp", "webp", "tiff")


def drawn(suffix: str, pixels: np.ndarray = PIXELS) -> bytes:
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, {"jpg": "JPEG"}.get(suffix, suffix.upper()))
    return packed.getvalue()


def chunk(kind: bytes, data: bytes, length: int | None = None) -> bytes:
    size = len(data) if length is None else length
    return struct.pack(">I", size) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int = 9, height: int = 8, *extra: bytes, depth: int = 8, kind: int = 2, data: bytes = b""
) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    rows = data or zlib.compress(bytes((1 + 27) * 8))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(extra) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _zeros(size: int) -> bytes:
    packer = zlib.compressobj(1)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)), packer.flush()])


def bmp(width: int, height: int, bits: int = 24, compression: int = 0) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 100, 0, 0, 54) + head + bytes(100)


def gif(width: int, height: int, body: bytes = b"") -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + body


def tiff(entries: list[tuple[int, int, int, int]], following: int = 0) -> bytes:
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + fields + struct.pack("<I", following) + bytes(100)


def _tiff_of(width: int, height: int, *more: tuple[int, int, int, int], following: int = 0) -> bytes:
    usual = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    return tiff(sorted([*usual, *more]), following)


def jpeg(width: int, height: int) -> bytes:
    packed = bytearray(drawn("jpg"))
    frame = packed.find(b"\xff\xc0")
    packed[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(packed)


_BAD = "cannot be read as an image"
_MANY = "pixels, allowed are at most 89478485 per image"
_POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 8\n%%EndComments\n(id) show\n"

CASES: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "huge sides": ("png", lambda: png(2**31 - 1, 2**31 - 1), f"({_BAD}|{_MANY})"),
    "sides of 2**32": ("png", lambda: png(2**32 - 1, 2**32 - 1), f"({_BAD}|{_MANY})"),
    "900 megapixels": ("png", lambda: png(30_000, 30_000), f"{_BAD} .Image size"),
    "100 megapixels": ("png", lambda: png(10_000, 10_000), _MANY),
    "more than the memory": ("png", lambda: png(8000, 8000), "2 images: .*allowed are 67108864, half"),
    "no width": ("png", lambda: png(0, 8), _BAD),
    "no pixels": ("png", lambda: png(data=zlib.compress(b"")), _BAD),
    "pixels that unpack to 64 MiB": ("png", lambda: png(data=_zeros(64 << 20)), None),
    "packed text": ("png", lambda: png(9, 8, chunk(b"zTXt", b"a\0\0" + _zeros(64 << 20))), EITHER),
    "packed profile": ("png", lambda: png(9, 8, chunk(b"iCCP", b"a\0\0" + _zeros(64 << 20))), EITHER),
    "international text": (
        "png",
        lambda: png(9, 8, chunk(b"iTXt", b"a\0\1\0\0\0" + _zeros(64 << 20))),
        EITHER,
    ),
    "much text": (
        "png",
        lambda: png(9, 8, *(chunk(b"zTXt", b"a\0\0" + _zeros(1 << 20)) for _ in range(100))),
        f"{_BAD} .*text",
    ),
    "text with escapes": ("png", lambda: png(9, 8, chunk(b"tEXt", b"a\0\x1b[2J")), None),
    "text without a key": ("png", lambda: png(9, 8, chunk(b"zTXt", b"")), None),
    "chunk of 4 GiB": ("png", lambda: png(9, 8, chunk(b"abcd", b"", 0xFFFFFFFF)), _BAD),
    "chunk with a bad name": ("png", lambda: png(9, 8, chunk(b"\x1b[2J", b"")), _BAD),
    "short gamma": ("png", lambda: png(9, 8, chunk(b"gAMA", b"")), EITHER),
    "short time": ("png", lambda: png(9, 8, chunk(b"acTL", b"\0")), EITHER),
    "frames without end": ("png", lambda: png(9, 8, chunk(b"acTL", b"\xff" * 8)), EITHER),
    "16 bits": (
        "png",
        lambda: drawn("png", np.zeros((8, 9), np.uint16)),
        "pixels of kind 'I;16', expected 8",
    ),
    "unknown colors": ("png", lambda: png(kind=7), _BAD),
    "unknown depth": ("png", lambda: png(depth=255), _BAD),
    "only a signature": ("png", lambda: b"\x89PNG\r\n\x1a\n", _BAD),
    "nothing": ("png", lambda: b"", _BAD),
    "a page": ("png", lambda: b"<html>log in first</html>", _BAD),
    "a drawing with a script": ("png", lambda: b"<svg><script>alert(1)</script></svg>", _BAD),
    "PostScript": ("png", lambda: _POSTSCRIPT, _BAD),
    "PostScript in a jpg": ("jpg", lambda: _POSTSCRIPT, _BAD),
    "PostScript in a tiff": ("tiff", lambda: b"\xc5\xd0\xd3\xc6" + bytes(28) + _POSTSCRIPT, _BAD),
    "a raw map": ("png", lambda: b"P6 9 8 255\n" + bytes(216), _BAD),
    "an icon": ("png", lambda: b"\0\0\1\0\1\0" + bytes(100), _BAD),
    "a layered drawing": ("png", lambda: b"8BPS\0\1" + bytes(100), _BAD),
    "another format than its name": ("png", lambda: drawn("jpg"), None),
    "gif of 65,535 x 65,535": (
        "gif",
        lambda: gif(65535, 65535, b",\0\0\0\0\xff\xff\xff\xff\0"),
        f"{_BAD}|{_MANY}",
    ),
    "gif without frames": ("gif", lambda: gif(9, 8, b";"), _BAD),
    "gif with a frame outside": ("gif", lambda: gif(9, 8, b",\xff\xff\xff\xff\xff\xff\xff\xff\0\x02"), _BAD),
    "gif of comments": ("gif", lambda: gif(9, 8, b"!\xfe" + b"\xff" + bytes(255)), _BAD),
    "gif with wild codes": (
        "gif",
        lambda: gif(9, 8, b",\0\0\0\0\x09\0\x08\0\0\x0c\xff" + b"\xff" * 255 + b"\0;"),
        _BAD,
    ),
    "bmp of huge sides": ("bmp", lambda: bmp(2**31 - 1, 2**31 - 1), f"{_BAD}|{_MANY}"),
    "bmp of negative width": ("bmp", lambda: bmp(-9, 8), f"{_BAD}|{_MANY}"),
    "bmp from the top": ("bmp", lambda: bmp(9, -(2**31)), f"{_BAD}|{_MANY}"),
    "bmp of 64 bits": ("bmp", lambda: bmp(9, 8, 64), _BAD),
    "bmp of unknown packing": ("bmp", lambda: bmp(9, 8, 24, 99), _BAD),
    "bmp of run lengths": ("bmp", lambda: bmp(9, 8, 8, 1), _BAD),
    "jpg of 65,535 x 65,535": ("jpg", lambda: jpeg(65535, 65535), f"{_BAD}|{_MANY}"),
    "jpg without height": ("jpg", lambda: jpeg(9, 0), _BAD),
    "jpg of markers": ("jpg", lambda: b"\xff\xd8" + b"\xff\xe1\x00\x02" * 10_000, _BAD),
    "jpg with a bad Exif": (
        "jpg",
        lambda: drawn("jpg")[:2] + b"\xff\xe1\x00\x10Exif\0\0II*\0\xff\xff\xff\xff" + drawn("jpg")[2:],
        None,
    ),
    "webp of nothing": ("webp", lambda: b"RIFF\xff\xff\xff\xffWEBPVP8 \xff\xff\xff\xff" + bytes(30), _BAD),
    "webp of huge sides": ("webp", lambda: b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6, _BAD),
    "tiff of huge sides": ("tiff", lambda: _tiff_of(2**32 - 1, 2**32 - 1), f"{_BAD}|{_MANY}"),
    "tiff that leads to itself": (
        "tiff",
        lambda: _tiff_of(9, 8, (273, 4, 1, 8), following=8),
        EITHER,
    ),
    "tiff with a strip outside": ("tiff", lambda: _tiff_of(9, 8, (273, 4, 1, 2**32 - 1)), _BAD),
    "tiff of 2**32 strips": ("tiff", lambda: _tiff_of(9, 8, (273, 4, 2**32 - 1, 8)), _BAD),
    "tiff of 2**32 samples": ("tiff", lambda: _tiff_of(9, 8, (277, 4, 1, 2**32 - 1)), _BAD),
    "tiff without tags": ("tiff", lambda: tiff([]), _BAD),
    "tiff with a wild offset": ("tiff", lambda: b"II*\0\xff\xff\xff\xff", _BAD),
    "tiff of unknown packing": (
        "tiff",
        lambda: tiff([(256, 4, 1, 9), (257, 4, 1, 8), (259, 3, 1, 65535)]),
        _BAD,
    ),
    "big tiff": ("tiff", lambda: b"II+\0\x08\0\0\0" + b"\xff" * 100, _BAD),
}
