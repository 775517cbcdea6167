"""Questions of servers in the words of an older client's revision.

A question that would lose its meaning is not asked: the server is told, and can do without. What
the client answers is the server's own business. Knows payloads; does not know who asks whom.
"""

from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.revision import Revision
from anyport.wire import members

ID_BYTES: Final = 16
"""Of an elicitation id that we make up."""

_LATER_CONTENT: Final = frozenset({"tool_use", "tool_result"})
_URL: Final = b'"url"'


def question_for(method: str, params: bytes, revision: Revision) -> bytes | None:
    """A question's params as clients of a legacy revision take them; None if they cannot be asked.

    What passes through unchanged keeps its bytes. Params that are not what MCP makes them are
    left for the client to judge.
    """
    try:
        if meta.PREFIX.encode() in params:
            # What a modern message says of itself is one hop's business.
            params = meta.restamp(params, dict.fromkeys(meta.HOP_KEYS))
        if method == "elicitation/create":
            return _elicitation(params, revision)
        if method == "sampling/createMessage" and not revision.rich_sampling:
            return _sampling(params, revision)
    except (msgspec.DecodeError, members.Ambiguous):
        return params
    return params


def inexpressible(method: str, revision: Revision) -> str:
    """Why a server gets no answer to a question that `question_for` has no words for."""
    client = f"The client speaks MCP {revision.name}, which has no way to ask this"
    return f"{client}: {_LATER[method]}" if method in _LATER else client


_LATER: Final = {
    "elicitation/create": (
        "elicitation by URL and fields that take several choices came with 2025-11-25, "
        "elicitation itself with 2025-06-18"
    ),
    "sampling/createMessage": "tools and several blocks in a message came with 2025-11-25",
}


def _elicitation(params: bytes, revision: Revision) -> bytes | None:
    if not revision.elicitation:
        return None
    found = members.members(params)
    if bytes(found.get("mode", b"")) == _URL:
        if not revision.rich_forms:
            return None
        return params if "elicitationId" in found else _identified(params, found)
    if revision.rich_forms:
        return params
    changes: dict[str, bytes | None] = {"mode": None, "task": None}
    schema = found.get("requestedSchema")
    if schema is not None:
        form = _form(bytes(schema))
        if form is None:
            return None
        changes["requestedSchema"] = form
    return members.edit(params, changes)


def _identified(params: bytes, found: dict[str, Raw]) -> bytes:
    """The revision demands an id where modern servers have none; one address is one matter."""
    address = bytes(found.get("url", b""))
    id = blake2b(address, digest_size=ID_BYTES).hexdigest()
    return members.edit(params, {"elicitationId": members.text(id)})


def _form(schema: bytes) -> bytes | None:
    """A form of plain fields. A field that takes several choices is left out if it may be."""
    found = members.members(schema)
    fields = members.members(found.get("properties", Raw(b"{}")))
    needed = msgspec.json.decode(found.get("required", Raw(b"[]")))
    plain: dict[str, bytes | None] = {}
    for name, field in fields.items():
        plain[name] = _field(bytes(field))
        if plain[name] is None and isinstance(needed, list) and name in needed:
            return None
    if fields and not any(plain.values()):
        return None
    changes: dict[str, bytes | None] = {"$schema": None}
    if "properties" in found:
        changes["properties"] = members.edit(bytes(found["properties"]), plain)
    return members.edit(schema, changes)


def _field(field: bytes) -> bytes | None:
    """A field with neither a default nor titled choices; None if it takes several."""
    found = members.members(field)
    kind = members.string(found.get("type"))
    if kind == "array":
        return None
    changes: dict[str, bytes | None] = {}
    if kind != "boolean" and "default" in found:
        changes["default"] = None
    titled: Any = msgspec.json.decode(found.get("oneOf", Raw(b"null")))
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        values = [one["const"] for one in titled]
        names = [str(one.get("title", one["const"])) for one in titled]
        changes["oneOf"] = None
        changes["enum"] = msgspec.json.encode(values)
        changes["enumNames"] = msgspec.json.encode(names)
    return members.edit(field, changes) if changes else field


def _sampling(params: bytes, revision: Revision) -> bytes | None:
    found = members.members(params)
    if bytes(found.get("tools", b"[]")) not in (b"[]", b"null"):
        return None
    changes: dict[str, bytes | None] = dict.fromkeys(("tools", "toolChoice", "task"))
    messages = msgspec.json.decode(found.get("messages", Raw(b"[]")), type=list[Raw])
    told = [_message(bytes(message), revision) for message in messages]
    if "messages" in found:
        if any(message is None for message in told):
            return None
        changes["messages"] = b"[%b]" % b",".join(message for message in told if message)
    return members.edit(params, changes)


def _message(message: bytes, revision: Revision) -> bytes | None:
    """One block to a message; None if there are more, or of a kind that came later."""
    content = members.members(message).get("content")
    if content is None:
        return message
    block = bytes(content)
    if block[:1] == b"[":
        blocks = msgspec.json.decode(content, type=list[Raw])
        if len(blocks) != 1:
            return None
        block = bytes(blocks[0])
    kind = members.string(members.members(block).get("type"))
    if kind in _LATER_CONTENT or kind in revision.lacks:
        return None
    return message if block == bytes(content) else members.edit(message, {"content": block})
