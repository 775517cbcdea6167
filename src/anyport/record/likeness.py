"""The outline of payloads that mostly look alike, such as those of one tool's calls.

An outline is made once; whether the next payload has the same is then for a decoder to say that
takes nothing else, which costs a fraction of looking at it. Only the order of keys may differ.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from anyport.record.outline import Outlines

MOULDED_BYTES_MAX: Final = 4096
"""Of a larger payload the outline is cheap in comparison with everything else."""
MOULDED_PARTS_MAX: Final = 64
"""Objects, lists and members of a payload for which a decoder is made."""
MOULDS_MAX: Final = 256
"""Decoders that are made in the life of a gateway: tools are many, and the shapes of calls few."""


class Likeness:
    """What the last payload of a kind looked like."""

    __slots__ = ("_decode", "_looks", "_outline", "_seen")

    def __init__(self, looks: "Looks") -> None:
        self._looks = looks
        self._decode = _nothing
        self._outline = b""
        self._seen = b""
        """The outline of the last payload that was different; what comes twice is learned."""

    def of(self, raw: bytes) -> bytes:
        """The outline, escaped so that it can stand inside a JSON string."""
        try:
            self._decode(raw)
            return self._outline
        except (ValueError, RecursionError):
            outline = self._looks.outline(raw)
            if outline == self._seen and len(raw) <= MOULDED_BYTES_MAX:
                self._decode, self._outline = self._looks.mould(outline, raw), outline
            self._seen = outline
            return outline


class Looks:
    """Makes decoders for outlines."""

    def __init__(self, outlines: Outlines) -> None:
        self.outline = outlines.of
        self._moulds: dict[bytes, Any] = {}

    def mould(self, outline: bytes, raw: bytes) -> Any:
        """What decodes payloads of this outline, one of which is given, and no others."""
        known = self._moulds.get(outline)
        if known is None:
            known = _nothing
            if len(self._moulds) < MOULDS_MAX:
                known = self._moulds[outline] = _decoder(raw)
        return known


def _nothing(raw: bytes) -> None:
    """Decodes no payload at all."""
    raise ValueError("nothing is known yet")


def _decoder(raw: bytes) -> Any:
    try:
        return msgspec.json.Decoder(_Moulding().of(msgspec.json.decode(raw))).decode
    except (ValueError, RecursionError):
        return _nothing


class _Moulding:
    """Makes the type of one payload."""

    def __init__(self) -> None:
        self._parts = 0

    def of(self, value: Any) -> Any:
        """The type that has this value's outline.

        Raises:
            ValueError: there is too much in it.
        """
        self._parts += 1
        if self._parts > MOULDED_PARTS_MAX:
            raise ValueError("too many parts")
        if isinstance(value, dict):
            fields = [(f"f{place}", self.of(each)) for place, each in enumerate(value.values())]
            names = dict(zip((name for name, _ in fields), value, strict=True))
            return msgspec.defstruct(
                "Mould", fields, rename=names, forbid_unknown_fields=True, gc=False
            )
        if isinstance(value, list):
            if not value:
                return Annotated[list[None], Meta(max_length=0)]
            return tuple[tuple(self.of(each) for each in value)]  # type: ignore[misc]
        if isinstance(value, bool) or value is None:
            return type(value)
        return str if isinstance(value, str) else int | float
