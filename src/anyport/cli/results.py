"""Tool results and progress as text for a terminal."""

import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from anyport.cli.output import clean
from anyport.record.redact.escape import cut, escape_line, make_printable

LINE_CHARS_MAX: Final = 79
"""A line that wraps cannot be overwritten, and every terminal has 80 columns."""

_ERASE_LINE: Final = "\r\x1b[K"


class ProgressLine:
    """Progress of a call on stderr: a line that changes, plain lines, or nothing."""

    def __init__(self, write: Callable[[str], object], *, terminal: bool, verbose: bool) -> None:
        self._write = write
        self._overwrites = terminal and not verbose
        self._verbose = verbose
        self._shown = False

    @classmethod
    def on_stderr(cls, *, verbose: bool) -> "ProgressLine":
        return cls(_write, terminal=sys.stderr.isatty(), verbose=verbose)

    def update(self, params: dict[str, Any]) -> None:
        """Show the params of a `notifications/progress`."""
        if self._overwrites:
            self._shown = True
            self._write(f"{_ERASE_LINE}{cut(progress_text(params), LINE_CHARS_MAX)}")
        elif self._verbose:
            self._write(f"{progress_text(params)}\n")

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            self._shown = False
            self._write(_ERASE_LINE)


def progress_text(params: dict[str, Any]) -> str:
    """A percentage if the total is known, and the server's message."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    text = "working"
    if isinstance(progress, int | float):
        text = f"{progress:g}"
        if isinstance(total, int | float) and total > 0:
            text = f"{min(100, max(0, round(100 * progress / total)))} %"
    return text if not message else f"{text}  {make_printable(str(message))}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


Block: TypeAlias = dict[str, Any]


def render_result(result: dict[str, Any]) -> Iterator[str]:
    """The content blocks and the structured content, each as one or more lines."""
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    structured = result.get("structuredContent")
    for block in blocks:
        # MCP 2025-06-18, tools: structured content SHOULD also be returned as serialized text.
        if structured is None or not _is_same_as(block, structured):
            yield _render_block(block)
    if structured is not None:
        pretty = msgspec.json.format(msgspec.json.encode(structured), indent=2)
        yield escape_line(pretty).decode()


def first_binary(result: dict[str, Any]) -> bytes | None:
    """The bytes of the first image, audio or binary resource."""
    for block in result.get("content") or ():
        content = _decode_binary(block) if isinstance(block, dict) else None
        if content is not None:
            return content
    return None


def format_bytes(count: int) -> str:
    """A size in bytes, kB or MB."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _render_block(block: Block) -> str:
    kind = block.get("type")
    resource = block.get("resource")
    if kind == "text":
        return clean(str(block.get("text", "")))
    if kind == "resource" and isinstance(resource, dict):
        if "text" in resource:
            return clean(str(resource["text"]))
        return _describe_binary(
            resource.get("mimeType"), _decode_binary(block), resource.get("uri")
        )
    if kind == "resource_link":
        return make_printable(
            f"[link: {block.get('title') or block.get('name')} {block.get('uri')}]"
        )
    binary = _decode_binary(block)
    if binary is not None:
        return _describe_binary(block.get("mimeType"), binary, None)
    return make_printable(f"[content of type {kind}]")


def _describe_binary(media_type: object, content: bytes | None, uri: object) -> str:
    parts = [str(media_type or "binary"), format_bytes(len(content or b""))]
    if uri is not None:
        parts.append(str(uri))
    return make_printable(f"[{' '.join(parts)}]")


def _decode_binary(block: Block) -> bytes | None:
    resource = block.get("resource")
    encoded = resource.get("blob") if isinstance(resource, dict) else block.get("data")
    if not isinstance(encoded, str):
        return None
    try:
        return b64decode(encoded)
    except ValueError:
        return b""


def _is_same_as(block: Block, structured: Any) -> bool:
    try:
        return bool(msgspec.json.decode(str(block.get("text"))) == structured)
    except msgspec.DecodeError:
        return False
