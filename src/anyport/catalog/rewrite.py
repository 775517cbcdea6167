"""Rewrites native URIs in results and errors to public ones.

Only needed if two servers claim the same URI; other results pass unread. Unchanged values keep
their bytes.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.wire import raw_json

ITEMS_MAX: Final = 1_000
"""Items of one list that are rewritten. Further items keep native URIs, which cannot be resolved if
another server claims them, too."""

PublicUri = Callable[[str], str]
"""Maps a server's native URI to the public one."""

_LIST_MEMBERS: Final[Mapping[str, str]] = {
    "tools/call": "content",
    "prompts/get": "messages",
    "resources/read": "contents",
    "resources/directory/read": "resources",
}


def rewrite_result(method: str, result: bytes, public: PublicUri) -> bytes:
    """Make the URIs in the result of a call, prompt, read or skill public.

    A result with ambiguous members stays unchanged: no honest server sends it, and its URIs cannot
    be resolved.
    """
    name = _LIST_MEMBERS.get(method)
    if name is None:
        return _rewrite_skill_result(result, public) if method == "skills/get" else result
    try:
        return _rewrite_list(result, name, lambda item: _rewrite_item(name, item, public))
    except (msgspec.DecodeError, KeyError, raw_json.AmbiguousObject):
        return result


def rewrite_error(error: bytes, public: PublicUri) -> bytes:
    """Make the `uri` in the data of a server's error public, if there is one."""
    try:
        error_data = raw_json.members(error).get("data")
        if error_data is None or bytes(error_data)[:1] != b"{":
            return error
        changed = rewrite_uri(bytes(error_data), public)
        return error if changed == bytes(error_data) else raw_json.edit(error, {"data": changed})
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return error


def rewrite_skill(skill: bytes, public: PublicUri) -> bytes:
    """Make the URIs of a skill and of its files public."""
    try:
        skill = rewrite_uri(skill, public)
        # A skill that is generated on demand has "dynamic" in place of its files.
        if bytes(raw_json.members(skill).get("resources", b""))[:1] == b"[":
            skill = _rewrite_list(skill, "resources", lambda file: rewrite_uri(file, public))
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return skill
    return skill


def rewrite_uri(holder: bytes, public: PublicUri) -> bytes:
    """Make the `uri` member of an object public."""
    try:
        raw = raw_json.members(holder).get("uri")
        native = None if raw is None else msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return holder
    public_uri = native if native is None else public(native)
    if public_uri is None or public_uri == native:
        return holder
    changes = {"uri": raw_json.encode_string(public_uri)}
    return raw_json.edit(raw_json.remove_lookalikes(holder, frozenset(changes)), changes)


def _rewrite_skill_result(result: bytes, public: PublicUri) -> bytes:
    try:
        skill = bytes(raw_json.members(result)["skill"])
        changed = rewrite_skill(skill, public)
        return result if changed == skill else raw_json.edit(result, {"skill": changed})
    except (msgspec.DecodeError, KeyError, raw_json.AmbiguousObject):
        return result


def _rewrite_list(holder: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    raw = raw_json.members(holder)[name]
    items: list[Raw | bytes] = [*msgspec.json.decode(raw, type=list[Raw])]
    before = [bytes(item) for item in items[:ITEMS_MAX]]
    changed = [change(item) for item in before]
    if changed == before:
        return holder
    items[:ITEMS_MAX] = changed
    return raw_json.edit(holder, {name: b"[%b]" % b",".join(items)})


def _rewrite_item(name: str, item: bytes, public: PublicUri) -> bytes:
    if item[:1] != b"{":
        return item
    if name in ("contents", "resources"):
        return rewrite_uri(item, public)
    if name == "messages":
        content = raw_json.members(item).get("content")
        if content is None or bytes(content)[:1] != b"{":
            return item
        inner = _rewrite_block(bytes(content), public)
        return item if inner == bytes(content) else raw_json.edit(item, {"content": inner})
    return _rewrite_block(item, public)


def _rewrite_block(block: bytes, public: PublicUri) -> bytes:
    """One content block: a link has a `uri`, an embedded resource has it one level deeper."""
    resource = raw_json.members(block).get("resource")
    if resource is not None and bytes(resource)[:1] == b"{":
        inner = rewrite_uri(bytes(resource), public)
        return block if inner == bytes(resource) else raw_json.edit(block, {"resource": inner})
    return rewrite_uri(block, public)
