"""Two small files, drawn and played by arithmetic so that every byte is accounted for."""

import base64
import struct
import zlib
from typing import Final

_PICTURE_PIXELS = 8
_SAMPLES_PER_SECOND = 8000
_SAMPLES = 80  # A hundredth of a second: a click, and still a valid file.
_SAMPLES_PER_WAVE = 16


def _png() -> bytes:
    """A square of eight by eight pixels, blue with a white diagonal."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    side = _PICTURE_PIXELS
    blue, white = b"\x20\x60\xc0", b"\xff\xff\xff"
    rows = (b"\x00" + blue * y + white + blue * (side - 1 - y) for y in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def _wav() -> bytes:
    """A square wave of 500 Hz: one channel of eight bits."""
    half = _SAMPLES_PER_WAVE // 2
    samples = bytes(192 if i // half % 2 else 64 for i in range(_SAMPLES))
    rate = _SAMPLES_PER_SECOND
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


PNG: Final = _png()
PNG_BASE64: Final = base64.b64encode(PNG).decode()
WAV_BASE64: Final = base64.b64encode(_wav()).decode()
