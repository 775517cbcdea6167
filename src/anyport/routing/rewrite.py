"""URIs inside results, turned from a server's own into the profile's.

Only needed where two servers claim one URI; everywhere else results pass unread. Values that
are not changed keep their bytes.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.wire import members

PublicUri = Callable[[str], str]
"""A server's native URI to the one clients of the profile know."""

_LISTS: Final[Mapping[str, str]] = {
    "tools/call": "content",
    "prompts/get": "messages",
    "resources/read": "contents",
}


def rewrite_result(method: str, result: bytes, public: PublicUri) -> bytes:
    """The result of a call, prompt or read with public URIs.

    A result whose members cannot be told apart is left alone: it was not made by an honest
    server, and its URIs lead nowhere.
    """
    name = _LISTS.get(method)
    if name is None:
        return result
    try:
        items = msgspec.json.decode(members.members(result)[name], type=list[Raw])
        changed = [_rewrite_item(name, bytes(item), public) for item in items]
        if changed == [bytes(item) for item in items]:
            return result
        return members.edit(result, {name: b"[%b]" % b",".join(changed)})
    except (msgspec.DecodeError, KeyError, members.Ambiguous):
        return result


def rewrite_uri(holder: bytes, public: PublicUri) -> bytes:
    """An object with its `uri` member made public."""
    try:
        raw = members.members(holder).get("uri")
        native = None if raw is None else msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return holder
    if native is None or public(native) == native:
        return holder
    return members.edit(holder, {"uri": members.text(public(native))})


def _rewrite_item(name: str, item: bytes, public: PublicUri) -> bytes:
    if item[:1] != b"{":
        return item
    if name == "contents":
        return rewrite_uri(item, public)
    if name == "messages":
        content = members.members(item).get("content")
        if content is None or bytes(content)[:1] != b"{":
            return item
        inner = _rewrite_block(bytes(content), public)
        return item if inner == bytes(content) else members.edit(item, {"content": inner})
    return _rewrite_block(item, public)


def _rewrite_block(block: bytes, public: PublicUri) -> bytes:
    """One content block: a link has the URI itself, an embedded resource holds it inside."""
    resource = members.members(block).get("resource")
    if resource is not None and bytes(resource)[:1] == b"{":
        inner = rewrite_uri(bytes(resource), public)
        return block if inner == bytes(resource) else members.edit(block, {"resource": inner})
    return rewrite_uri(block, public)
