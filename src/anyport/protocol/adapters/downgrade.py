"""Downgrades results, tools and questions to what clients of older revisions accept.

Strict clients reject a whole result for one unknown content block, and a whole list for one schema.
So later features are expressed in earlier ones; everything else keeps its bytes.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.cache_hints import MODERN_RESULT_MEMBERS
from anyport.protocol.methods import LIST_METHODS
from anyport.protocol.result import ResultShape, may_hold_unknown_content
from anyport.protocol.revisions import FIRST_CONTENT, Revision
from anyport.wire import raw_json
from anyport.wire.jsonrpc import INVALID_PARAMS

INLINE_TEXT_BYTES_MAX: Final = 4096
"""An unknown content block up to this size is shown as text; a larger one probably holds a file."""

RESOURCE_NOT_FOUND: Final = -32002
"""The code of legacy revisions; modern ones report invalid params."""

_LIST_METHODS: Final = frozenset(LIST_METHODS.values())
_BOOLEAN_SCHEMAS: Final = {b"true": b"{}", b"false": b'{"not":{}}'}


def downgrade_result(
    method: str, result: bytes, revision: Revision, shape: ResultShape | None = None
) -> bytes:
    """Downgrade a result to a legacy revision.

    `shape` is the parsed shape of the result, if known: most results need not be parsed again.
    """
    try:
        if method == "tools/call":
            if shape is None or len(shape.structured):
                result = _downgrade_structured_content(result, revision)
            if may_hold_unknown_content(result, revision):
                return _edit_list(
                    result, "content", lambda block: _downgrade_block(block, revision)
                )
        elif method == "prompts/get":
            if may_hold_unknown_content(result, revision):
                return _edit_list(
                    result, "messages", lambda one: _downgrade_prompt_message(one, revision)
                )
        elif method in _LIST_METHODS and shape is None:
            return remove_modern_members(result)
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        # Not what MCP specifies: the client decides.
        return result
    return result


def downgrade_tool(tool: bytes, *, repair: bool = True) -> bytes:
    """Adapt a tool to what every legacy client accepts; most tools need no change.

    Clients with strict types reject a whole list for one tool whose schemas are not object schemas.
    An invalid output schema is removed. With `repair`, an invalid input schema, which no revision
    allows, is made an object schema.
    """
    try:
        tool_members = raw_json.members(tool)
        changes: dict[str, bytes | None] = {}
        input_schema, output_schema = (
            tool_members.get("inputSchema"),
            tool_members.get("outputSchema"),
        )
        if input_schema is not None and bytes(input_schema)[:1] == b"{":
            schema = bytes(input_schema)
            if repair and not _is_object_schema(input_schema):
                schema = raw_json.edit(schema, {"type": b'"object"'})
            changes["inputSchema"] = _expand_boolean_schemas(schema)
        elif repair:
            changes["inputSchema"] = b'{"type":"object"}'
        if output_schema is not None:
            changes["outputSchema"] = (
                _expand_boolean_schemas(bytes(output_schema))
                if _is_object_schema(output_schema)
                else None
            )
        same = all(value == bytes(tool_members.get(name, b"")) for name, value in changes.items())
        return tool if same else raw_json.edit(tool, changes)
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return tool


def remove_output_schema(tool: bytes) -> bytes:
    """Remove the output schema, for clients whose results have no structured content.

    Some of them know output schemas all the same, and reject a result that lacks the content.
    """
    try:
        has_schema = "outputSchema" in raw_json.members(tool)
        return raw_json.edit(tool, {"outputSchema": None}) if has_schema else tool
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return tool


def downgrade_error(error: bytes, uri: Raw | None) -> bytes:
    """Downgrade the error of a resource request; `uri` is the requested one.

    Modern servers have one code for missing resources and invalid params. If the error names the
    requested URI, it is about the resource.
    """
    try:
        error_members = raw_json.members(error)
        if uri is None or bytes(error_members.get("code", b"")) != b"%d" % INVALID_PARAMS:
            return error
        error_data = raw_json.members(error_members.get("data", Raw(b"{}")))
        named_uri = raw_json.decode_string(error_data.get("uri"))
        if named_uri is None or named_uri != raw_json.decode_string(uri):
            return error
        return raw_json.edit(error, {"code": b"%d" % RESOURCE_NOT_FOUND})
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return error


def _is_object_schema(schema: Raw) -> bool:
    if bytes(schema)[:1] != b"{":
        return False
    kind = raw_json.members(schema).get("type")
    return kind is not None and bytes(kind) == b'"object"'


def _expand_boolean_schemas(schema: bytes) -> bytes:
    """Replace boolean property schemas by objects: legacy clients expect objects."""
    raw = raw_json.members(schema).get("properties")
    if raw is None:
        return schema
    fields = raw_json.members(raw)
    expanded = {
        name: _BOOLEAN_SCHEMAS[bytes(rule)]
        for name, rule in fields.items()
        if bytes(rule) in _BOOLEAN_SCHEMAS
    }
    if not expanded:
        return schema
    return raw_json.edit(schema, {"properties": raw_json.edit(bytes(raw), expanded)})


def remove_modern_members(result: bytes) -> bytes:
    """Remove the members and `_meta` keys that only modern results have."""
    if not raw_json.members(result).keys().isdisjoint(MODERN_RESULT_MEMBERS):
        result = raw_json.edit(result, dict.fromkeys(MODERN_RESULT_MEMBERS))
    return meta.edit_meta(result, {meta.SERVER_INFO: None})


def _downgrade_structured_content(result: bytes, revision: Revision) -> bytes:
    """Downgrade structured content: once it had to be an object, later it may be any value.

    Removed content must be found in a text block: one with the same JSON value, or, for clients
    that never knew structured content, any text the server has written.
    """
    result_members = raw_json.members(result)
    value = result_members.get("structuredContent")
    if value is None or (revision.structured and bytes(value)[:1] == b"{"):
        return result
    changes: dict[str, bytes | None] = {"structuredContent": None}
    blocks = msgspec.json.decode(result_members.get("content", Raw(b"[]")), type=list[Raw])
    if not (
        _any_block_holds(blocks, value)
        if revision.structured
        else any(_is_text_block(block) for block in blocks)
    ):
        blocks.append(Raw(_text_block(bytes(value).decode())))
        changes["content"] = b"[%b]" % b",".join(map(bytes, blocks))
    return raw_json.edit(result, changes)


def _is_text_block(block: Raw) -> bool:
    if bytes(block)[:1] != b"{":
        return False
    return raw_json.decode_string(raw_json.members(block).get("type")) == "text"


def _any_block_holds(blocks: Iterable[Raw], value: Raw) -> bool:
    """Whether a text block holds this value as JSON."""
    wanted = _decode_json(value)
    if wanted is _NO_VALUE:
        return False
    return any(_decode_text_block(block) == wanted for block in blocks)


def _decode_text_block(block: Raw) -> object:
    """The value that a text block holds as JSON; `_NO_VALUE` if it holds none."""
    if bytes(block)[:1] != b"{":
        return _NO_VALUE
    message = raw_json.decode_string(raw_json.members(block).get("text"))
    return _NO_VALUE if message is None else _decode_json(message)


_NO_VALUE: Final = object()


def _decode_json(document: str | Raw) -> object:
    try:
        return msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _NO_VALUE


def _edit_list(holder: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    raw = raw_json.members(holder).get(name)
    if raw is None:
        return holder
    items = [bytes(item) for item in msgspec.json.decode(raw, type=list[Raw])]
    changed = [change(item) for item in items]
    if changed == items:
        return holder
    return raw_json.edit(holder, {name: b"[%b]" % b",".join(changed)})


def _downgrade_prompt_message(message: bytes, revision: Revision) -> bytes:
    content = raw_json.members(message).get("content")
    if content is None:
        return message
    return raw_json.edit(message, {"content": _downgrade_block(bytes(content), revision)})


def _downgrade_block(block: bytes, revision: Revision) -> bytes:
    """Convert a content block that the revision does not have."""
    block_members = raw_json.members(block)
    kind = raw_json.decode_string(block_members.get("type"))
    if kind is None or kind in FIRST_CONTENT or kind in revision.content:
        return block
    converted = _BLOCK_CONVERTERS.get(kind, _unknown_to_text)(block_members, block)
    # All kinds of content have annotations.
    annotations = block_members.get("annotations")
    return (
        converted
        if annotations is None
        else raw_json.edit(converted, {"annotations": bytes(annotations)})
    )


def _audio_to_resource(block_members: dict[str, Raw], block: bytes) -> bytes:
    """Audio becomes an embedded resource with a media type."""
    resource_members = [("uri", b'"attachment:audio"')]
    resource_members += (
        [("mimeType", bytes(block_members["mimeType"]))] if "mimeType" in block_members else []
    )
    resource_members.append(("blob", bytes(block_members.get("data", b'""'))))
    return raw_json.encode_object(
        [("type", b'"resource"'), ("resource", raw_json.encode_object(resource_members))]
    )


def _link_to_text(block_members: dict[str, Raw], block: bytes) -> bytes:
    name = raw_json.decode_string(block_members.get("title")) or raw_json.decode_string(
        block_members.get("name")
    )
    uri = raw_json.decode_string(block_members.get("uri")) or ""
    return _text_block(f"{name}: {uri}" if name else uri)


def _unknown_to_text(block_members: dict[str, Raw], block: bytes) -> bytes:
    """A block of an unknown kind becomes text, if it is short."""
    kind = raw_json.decode_string(block_members["type"])
    if len(block) <= INLINE_TEXT_BYTES_MAX:
        return _text_block(f"Content of type {kind!r}: {block.decode()}")
    return _text_block(
        f"Content of type {kind!r}, {len(block)} bytes, which this client cannot take"
    )


_BLOCK_CONVERTERS: Final[dict[str, Callable[[dict[str, Raw], bytes], bytes]]] = {
    "audio": _audio_to_resource,
    "resource_link": _link_to_text,
}


def _text_block(message: str) -> bytes:
    return raw_json.encode_object([("type", b'"text"'), ("text", raw_json.encode_string(message))])


# Questions of servers. One that would lose its meaning is not asked: its server gets an error and
# can do without.

ELICITATION_ID_BYTES: Final = 16
"""Size of a generated elicitation id."""

_LATER_CONTENT: Final = frozenset({"tool_use", "tool_result"})
_URL: Final = b'"url"'


def downgrade_question_params(method: str, params: bytes, revision: Revision) -> bytes | None:
    """Downgrade the params of a question; None if the revision cannot express it.

    Unchanged params keep their bytes. Invalid params are left for the client to judge.
    """
    try:
        if meta.PREFIX.encode() in params:
            # Keys of modern messages are valid for one hop.
            params = meta.edit_meta(params, dict.fromkeys(meta.HOP_KEYS))
        if method == "elicitation/create":
            return _downgrade_elicitation(params, revision)
        if method == "sampling/createMessage" and not revision.rich_sampling:
            return _downgrade_sampling(params, revision)
    except (msgspec.DecodeError, raw_json.AmbiguousObject):
        return params
    return params


def explain_inexpressible(method: str, revision: Revision) -> str:
    """The error for a server whose question the client's revision cannot express."""
    client = f"The client speaks MCP {revision.name}, which has no way to ask this"
    return f"{client}: {_LATER_FEATURES[method]}" if method in _LATER_FEATURES else client


_LATER_FEATURES: Final = {
    "elicitation/create": (
        "elicitation by URL and fields that take several choices came with 2025-11-25, "
        "elicitation itself with 2025-06-18"
    ),
    "sampling/createMessage": "tools and several blocks in a message came with 2025-11-25",
}


def _downgrade_elicitation(params: bytes, revision: Revision) -> bytes | None:
    if not revision.elicitation:
        return None
    param_members = raw_json.members(params)
    if bytes(param_members.get("mode", b"")) == _URL:
        if not revision.rich_forms:
            return None
        return (
            params
            if "elicitationId" in param_members
            else _add_elicitation_id(params, param_members)
        )
    if revision.rich_forms:
        return params
    changes: dict[str, bytes | None] = {"mode": None, "task": None}
    schema = param_members.get("requestedSchema")
    if schema is not None:
        form = _downgrade_form(bytes(schema))
        if form is None:
            return None
        changes["requestedSchema"] = form
    return raw_json.edit(params, changes)


def _add_elicitation_id(params: bytes, param_members: dict[str, Raw]) -> bytes:
    """Add the id that the revision requires and modern servers leave out: one per URL."""
    address = bytes(param_members.get("url", b""))
    id = blake2b(address, digest_size=ELICITATION_ID_BYTES).hexdigest()
    return raw_json.edit(params, {"elicitationId": raw_json.encode_string(id)})


def _downgrade_form(schema: bytes) -> bytes | None:
    """Reduce a form to plain fields. A multiple-choice field is removed if it is optional."""
    schema_members = raw_json.members(schema)
    fields = raw_json.members(schema_members.get("properties", Raw(b"{}")))
    required_names: Any = msgspec.json.decode(schema_members.get("required", Raw(b"[]")))
    listed = required_names if isinstance(required_names, list) else ()
    required = {name for name in listed if isinstance(name, str)}
    plain: dict[str, bytes | None] = {}
    for name, field in fields.items():
        plain[name] = _downgrade_field(bytes(field))
        if plain[name] is None and name in required:
            return None
    if fields and not any(plain.values()):
        return None
    changes: dict[str, bytes | None] = {"$schema": None}
    if "properties" in schema_members:
        changes["properties"] = raw_json.edit(bytes(schema_members["properties"]), plain)
    return raw_json.edit(schema, changes)


def _downgrade_field(field: bytes) -> bytes | None:
    """Remove default and titles of choices from a field; None for multiple choice."""
    field_members = raw_json.members(field)
    kind = raw_json.decode_string(field_members.get("type"))
    if kind == "array":
        return None
    changes: dict[str, bytes | None] = {}
    if kind != "boolean" and "default" in field_members:
        changes["default"] = None
    titled: Any = msgspec.json.decode(field_members.get("oneOf", Raw(b"null")))
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        values = [one["const"] for one in titled]
        names = [str(one.get("title", one["const"])) for one in titled]
        changes["oneOf"] = None
        changes["enum"] = msgspec.json.encode(values)
        changes["enumNames"] = msgspec.json.encode(names)
    return raw_json.edit(field, changes) if changes else field


def _downgrade_sampling(params: bytes, revision: Revision) -> bytes | None:
    param_members = raw_json.members(params)
    if bytes(param_members.get("tools", b"[]")) not in (b"[]", b"null"):
        return None
    changes: dict[str, bytes | None] = dict.fromkeys(("tools", "toolChoice", "task"))
    messages = msgspec.json.decode(param_members.get("messages", Raw(b"[]")), type=list[Raw])
    converted = [_downgrade_sampling_message(bytes(message), revision) for message in messages]
    if "messages" in param_members:
        if any(message is None for message in converted):
            return None
        changes["messages"] = b"[%b]" % b",".join(message for message in converted if message)
    return raw_json.edit(params, changes)


def _downgrade_sampling_message(message: bytes, revision: Revision) -> bytes | None:
    """Reduce a message to one block; None if it has more, or a later kind of content."""
    content = raw_json.members(message).get("content")
    if content is None:
        return message
    block = bytes(content)
    if block[:1] == b"[":
        blocks = msgspec.json.decode(content, type=list[Raw])
        if len(blocks) != 1:
            return None
        block = bytes(blocks[0])
    kind = raw_json.decode_string(raw_json.members(block).get("type"))
    if kind in _LATER_CONTENT or kind in revision.missing_content:
        return None
    return message if block == bytes(content) else raw_json.edit(message, {"content": block})
