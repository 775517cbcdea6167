"""Elicitation: validation of answers, and which URLs a user may be asked to open."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from anyport.wire import raw_json

# Validation of a client's answer. An answer that does not fit is asked for again. Forms have the
# few primitive types that MCP allows; anything else in a schema is the server's own business.

Json = Mapping[str, Any]

_ACTIONS: Final = ("accept", "decline", "cancel")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def is_valid_answer(method: str, params: bytes | None, answer: bytes) -> bool:
    """Whether a raw answer may be passed to the server that asked."""
    answer_members = _decode_object(answer)
    if answer_members is None:
        return False
    if method == "roots/list":
        return isinstance(answer_members.get("roots"), list)
    if method != "elicitation/create":
        return True
    if answer_members.get("action") not in _ACTIONS:
        return False
    param_members = _decode_object(params or b"{}") or {}
    schema = param_members.get("requestedSchema")
    if answer_members["action"] != "accept" or not isinstance(schema, dict):
        return True
    content = answer_members.get("content", {})
    return isinstance(content, dict) and _is_valid_form(schema, content)


def _is_valid_form(schema: Json, content: Json) -> bool:
    required = schema.get("required")
    if isinstance(required, list) and not all(name in content for name in required):
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return True
    return all(
        _is_valid_value(field_schema, content[name])
        for name, field_schema in properties.items()
        if name in content and isinstance(field_schema, dict)
    )


def _is_valid_value(schema: Json, value: Any) -> bool:
    types = _TYPES.get(str(schema.get("type")))
    if types is not None and not _has_type(value, types):
        return False
    choices = _choices(schema)
    if choices is not None:
        return value in choices
    if isinstance(value, str):
        return _is_in_range(len(value), schema, "minLength", "maxLength")
    if isinstance(value, list):
        items = schema.get("items")
        each = not isinstance(items, dict) or all(_is_valid_value(items, item) for item in value)
        return each and _is_in_range(len(value), schema, "minItems", "maxItems")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _is_in_range(value, schema, "minimum", "maximum")
    return True


def _has_type(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    whole = isinstance(value, float) and value.is_integer() and int in types
    return isinstance(value, types) or whole


def _choices(schema: Json) -> Sequence[Any] | None:
    """The allowed values, with or without titles."""
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    titled = schema.get("oneOf", schema.get("anyOf"))
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        return [one["const"] for one in titled]
    return None


def _is_in_range(size: float, schema: Json, minimum_key: str, maximum_key: str) -> bool:
    low, high = schema.get(minimum_key), schema.get(maximum_key)
    if isinstance(low, int | float) and size < low:
        return False
    return not (isinstance(high, int | float) and size > high)


def _decode_object(raw: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


URL_CHARACTERS_MAX: Final = 8192
"""No browser needs longer URLs."""

_URL_CHARACTERS: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
"""Visible ASCII without the backslash, which browsers read as a slash."""
_PUBLIC_HOST: Final = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?"
)
"""With a top level that is not numeric: numbers in all spellings are IP addresses."""
_PRIVATE_SUFFIXES: Final = (
    "local",
    "localhost",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "localdomain",
    "home.arpa",
)
"""Suffixes of names with a meaning in one network only (RFC 6762, appendix G, and customary)."""
_LOOPBACK_NAME: Final = "localhost"


def explain_unsafe_url(url: str, *, local: bool) -> str | None:
    """Why a user is not asked to open this URL. `local` means that the server runs on this machine.

    A server must not use the browser to reach into the user's machine or network: the URL has to be
    one that anybody on the internet could open.
    """
    if len(url) > URL_CHARACTERS_MAX or not _URL_CHARACTERS.fullmatch(url):
        return "it is no plain URL"
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return "it is no plain URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it is no web address"
    if "@" in parts.netloc:
        return "it carries a user name"
    address = _parse_ip(host)
    if host == _LOOPBACK_NAME or (address is not None and address.is_loopback):
        return None if local else "it leads into this machine"
    if address is not None:
        is_public = address.is_global and not address.is_multicast
    else:
        is_public = _PUBLIC_HOST.fullmatch(host) is not None and not host.endswith(
            tuple(f".{name}" for name in _PRIVATE_SUFFIXES)
        )
    if not is_public:
        return "it leads into a private network"
    return None if parts.scheme == "https" else "it is not https"


def is_url_elicitation(method: str, params: bytes | None) -> bool:
    """Whether a question asks the user to open a URL."""
    if method != "elicitation/create" or params is None or params[:1] != b"{":
        return False
    return raw_json.decode_string(raw_json.members(params).get("mode")) == "url"


def explain_unsafe_question(method: str, params: bytes | None, *, local: bool) -> str | None:
    """Why a question is not asked: it wants an unsafe URL opened."""
    if params is None or not is_url_elicitation(method, params):
        return None
    return explain_unsafe_url(
        raw_json.decode_string(raw_json.members(params).get("url")) or "", local=local
    )


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if inner is None else inner
