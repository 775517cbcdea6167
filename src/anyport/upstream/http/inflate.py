"""Undoing the compression of a reply's body, within bounds.

A few kilobytes can claim to be gigabytes: what comes out is limited, piece by piece, and what
is not compressed as it says is refused.
"""

import zlib

from anyport.wire.http import BadMessage, ReplyHead


class TooLarge(Exception):
    """A body is over the limit."""


class BadCompression(Exception):
    """A body is not compressed as it says."""


class Inflate:
    """Undoes gzip and deflate, never giving more than the limit at a time."""

    def __init__(self, bytes_max: int) -> None:
        self._inflater = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, as it begins.
        self._bytes_max = bytes_max
        self._begun = False

    @property
    def cut_off(self) -> bool:
        """Whether more would have to come."""
        return self._begun and not self._inflater.eof

    def feed(self, piece: bytes) -> bytes:
        """What these bytes were before.

        Raises:
            TooLarge: more than the limit.
            BadCompression: this is something else.
        """
        self._begun = self._begun or bool(piece)
        try:
            plain = self._inflater.decompress(piece, self._bytes_max + 1)
        except zlib.error:
            raise BadCompression from None
        if self._inflater.unconsumed_tail:
            raise TooLarge
        if self._inflater.unused_data:
            raise BadCompression  # It would be kept, however much there is of it.
        return plain


def inflate_for(head: ReplyHead, bytes_max: int) -> Inflate | None:
    """What undoes the compression of a reply; None if there is none.

    Raises:
        BadMessage: it is compressed in a way that nobody asked for.
    """
    coding = (head.get("content-encoding") or "identity").strip().lower()
    if coding == "identity":
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise BadMessage(400, "a content encoding nobody asked for")
    return Inflate(bytes_max)
