"""Results and tools in the words of an older client's revision.

Clients of their time refuse a whole result for one content block they do not know, and a whole
list for one schema, so what came later is told in kinds they have. What holds nothing of the
sort passes untouched. Knows payloads; does not know where they came from.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.freshness import OF_ITSELF
from anyport.protocol.kinds import may_be_strange
from anyport.protocol.method import LISTS
from anyport.protocol.revision import FIRST_CONTENT, Revision
from anyport.protocol.shape import Shape
from anyport.wire import members
from anyport.wire.frame import INVALID_PARAMS

NOTE_BYTES_MAX: Final = 4096
"""Of a content block that is told as text; a longer one holds a file, which is nothing to read."""

RESOURCE_NOT_FOUND: Final = -32002
"""The legacy revisions' own code for it; the modern ones say that the params are invalid."""

_LISTS: Final = frozenset(LISTS.values())
_IN_FULL: Final = {b"true": b"{}", b"false": b'{"not":{}}'}


def downgrade(method: str, result: bytes, revision: Revision, shape: Shape | None = None) -> bytes:
    """A result with only what the clients of a legacy revision take.

    `shape` is what has been read of it, where somebody has: most need not be read again.
    """
    try:
        if method == "tools/call":
            if shape is None or len(shape.structured):
                result = _structured(result, revision)
            if may_be_strange(result, revision):
                return _edit_list(result, "content", lambda block: _told(block, revision))
        elif method == "prompts/get":
            if may_be_strange(result, revision):
                return _edit_list(result, "messages", lambda one: _in_message(one, revision))
        elif method in _LISTS and shape is None:
            return without_hints(result)
    except (msgspec.DecodeError, members.Ambiguous):
        # Not the shape that MCP gives it: left for the client to judge.
        return result
    return result


def downgrade_tool(tool: bytes, *, mend: bool = True) -> bytes:
    """A tool as every legacy client takes it; nearly all are that already.

    Clients with strict types refuse a whole list for one tool whose schemas are not those of
    objects: an output schema that is none is left out, and if we shall `mend` what no revision
    allows, an input schema is made one.
    """
    try:
        found = members.members(tool)
        changes: dict[str, bytes | None] = {}
        takes, gives = found.get("inputSchema"), found.get("outputSchema")
        if takes is not None and bytes(takes)[:1] == b"{":
            schema = bytes(takes)
            if mend and not _is_of_objects(takes):
                schema = members.edit(schema, {"type": b'"object"'})
            changes["inputSchema"] = _in_full(schema)
        elif mend:
            changes["inputSchema"] = b'{"type":"object"}'
        if gives is not None:
            changes["outputSchema"] = _in_full(bytes(gives)) if _is_of_objects(gives) else None
        same = all(value == bytes(found.get(name, b"")) for name, value in changes.items())
        return tool if same else members.edit(tool, changes)
    except (msgspec.DecodeError, members.Ambiguous):
        return tool


def downgrade_error(error: bytes, uri: Raw | None) -> bytes:
    """The error of a request for a resource; `uri` is the one that was asked for.

    A modern server has one code for a resource that is not there and for params that cannot be
    used. Where it names the very URI that was asked for, it can mean the first alone.
    """
    try:
        found = members.members(error)
        if uri is None or bytes(found.get("code", b"")) != b"%d" % INVALID_PARAMS:
            return error
        about = members.members(found.get("data", Raw(b"{}")))
        named = members.string(about.get("uri"))
        if named is None or named != members.string(uri):
            return error
        return members.edit(error, {"code": b"%d" % RESOURCE_NOT_FOUND})
    except (msgspec.DecodeError, members.Ambiguous):
        return error


def _is_of_objects(schema: Raw) -> bool:
    if bytes(schema)[:1] != b"{":
        return False
    kind = members.members(schema).get("type")
    return kind is not None and bytes(kind) == b'"object"'


def _in_full(schema: bytes) -> bytes:
    """A schema that says true or false of none of its fields: the rule for one was an object."""
    raw = members.members(schema).get("properties")
    if raw is None:
        return schema
    fields = members.members(raw)
    terse = {
        name: _IN_FULL[bytes(rule)] for name, rule in fields.items() if bytes(rule) in _IN_FULL
    }
    if not terse:
        return schema
    return members.edit(schema, {"properties": members.edit(bytes(raw), terse)})


def without_hints(result: bytes) -> bytes:
    """A result without what a modern server says of it: that is for modern clients."""
    if not members.members(result).keys().isdisjoint(OF_ITSELF):
        result = members.edit(result, dict.fromkeys(OF_ITSELF))
    return meta.restamp(result, {meta.SERVER_INFO: None})


def _structured(result: bytes, revision: Revision) -> bytes:
    """Structured content was an object before it could be anything; text can be anything.

    Where it has to go, it must be found in a text: in one that says it as JSON, or for a client
    that never knew of it, in whatever the server has put into words itself.
    """
    found = members.members(result)
    value = found.get("structuredContent")
    if value is None or (revision.structured and bytes(value)[:1] == b"{"):
        return result
    changes: dict[str, bytes | None] = {"structuredContent": None}
    blocks = msgspec.json.decode(found.get("content", Raw(b"[]")), type=list[Raw])
    said = _is_text if not revision.structured else partial(_says, value=value)
    if not any(said(block) for block in blocks):
        blocks.append(Raw(_text(bytes(value).decode())))
        changes["content"] = b"[%b]" % b",".join(map(bytes, blocks))
    return members.edit(result, changes)


def _is_text(block: Raw) -> bool:
    if bytes(block)[:1] != b"{":
        return False
    return members.string(members.members(block).get("type")) == "text"


def _says(block: Raw, value: Raw) -> bool:
    """Whether a content block is a text that holds this value as JSON."""
    if bytes(block)[:1] != b"{":
        return False
    words = members.string(members.members(block).get("text"))
    try:
        return words is not None and _plain(words) == _plain(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _plain(document: str | Raw) -> object:
    return msgspec.json.decode(document)


def _edit_list(holder: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    raw = members.members(holder).get(name)
    if raw is None:
        return holder
    items = [bytes(item) for item in msgspec.json.decode(raw, type=list[Raw])]
    changed = [change(item) for item in items]
    if changed == items:
        return holder
    return members.edit(holder, {name: b"[%b]" % b",".join(changed)})


def _in_message(message: bytes, revision: Revision) -> bytes:
    content = members.members(message).get("content")
    if content is None:
        return message
    return members.edit(message, {"content": _told(bytes(content), revision)})


def _told(block: bytes, revision: Revision) -> bytes:
    """One content block as an older client can read it; others as they are."""
    found = members.members(block)
    kind = members.string(found.get("type"))
    if kind is None or kind in FIRST_CONTENT or kind in revision.content:
        return block
    told = _TELLING.get(kind, _as_note)(found, block)
    # Who it is for and how much it matters is said of every kind of content.
    notes = found.get("annotations")
    return told if notes is None else members.edit(told, {"annotations": bytes(notes)})


def _as_file(found: dict[str, Raw], block: bytes) -> bytes:
    """Sound travels as what it is: a file with a media type."""
    sound = [("uri", b'"attachment:audio"')]
    sound += [("mimeType", bytes(found["mimeType"]))] if "mimeType" in found else []
    sound.append(("blob", bytes(found.get("data", b'""'))))
    return members.join([("type", b'"resource"'), ("resource", members.join(sound))])


def _as_address(found: dict[str, Raw], block: bytes) -> bytes:
    name = members.string(found.get("title")) or members.string(found.get("name"))
    uri = members.string(found.get("uri")) or ""
    return _text(f"{name}: {uri}" if name else uri)


def _as_note(found: dict[str, Raw], block: bytes) -> bytes:
    """Of a kind that nobody has heard of: what it says, if it is something to read."""
    kind = members.string(found["type"])
    if len(block) <= NOTE_BYTES_MAX:
        return _text(f"Content of type {kind!r}: {block.decode()}")
    return _text(f"Content of type {kind!r}, {len(block)} bytes, which this client cannot take")


_TELLING: Final[dict[str, Callable[[dict[str, Raw], bytes], bytes]]] = {
    "audio": _as_file,
    "resource_link": _as_address,
}


def _text(words: str) -> bytes:
    return members.join([("type", b'"text"'), ("text", members.text(words))])
