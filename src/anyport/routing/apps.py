"""MCP Apps: the views that tools name, by the URIs of resources.

A tool says in its `_meta` which resource shows its results. Such a resource need not be listed:
"Servers MAY omit UI-only resources from `resources/list`" (MCP Apps, resource discovery), so what
tools name is all that is known of it. Whose resource it is, is not decided here.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.extension import APPS, extension_of
from anyport.routing.rewrite import PublicUri
from anyport.wire import members

_MEMBER: Final = "resourceUri"
_FLAT: Final = "ui/resourceUri"
"""The older spelling, which servers still write beside the other one."""


def views(tool: bytes) -> tuple[str, ...]:
    """The URIs of the views that a tool names; most name none."""
    if _MEMBER.encode() not in tool:
        return ()
    try:
        about = members.members(members.members(tool)["_meta"])
        named = {members.string(raw) for _, raw in _places(about)}
    except (msgspec.DecodeError, KeyError):
        return ()
    return tuple(uri for uri in named if uri is not None and extension_of(uri) == APPS)


def rewrite_tool(tool: bytes, public: PublicUri) -> bytes:
    """A tool that names views, with public URIs.

    One whose members cannot be told apart is left alone: no honest server has made it.
    """
    try:
        return _rewrite(tool, public)
    except members.Ambiguous:
        return tool


def _rewrite(tool: bytes, public: PublicUri) -> bytes:
    about = bytes(members.members(tool)["_meta"])
    changed = about
    for name, raw in _places(members.members(about)):
        native = members.string(raw)
        if native is None or public(native) == native:
            continue
        value = members.text(public(native))
        if name != _FLAT:
            value = members.edit(bytes(members.members(about)[name]), {_MEMBER: value})
        changed = members.edit(changed, {name: value})
    return tool if changed == about else members.edit(tool, {"_meta": changed})


def _places(about: dict[str, Raw]) -> Iterator[tuple[str, Raw]]:
    """Where a `_meta` names a view: the member of it, and the URI."""
    if _FLAT in about:
        yield _FLAT, about[_FLAT]
    ui = about.get("ui")
    found = {} if ui is None or bytes(ui)[:1] != b"{" else members.members(ui)
    if _MEMBER in found:
        yield "ui", found[_MEMBER]
