"""What a filter can ask of an event: one row for each key.

The table says where the answer stands in an event and which values may be asked for. It knows
neither how a filter is written nor how an event is compared with one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from anyport.protocol.revision import Era
from anyport.record.event import KINDS, Status

ValueKind: TypeAlias = Literal[
    "name", "start", "word", "text", "duration", "bytes", "code", "moment"
]
"""How the values of a key are read, and what a plain one means:

- `name`: the whole text, or a glob
- `start`: the beginning of the text, or a glob of the whole
- `word`: one of `Key.words`, or a glob
- `text`: a part of any text of the event, upper and lower case alike
- `duration`, `bytes`: a number of milliseconds or bytes, a comparison or a range
- `code`: a whole number, a comparison or a range; or a word, or a glob
- `moment`: a point in time
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing that can be asked for."""

    meaning: str
    where: tuple[str, ...]
    """Members of the event, `metadata.server` being one of `metadata`. Any of them may match; of
    numbers the largest counts."""
    kind: ValueKind
    words: tuple[str, ...] = ()
    """Of a `word`: what it may be."""


TYPE_PREFIX: Final = "gateway."
"""Every type of event begins so, and a filter need not say it."""

TRANSPORTS: Final = ("stdio", "streamable-http", "sse", "auto", "hook", "command")
"""Of servers and clients; the last two are how a hook and a command of ours ask the gateway."""
FRAME_KINDS: Final = (
    *("request", "response", "client-notification", "server-notification"),
    *("server-request", "client-response", "stderr", "not-json-rpc"),
)
LONE_KINDS: Final = FRAME_KINDS[1:]
"""What may belong to no exchange. A request always is one; an answer may be one to nothing."""
OUTCOMES: Final = ("ok", "tool_error", "server_error", "gateway_error", "cancelled", "timeout")

EXCHANGE_TYPES: Final = frozenset(
    {
        *("gateway.tool_call", "gateway.resource_read"),
        *("gateway.prompt_get", "gateway.exchange"),
    }
)
"""Events that tell of a request."""

IMPLIED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "method": {
            "gateway.tool_call": "tools/call",
            "gateway.resource_read": "resources/read",
            "gateway.prompt_get": "prompts/get",
        },
        "kind": {"gateway.stderr": "stderr"} | dict.fromkeys(EXCHANGE_TYPES, "exchange"),
        "side": {"gateway.stderr": "server"},
    }
)
"""For each key, what an event of a type says by being one, where it has no member for it."""

ENDED: Final[Mapping[str, str]] = MappingProxyType(
    {"success": "ok", "cancelled": "cancelled", "timeout": "timeout"}
)
"""What the status of an exchange says of its outcome, where there is no member for it. A failure
without a code is a `tool_error`; of one with a code nobody knows whose it was."""

WORDS_FOR: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {"status": {"ok": ("success",), "error": ("failure", "timeout")}}
)
"""For each key, words that stand for others."""

_TARGETS: Final = ("metadata.tool", "metadata.prompt", "metadata.uri")
_SIZES: Final = (
    *("metadata.params_bytes", "metadata.sent_bytes", "metadata.answer_bytes"),
    *("metadata.result_bytes", "metadata.bytes"),
)


def _of(name: str) -> tuple[str, ...]:
    """A member of each side, and of an event that has only one."""
    return (f"metadata.client_{name}", f"metadata.server_{name}", f"metadata.{name}")


def _name(meaning: str, *where: str) -> Key:
    return Key(meaning=meaning, where=where, kind="name")


def _start(meaning: str, where: str) -> Key:
    return Key(meaning=meaning, where=(where,), kind="start")


def _word(meaning: str, where: tuple[str, ...], words: tuple[str, ...]) -> Key:
    return Key(meaning=meaning, where=where, kind="word", words=words)


def _duration(meaning: str, where: str) -> Key:
    return Key(meaning=meaning, where=(where,), kind="duration")


def _moment(meaning: str) -> Key:
    return Key(meaning=meaning, where=("timestamp",), kind="moment")


KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "server": _name("the server's slug", "metadata.server"),
        "profile": _name("the profile", "metadata.profile"),
        "method": _name("the MCP method", "metadata.method"),
        "tool": _name(
            "the tool, by its native or its public name", "metadata.tool", "metadata.public_name"
        ),
        "prompt": _name("the prompt, by either name", "metadata.prompt", "metadata.public_name"),
        "uri": _name("the resource, by either URI", "metadata.uri", "metadata.public_name"),
        "target": _name("tool, prompt or resource", *_TARGETS, "metadata.public_name"),
        "client": _start("name and version of the client", "metadata.client"),
        "principal": _name("whose token it was", "metadata.principal"),
        "session": _name("the journal's word for the session", "metadata.session"),
        "type": _word("the type of the event", ("event_type",), tuple(KINDS)),
        "kind": _word(
            "what the frame is; or `exchange`", ("metadata.kind",), (*LONE_KINDS, "exchange")
        ),
        "side": _word(
            "whose conversation the frame was in", ("metadata.side",), ("client", "server")
        ),
        "outcome": _word("how the exchange ended", ("metadata.outcome",), OUTCOMES),
        "code": Key(meaning="the code of the error", where=("error_code",), kind="code"),
        "status": _word("how it went", ("status",), get_args(Status)),
        "era": _word(
            "the era of either side",
            (*_of("revision"), "metadata.era"),
            tuple(era.value for era in Era),
        ),
        "revision": _name("the revision of either side", *_of("revision")),
        "transport": _word("the transport of either side", _of("transport"), TRANSPORTS),
        "trace": _start("the trace id", "trace_id"),
        "id": _start("the exchange's or frame's own id", "metadata.span_id"),
        "text": Key(
            meaning="words in the error message or in a text of the metadata",
            where=("error_message", "metadata"),
            kind="text",
        ),
        "dur": _duration("how long it took", "duration_ms"),
        "queue": _duration("how much of that was waiting for its turn", "metadata.queue_ms"),
        "wait": _duration("how much of it was waiting for the server", "metadata.server_ms"),
        "size": Key(
            meaning="the largest of its params, result or frame", where=_SIZES, kind="bytes"
        ),
        "since": _moment("not before"),
        "until": _moment("before"),
    }
)
"""Every key, in the order of the documentation."""
