"""The inputs that are kept: each found its way somewhere no other does, or broke something once.

One file for each target, one input a line, written with the escapes of Python's bytes, so that a
person can read what changed.
"""

import ast
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX: Final = 1024
"""Longer ones are not kept: what they show, a shorter one shows too."""


def file_of(target: str) -> Path:
    return FOLDER / f"{target}.txt"


def read(target: str) -> list[bytes]:
    """All that is kept for a target."""
    lines = file_of(target).read_text("ascii").splitlines()
    found: list[bytes] = [ast.literal_eval(f"b'{line}'") for line in lines]
    return found


def write(target: str, inputs: list[bytes]) -> None:
    """Keep these."""
    kept = sorted({raw for raw in inputs if len(raw) <= INPUT_BYTES_MAX}, key=lambda r: (len(r), r))
    file_of(target).write_text("".join(f"{_escaped(raw)}\n" for raw in kept), "ascii")


def _escaped(raw: bytes) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (39, 92) else f"\\x{byte:02x}" for byte in raw
    )
