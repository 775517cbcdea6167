"""URIs inside results and errors, turned from a server's own into the profile's.

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
    "resources/directory/read": "resources",
}


def rewrite_result(method: str, result: bytes, public: PublicUri) -> bytes:
    """The result of a call, prompt, read or skill with public URIs.

    A result whose members cannot be told apart is left alone: it was not made by an honest
    server, and its URIs lead nowhere.
    """
    name = _LISTS.get(method)
    if name is None:
        return _rewrite_entry(result, public) if method == "skills/get" else result
    try:
        return _rewrite_list(result, name, lambda item: _rewrite_item(name, item, public))
    except (msgspec.DecodeError, KeyError, members.Ambiguous):
        return result


def rewrite_error(error: bytes, public: PublicUri) -> bytes:
    """A server's error with the URI public that it is about, if it says which."""
    try:
        about = members.members(error).get("data")
        if about is None or bytes(about)[:1] != b"{":
            return error
        changed = rewrite_uri(bytes(about), public)
        return error if changed == bytes(about) else members.edit(error, {"data": changed})
    except (msgspec.DecodeError, members.Ambiguous):
        return error


def rewrite_skill(skill: bytes, public: PublicUri) -> bytes:
    """An entry for a skill, with public URIs for it and for its files."""
    try:
        skill = rewrite_uri(skill, public)
        # One that is made on demand says "dynamic" in place of its files.
        if bytes(members.members(skill).get("resources", b""))[:1] == b"[":
            skill = _rewrite_list(skill, "resources", lambda file: rewrite_uri(file, public))
    except (msgspec.DecodeError, members.Ambiguous):
        return skill
    return skill


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


def _rewrite_entry(result: bytes, public: PublicUri) -> bytes:
    try:
        skill = bytes(members.members(result)["skill"])
        changed = rewrite_skill(skill, public)
        return result if changed == skill else members.edit(result, {"skill": changed})
    except (msgspec.DecodeError, KeyError, members.Ambiguous):
        return result


def _rewrite_list(holder: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    raw = members.members(holder)[name]
    items = [bytes(item) for item in msgspec.json.decode(raw, type=list[Raw])]
    changed = [change(item) for item in items]
    if changed == items:
        return holder
    return members.edit(holder, {name: b"[%b]" % b",".join(changed)})


def _rewrite_item(name: str, item: bytes, public: PublicUri) -> bytes:
    if item[:1] != b"{":
        return item
    if name in ("contents", "resources"):
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
