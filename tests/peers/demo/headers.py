"""HTTP header fields, and how text is encoded in one."""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")


class Headers:
    """Fields by name, whatever the case; one name may have several."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.lower(), []).append(value)

    def all(self, name: str) -> list[str]:
        return self._values.get(name.lower(), [])

    def get(self, name: str) -> str | None:
        """The first of that name."""
        values = self.all(name)
        return values[0] if values else None

    def listed(self, name: str) -> list[str]:
        """The elements of a comma-separated list, in lower case and without parameters."""
        elements = ",".join(self.all(name)).split(",")
        return [element.partition(";")[0].strip().lower() for element in elements]


def unwrap(value: str) -> str | None:
    """The text that a field carries; None where it was wrapped badly."""
    wrapped = _WRAPPED.fullmatch(value)
    if wrapped is None:
        return value if value.isascii() else None
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        # Padding bits that are not zero decode, too; but one text has one wrapping.
        return raw.decode() if base64.b64encode(raw).decode() == wrapped[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None
