"""A tool's result for people: texts as text, everything else described."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from anyport.cli.render import clean
from anyport.record.text import escape_line, printable

Block: TypeAlias = dict[str, Any]


def shown(result: dict[str, Any]) -> Iterator[str]:
    """The parts of a result, each one or more lines."""
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    structured = result.get("structuredContent")
    for block in blocks:
        # A structured result comes again as text, for clients that know no better.
        if structured is None or not _says(block, structured):
            yield _shown_block(block)
    if structured is not None:
        pretty = msgspec.json.format(msgspec.json.encode(structured), indent=2)
        yield escape_line(pretty).decode()


def first_binary(result: dict[str, Any]) -> bytes | None:
    """The bytes of the first picture, sound or other file that is no text."""
    for block in result.get("content") or ():
        found = _binary(block) if isinstance(block, dict) else None
        if found is not None:
            return found
    return None


def size(count: int) -> str:
    """A number of bytes, short."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _shown_block(block: Block) -> str:
    kind = block.get("type")
    resource = block.get("resource")
    if kind == "text":
        return clean(str(block.get("text", "")))
    if kind == "resource" and isinstance(resource, dict):
        if "text" in resource:
            return clean(str(resource["text"]))
        return _described(resource.get("mimeType"), _binary(block), resource.get("uri"))
    if kind == "resource_link":
        return printable(f"[link: {block.get('title') or block.get('name')} {block.get('uri')}]")
    binary = _binary(block)
    if binary is not None:
        return _described(block.get("mimeType"), binary, None)
    return printable(f"[content of the type {kind}]")


def _described(media_type: object, content: bytes | None, uri: object) -> str:
    parts = [str(media_type or "binary"), size(len(content or b""))]
    if uri is not None:
        parts.append(str(uri))
    return printable(f"[{' '.join(parts)}]")


def _binary(block: Block) -> bytes | None:
    resource = block.get("resource")
    encoded = resource.get("blob") if isinstance(resource, dict) else block.get("data")
    if not isinstance(encoded, str):
        return None
    try:
        return b64decode(encoded)
    except ValueError:
        return b""


def _says(block: Block, structured: Any) -> bool:
    try:
        return bool(msgspec.json.decode(str(block.get("text"))) == structured)
    except msgspec.DecodeError:
        return False
