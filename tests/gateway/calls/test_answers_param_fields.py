"""Which calls are held against their header fields, and what becomes of those that differ."""

from typing import Any

import pytest
from msgspec import Raw

from anyport.gateway.calls.answers import check_param_headers
from anyport.protocol.capabilities import NO_CAPABILITIES
from anyport.protocol.errors import RetryAfter
from anyport.protocol.exchange import Caller, Exchange
from anyport.protocol.methods import METHODS
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from anyport.protocol.session import STREAMABLE_HTTP

ANNOTATED = {"Region": ("region",)}


class Nobody:
    reply_only = False

    def send_frames(self, *frames: bytes) -> None: ...

    def end(
        self, frame: bytes, code: int | None = None, pause: RetryAfter | None = None
    ) -> None: ...


def call(*fields: tuple[str, str], **changes: Any) -> Exchange:
    """A modern call over HTTP with a region, and these fields."""
    revision = changes.get("revision", NEWEST_MODERN)
    caller = Caller(
        profile="p",
        session=None,
        revision=revision,
        capabilities=NO_CAPABILITIES,
        transport=changes.get("transport", STREAMABLE_HTTP),
    )
    return Exchange(
        id=b"1",
        method=METHODS[changes.get("method", "tools/call")],
        params=b"{}",
        param_members=changes.get("found", {"arguments": Raw(b'{"region":"eu"}')}),
        caller=caller,
        writer=Nobody(),
        deliver=lambda *_: None,
        param_fields=fields,
    )


def test_fields_that_say_what_the_arguments_say_are_fine() -> None:
    assert check_param_headers(call(("mcp-param-region", "eu")), ANNOTATED) is None


@pytest.mark.parametrize(
    "fields",
    [(), (("mcp-param-region", "us"),), (("mcp-param-region", "eu"), ("mcp-param-region", "eu"))],
)
def test_a_call_whose_fields_differ_is_refused(fields: tuple[tuple[str, str], ...]) -> None:
    fault = check_param_headers(call(*fields), ANNOTATED)
    assert fault is not None
    assert fault.code(NEWEST_MODERN) == -32020
    assert "Mcp-Param" in fault.message


def test_a_field_without_any_arguments_is_refused() -> None:
    assert check_param_headers(call(("mcp-param-region", "eu"), found={}), ANNOTATED) is not None


@pytest.mark.parametrize(
    "changes",
    [{"revision": NEWEST_LEGACY}, {"transport": "stdio"}, {"method": "prompts/get"}],
)
def test_what_has_no_such_fields_is_not_held_against_any(changes: dict[str, Any]) -> None:
    assert check_param_headers(call(**changes), ANNOTATED) is None


def test_a_tool_without_annotations_takes_any_fields() -> None:
    assert check_param_headers(call(("mcp-param-x", "1"), ("mcp-param-x", "2")), {}) is None
