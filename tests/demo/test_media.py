"""The two files are what they claim to be."""

import base64
import io
import struct
import wave
import zlib

from anyport.demo.media import PNG, WAV_BASE64


def test_the_picture_is_eight_pixels_wide_and_whole() -> None:
    assert struct.unpack(">II", PNG[16:24]) == (8, 8)
    start = PNG.index(b"IDAT")
    (length,) = struct.unpack(">I", PNG[start - 4 : start])
    pixels = zlib.decompress(PNG[start + 4 : start + 4 + length])
    assert len(pixels) == 8 * (1 + 8 * 3)


def test_the_sound_can_be_read_as_one() -> None:
    with wave.open(io.BytesIO(base64.b64decode(WAV_BASE64))) as sound:
        assert (sound.getnchannels(), sound.getframerate(), sound.getnframes()) == (1, 8000, 80)
