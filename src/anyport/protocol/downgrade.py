"""Results and tools in the words of an older client's revision.

Clients of their time refuse a whole result for one content block they do not know, and a whole
list for one schema, so what came later is told in kinds they have. What holds nothing of the
sort passes untouched. Knows payloads; does not know where they came from.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from anyport.protocol.revision import Revision
from anyport.wire import members


def downgrade(method: str, result: bytes, revision: Revision) -> bytes:
    """The result of a call or a prompt with only what the clients of a legacy revision take."""
    if method == "tools/call" and b'"structuredContent"' in result:
        result = _structured(result)
    strange = sorted(revision.lacks)
    if not any(b'"%b"' % kind.encode() in result for kind in strange):
        return result
    try:
        if method == "tools/call":
            return _edit_list(result, "content", lambda block: _told(block, strange))
        if method == "prompts/get":
            return _edit_list(result, "messages", lambda message: _in_message(message, strange))
    except (msgspec.DecodeError, members.Ambiguous):
        # Not the shape that MCP gives it: left for the client to judge.
        return result
    return result


def downgrade_tool(tool: bytes) -> bytes:
    """A tool as every legacy client takes it; nearly all are that already.

    Clients with strict types refuse a whole list for one tool whose schemas are not those of
    objects: an input schema is made one, an output schema that is none is left out.
    """
    try:
        found = members.members(tool)
        changes: dict[str, bytes | None] = {}
        takes = found.get("inputSchema")
        if takes is None or bytes(takes)[:1] != b"{":
            changes["inputSchema"] = b'{"type":"object"}'
        elif not _is_of_objects(takes):
            changes["inputSchema"] = members.edit(bytes(takes), {"type": b'"object"'})
        gives = found.get("outputSchema")
        if gives is not None and not _is_of_objects(gives):
            changes["outputSchema"] = None
        return members.edit(tool, changes) if changes else tool
    except (msgspec.DecodeError, members.Ambiguous):
        return tool


def _is_of_objects(schema: Raw) -> bool:
    if bytes(schema)[:1] != b"{":
        return False
    kind = members.members(schema).get("type")
    return kind is not None and bytes(kind) == b'"object"'


def _structured(result: bytes) -> bytes:
    """Structured content was an object before it could be anything; text can be anything."""
    try:
        found = members.members(result)
        value = found.get("structuredContent")
        if value is None or bytes(value)[:1] == b"{":
            return result
        changes: dict[str, bytes | None] = {"structuredContent": None}
        if bytes(found.get("content", b"[]")) == b"[]":
            block = [("type", b'"text"'), ("text", members.text(bytes(value).decode()))]
            changes["content"] = b"[%b]" % members.join(block)
        return members.edit(result, changes)
    except (msgspec.DecodeError, members.Ambiguous):
        return result


def _edit_list(holder: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    raw = members.members(holder).get(name)
    if raw is None:
        return holder
    items = msgspec.json.decode(raw, type=list[Raw])
    return members.edit(holder, {name: b"[%b]" % b",".join(change(bytes(item)) for item in items)})


def _in_message(message: bytes, strange: list[str]) -> bytes:
    content = members.members(message).get("content")
    if content is None:
        return message
    return members.edit(message, {"content": _told(bytes(content), strange)})


def _told(block: bytes, strange: list[str]) -> bytes:
    """One content block as an older client can read it; others as they are."""
    found = members.members(block)
    kind = found.get("type")
    if kind is None or bytes(kind) not in [members.text(name) for name in strange]:
        return block
    if bytes(kind) == b'"audio"':
        # Sound travels as what it is: a file with a media type.
        sound = [("uri", b'"attachment:audio"')]
        sound += [("mimeType", bytes(found["mimeType"]))] if "mimeType" in found else []
        sound.append(("blob", bytes(found.get("data", b'""'))))
        return members.join([("type", b'"resource"'), ("resource", members.join(sound))])
    name = members.string(found.get("title")) or members.string(found.get("name"))
    uri = members.string(found.get("uri")) or ""
    words = f"{name}: {uri}" if name else uri
    return members.join([("type", b'"text"'), ("text", members.text(words))])
