"""Secrets that stand in a configuration file as they are, where a reference would do.

A secret is told by the name it has or by what it looks like. What is found never holds the value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from anyport.config.document import Document, Spot
from anyport.config.load import SERVER_ROOTS
from anyport.record.names import Names, Weight
from anyport.record.redact import SECRET_CHARS_MIN, Redactor

_TABLES: Final = ("env", "headers", "http_headers")
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)

_names: Final = Names()
_redact: Final = Redactor(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """One secret that somebody wrote down."""

    place: str
    """File and line."""
    name: str
    """The way to it in the file."""
    reference: str
    """What to write instead."""
    variable: str
    """The variable that would hold it then."""


def literals(document: Document) -> Iterator[Literal]:
    """The secrets of the servers that a file defines."""
    for root, servers in document.root.items():
        if root in SERVER_ROOTS and isinstance(servers.value, dict):
            for name, entry in servers.items():
                if isinstance(entry.value, dict):
                    yield from _of_entry(name, entry)


def _of_entry(server: str, entry: Spot) -> Iterator[Literal]:
    for key, spot in entry.items():
        if key in _TABLES and isinstance(spot.value, dict):
            for name, member in spot.items():
                if is_literal(name, member.value):
                    yield _found(member, _variable(name, server))
        elif key == "args" and isinstance(spot.value, list):
            yield from _of_args(server, spot)
        elif key in ("url", "serverUrl", "httpUrl") and is_literal("", spot.value):
            yield _found(spot, _variable("", server))


def _of_args(server: str, args: Spot) -> Iterator[Literal]:
    option = ""
    for element in args.elements():
        if is_literal(option, element.value):
            yield _found(element, _variable(option, server))
        word = element.value if isinstance(element.value, str) else ""
        is_option = word.startswith("--") and "=" not in word
        option = word.removeprefix("--") if is_option else ""


def is_literal(name: str, value: Any) -> bool:
    """Whether a value is a secret, and no reference to one."""
    if not isinstance(value, str) or "${" in value or len(value) < SECRET_CHARS_MIN:
        return False
    if _names.weigh(name) is not Weight.NOTHING and not value.startswith("-"):
        return True
    return _redact(value) != value


def _found(spot: Spot, variable: str) -> Literal:
    scheme = _SCHEME.match(spot.value)
    return Literal(
        place=spot.place,
        name=spot.name,
        reference=f"{scheme[0] if scheme else ''}${{env:{variable}}}",
        variable=variable,
    )


def _variable(name: str, server: str) -> str:
    """A name for the variable: the one it has already, unless that says too little."""
    if name.lower() in ("", "authorization"):
        name = f"{server}_TOKEN"
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
