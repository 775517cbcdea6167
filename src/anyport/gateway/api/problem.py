"""Errors of the API: one shape, RFC 9457, with a sentence for people."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from anyport.gateway.api.answers import Problem

MEDIA_TYPE: Final = "application/problem+json"

SAFE: Final = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
"""Goes with every answer: what it says holds for this moment, and is never to be run."""

READ_ONLY: Final = "GET, HEAD"
"""What may be done with anything here."""

DETAILS: Final[Mapping[int, str]] = {
    404: "There is nothing at this address; /api/v1 tells what there is",
    405: f"This can only be read: use {READ_ONLY}",
    500: "The gateway failed to answer this request; its standard error says why",
}


def problem(status: int, detail: str | None = None) -> bytes:
    """The body of an error."""
    title = HTTPStatus(status).phrase
    return msgspec.json.encode(
        Problem(title=title, status=status, detail=detail or DETAILS.get(status, title))
    )
