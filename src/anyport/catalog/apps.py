"""MCP Apps: views that show the results of tools.

The `_meta` of a tool names the resource that shows its results. "Servers MAY omit UI-only resources
from `resources/list`" (MCP Apps, resource discovery), so this URI may be all that is known of it.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from anyport.catalog.rewrite import PublicUri
from anyport.protocol.extensions import APPS, extension_of
from anyport.wire import raw_json

_MEMBER: Final = "resourceUri"
_FLAT_MEMBER: Final = "ui/resourceUri"
"""The older spelling, which servers still send together with the other one."""


def view_uris(tool: bytes) -> tuple[str, ...]:
    """The URIs of a tool's views; most tools have none."""
    if _MEMBER.encode() not in tool:
        return ()
    try:
        meta_members = raw_json.members(raw_json.members(tool)["_meta"])
        uris = {raw_json.decode_string(raw) for _, raw in _view_members(meta_members)}
    except (msgspec.DecodeError, KeyError):
        return ()
    return tuple(uri for uri in uris if uri is not None and extension_of(uri) == APPS)


def rewrite_tool(tool: bytes, public: PublicUri) -> bytes:
    """Replace the view URIs in a tool by public ones.

    A tool with ambiguous members stays unchanged: no honest server sends it.
    """
    try:
        return _rewrite(tool, public)
    except raw_json.AmbiguousObject:
        return tool


def _rewrite(tool: bytes, public: PublicUri) -> bytes:
    raw_meta = bytes(raw_json.members(tool)["_meta"])
    changed = raw_meta
    for name, raw in _view_members(raw_json.members(raw_meta)):
        native = raw_json.decode_string(raw)
        if native is None or public(native) == native:
            continue
        value = raw_json.encode_string(public(native))
        if name != _FLAT_MEMBER:
            value = raw_json.edit(bytes(raw_json.members(raw_meta)[name]), {_MEMBER: value})
        changed = raw_json.edit(changed, {name: value})
    return tool if changed == raw_meta else raw_json.edit(tool, {"_meta": changed})


def _view_members(meta_members: dict[str, Raw]) -> Iterator[tuple[str, Raw]]:
    """The members of a `_meta` that name a view, with the raw URI of each."""
    if _FLAT_MEMBER in meta_members:
        yield _FLAT_MEMBER, meta_members[_FLAT_MEMBER]
    ui = meta_members.get("ui")
    ui_members = {} if ui is None or bytes(ui)[:1] != b"{" else raw_json.members(ui)
    if _MEMBER in ui_members:
        yield "ui", ui_members[_MEMBER]
