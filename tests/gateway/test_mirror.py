"""Which calls are held against their header fields, and what becomes of those that differ."""

from typing import Any

import pytest
from msgspec import Raw

from anyport.gateway.mirror import contradiction
from anyport.ingress.http.sessions import HTTP
from anyport.protocol.capability import NOTHING
from anyport.protocol.errors import Pause
from anyport.protocol.exchange import Caller, Exchange
from anyport.protocol.method import METHODS
from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN

ANNOTATED = {"Region": ("region",)}


class Nobody:
    mute = False

    def note(self, *frames: bytes) -> None: ...

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None: ...


def call(*fields: tuple[str, str], **changes: Any) -> Exchange:
    """A modern call over HTTP with a region, and these fields."""
    revision = changes.get("revision", NEWEST_MODERN)
    caller = Caller(
        profile="p",
        session=None,
        revision=revision,
        capabilities=NOTHING,
        transport=changes.get("transport", HTTP),
    )
    return Exchange(
        id=b"1",
        method=METHODS[changes.get("method", "tools/call")],
        params=b"{}",
        found=changes.get("found", {"arguments": Raw(b'{"region":"eu"}')}),
        caller=caller,
        teller=Nobody(),
        tell=lambda *_: None,
        param_fields=fields,
    )


def test_fields_that_say_what_the_arguments_say_are_fine() -> None:
    assert contradiction(call(("mcp-param-region", "eu")), ANNOTATED) is None


@pytest.mark.parametrize(
    "fields",
    [(), (("mcp-param-region", "us"),), (("mcp-param-region", "eu"), ("mcp-param-region", "eu"))],
)
def test_a_call_whose_fields_differ_is_refused(fields: tuple[tuple[str, str], ...]) -> None:
    fault = contradiction(call(*fields), ANNOTATED)
    assert fault is not None
    assert fault.code(NEWEST_MODERN) == -32020
    assert "Mcp-Param" in fault.message


def test_a_field_without_any_arguments_is_refused() -> None:
    assert contradiction(call(("mcp-param-region", "eu"), found={}), ANNOTATED) is not None


@pytest.mark.parametrize(
    "changes",
    [{"revision": NEWEST_LEGACY}, {"transport": "stdio"}, {"method": "prompts/get"}],
)
def test_what_has_no_such_fields_is_not_held_against_any(changes: dict[str, Any]) -> None:
    assert contradiction(call(**changes), ANNOTATED) is None


def test_a_tool_without_annotations_takes_any_fields() -> None:
    assert contradiction(call(("mcp-param-x", "1"), ("mcp-param-x", "2")), {}) is None
