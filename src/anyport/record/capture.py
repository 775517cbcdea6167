"""Traffic capture: what the record keeps of an exchange besides the fact that it happened.

The level `off` adds nothing; `shape` adds keys, types, sizes and hashes of the payloads; `full`
adds the redacted payloads themselves, in files of their own.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from anyport.config.model import Capture, Config
from anyport.protocol.exchange import Exchange
from anyport.protocol.methods import RoutingRule
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.request import TOOLS_CALL
from anyport.protocol.transcript import FrameKind, Side, Transcript, TranscriptFrame
from anyport.record.event import METADATA_ENTRIES_MAX, MetadataValue
from anyport.record.journal.payloads import PayloadWriter
from anyport.record.redact.budget import LoopBudget, RedactionBudget
from anyport.record.redact.escape import cut, escape_line
from anyport.record.redact.outline import OutlineBuilder, OutlineDecoders, PayloadDigests
from anyport.record.redact.redactor import Redactor
from anyport.wire import raw_json

METHOD_CHARS_MAX: Final = 128
"""Of a method name that a client may have made up."""

TEXTS_REMEMBERED_MAX: Final = 256
"""Method names whose redacted form is cached."""
PAGES_REMEMBERED_MAX: Final = 16
"""Lists whose shape and hash are cached. Everybody gets the same first page until it changes."""
FRAMES_REMEMBERED_MAX: Final = 4096
"""Kinds of calls whose redaction verdict is cached: one for each tool of each client."""

_encode: Final = msgspec.json.Encoder().encode
_FRAME_START: Final = b'{"kind":"%b","side":"%b","ms":%b,"method":"tools/call"'
_PAYLOAD_MEMBER: Final = b',"payload":%b}'
_PLAIN_FRAMES: Final = b",".join(
    (
        b'{"span_id":"%b","timestamp":"%b","frames":['
        + _FRAME_START % (b"request", b"client", b"0.000")
        + _PAYLOAD_MEMBER,
        _FRAME_START % (b"request", b"server", b"0.000") + _PAYLOAD_MEMBER,
        _FRAME_START % (b"response", b"server", b"%.3f") + _PAYLOAD_MEMBER,
        _FRAME_START % (b"response", b"client", b"%.3f"),
    )
)
_PLAIN_LINE: Final = _PLAIN_FRAMES + _PAYLOAD_MEMBER + b"]}"
"""The line of a call that is only a request and an answer and needs no redaction."""
_PLAIN_SAME_LINE: Final = _PLAIN_FRAMES + b',"same":true}]}'


class FinishedFastCall(Protocol):
    """A call on the fast path that has its result."""

    started: float
    queued: float
    transcript: Transcript | None
    """Transcript of a call that had frames between request and answer."""

    @property
    def principal(self) -> Principal: ...

    def request_sizes(self) -> tuple[bytes, int, int]:
        """The arguments, the size of the client's params, and of those sent to the server."""

    def raw_params(self) -> tuple[bytes, bytes]:
        """The client's params, and those sent to the server."""

    def params_without_arguments(self) -> tuple[bytes, bytes]:
        """The same with the arguments left out."""

    @property
    def kind(self) -> tuple[bytes, bytes] | None:
        """What all calls of this kind have in common; None if they share nothing but the
        arguments."""


class FastAnswer(msgspec.Struct, frozen=True, gc=False):
    """The answer to such a call."""

    arguments: bytes
    result: bytes
    """From the server."""
    answer: bytes
    """The whole frame for the client."""
    size: int
    """Of the result in that frame."""
    waited: float
    """Seconds spent waiting for the server."""


class TrafficCapture:
    """Turns transcripts into metadata of events, and into lines of payload files."""

    def __init__(
        self,
        config: Config,
        redact: Redactor,
        payloads: PayloadWriter,
        digests: PayloadDigests,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`call_soon` schedules a callback for the next turn of the event loop."""
        self._redact = redact
        self.payloads = payloads
        self._loop_budget = LoopBudget(call_soon)
        """Redaction work that is left for this turn of the loop."""
        self.outline_decoders = OutlineDecoders(OutlineBuilder(redact))
        self.outline = self.outline_decoders.outline
        self.digest = digests.digest
        self._levels: dict[tuple[str, str], Capture] = {}
        self._method_texts: dict[str, bytes] = {}
        self._payload_file: str | None = None
        self._payload_file_member = b""
        """The name of the current payload file, and the same as a JSON member."""
        self._lists: dict[bytes, tuple[str, str]] = {}
        """Shape and hash of recent lists."""
        self._clean_kinds: dict[tuple[bytes, bytes], bool] = {}
        """Whether the common part of a kind of call is free of secrets."""
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Apply a configuration from now on."""
        self._config = config
        self._levels.clear()
        self._clean_kinds.clear()  # There may be new secrets.
        self._lists.clear()
        levels = {
            config.record.capture,
            *(server.capture for server in config.servers.values()),
            *(profile.capture for profile in config.profiles.values()),
        }
        self.is_enabled = levels - {None} != {"off"}
        """Whether any capture level is above `off`."""
        self.keeps_payloads = "full" in levels
        """Whether transcripts have to keep payloads until their exchange ends."""

    def level_of(self, profile: str, server: str) -> Capture:
        """The level for a client of a profile and a server."""
        level = self._levels.get((profile, server))
        if level is None:
            level = self._config.capture(profile, server)
            self._levels[profile, server] = level
        return level

    def captured_metadata(self, exchange: Exchange, level: Capture) -> dict[str, MetadataValue]:
        """The metadata of an exchange that has ended."""
        transcript = exchange.transcript
        if level == "off" or transcript is None:
            return {}
        subject = subject_of(exchange)
        answer = (
            transcript.client_answer
            if transcript.server_answer is None
            else transcript.server_answer
        )
        metadata: dict[str, MetadataValue] = {
            "params_bytes": len(client_params(exchange)),
            "params_shape": self.shape(subject),
            "params_hash": self.hash(subject),
        }
        if transcript.sent_params is not None:
            metadata["sent_bytes"] = len(transcript.sent_params)
            metadata["server_ms"] = round(transcript.server_seconds * 1000, 3)
            if transcript.queued_seconds:
                metadata["queue_ms"] = round(transcript.queued_seconds * 1000, 3)
        if transcript.server_answer is not None:
            metadata["answer_bytes"] = len(transcript.server_answer)
        if answer is not None:
            if exchange.method.routing is RoutingRule.MERGE:
                metadata["result_shape"], metadata["result_hash"] = self._list_shape_and_hash(
                    answer
                )
            else:
                metadata["result_shape"] = self.shape(answer)
                metadata["result_hash"] = self.hash(answer)
        if transcript.client_answer is not None:
            metadata["result_bytes"] = len(transcript.client_answer)
        texts = frame_texts(transcript, exchange.started_at)
        if texts:
            metadata["frames"] = texts[:METADATA_ENTRIES_MAX]
        more = transcript.omitted_frames + max(0, len(texts) - METADATA_ENTRIES_MAX)
        if more:
            metadata["frames_more"] = more
        return metadata

    def _list_shape_and_hash(self, raw: bytes) -> tuple[str, str]:
        """Shape and hash of a list, cached by its bytes until it changes."""
        known = self._lists.get(raw)
        if known is None:
            if len(self._lists) >= PAGES_REMEMBERED_MAX:
                self._lists.clear()
            known = self._lists[raw] = self.shape(raw), self.hash(raw)
        return known

    def store_exchange(self, exchange: Exchange, moment: bytes) -> str | None:
        """Add the payloads of an exchange to a payload file; returns the file's name."""
        transcript = exchange.transcript
        if transcript is None:
            return None
        if not self.payloads.accepts_bytes(_payload_bytes(exchange, transcript)):
            return None
        budget = self._loop_budget.allot()
        started, method = exchange.started_at, exchange.method.name
        params = client_params(exchange)
        steps: list[tuple[float, bytes]] = []
        if transcript.first_params is not None:
            # Later requests of the same exchange, with more input, are among the transcript's
            # frames.
            at, first = transcript.sent_at, transcript.first_params
            ms, same = (at - started) * 1000, first == params
            frame = self.encode_frame(
                "request", "server", method, first, ms, same=same, budget=budget
            )
            steps.append((at, frame))
        steps += self._intermediate_frames(transcript, started, budget)
        if transcript.server_answer is not None:
            at, payload, failed = (
                transcript.answered_at,
                transcript.server_answer,
                transcript.server_failed,
            )
            ms = (at - started) * 1000
            frame = self.encode_frame(
                "response", "server", method, payload, ms, failed=failed, budget=budget
            )
            steps.append((at, frame))
        # By time: a client that answers a question may come back after the server has answered.
        steps.sort(key=lambda step: step[0])
        opening = self.encode_frame("request", "client", method, params, budget=budget)
        frames = [opening, *(frame for _, frame in steps)]
        if transcript.client_answer is not None:
            ms, same = (
                (transcript.client_answered_at - started) * 1000,
                transcript.client_answer == transcript.server_answer,
            )
            payload, failed = transcript.client_answer, transcript.client_failed
            frame = self.encode_frame(
                "response",
                "client",
                method,
                payload,
                ms,
                failed=failed,
                same=same,
                budget=budget,
            )
            frames.append(frame)
        self._loop_budget.charge(budget)
        principal = exchange.caller.principal
        return self.store_frames(
            exchange.span_id.encode(), moment, token_subject(principal), frames
        )

    def store_frames(
        self, span_id: bytes, moment: bytes, principal: str | None, frames: Sequence[bytes]
    ) -> str | None:
        """Add encoded frames to a payload file; returns the file's name, or None if there is no
        room."""
        place = self.payloads.next_file_name()
        principal_member = (
            b"" if principal is None else b',"principal":%b' % raw_json.encode_string(principal)
        )
        line = b'{"span_id":"%b","timestamp":"%b"%b,"frames":[%b]}' % (
            span_id,
            moment,
            principal_member,
            b",".join(frames),
        )
        return place if self.payloads.add(escape_line(line)) else None

    def extra_members(
        self,
        level: Capture,
        call: FinishedFastCall,
        ids_and_time: tuple[bytes, bytes],
        answer: FastAnswer,
    ) -> bytes:
        """Members that few calls on the fast path have; `ids_and_time` are its span id and its
        time."""
        more = b',"queue_ms":%.3f' % (call.queued * 1000) if call.queued else b""
        if call.transcript is not None:
            texts = frame_texts(call.transcript, call.started)
            more += b',"frames":%b' % _encode(texts[:METADATA_ENTRIES_MAX])
            left_out = call.transcript.omitted_frames + max(0, len(texts) - METADATA_ENTRIES_MAX)
            more += b',"frames_more":%d' % left_out if left_out else b""
        if level != "full":
            return more
        params, sent = call.raw_params()
        result, client_result = answer.result, answer.answer[-answer.size - 1 : -1]
        if not self.payloads.accepts_bytes(len(params) + len(sent) + len(result)):
            return more
        ms = (call.queued + answer.waited) * 1000
        principal = token_subject(call.principal)
        budget = self._loop_budget.allot()
        if (
            call.transcript is None
            and principal is None
            and self._has_nothing_to_redact(call, answer, budget)
        ):
            self._loop_budget.charge(budget)
            if client_result == result:
                line = _PLAIN_SAME_LINE % (*ids_and_time, params, sent, ms, result, ms)
            else:
                line = _PLAIN_LINE % (*ids_and_time, params, sent, ms, result, ms, client_result)
            return more + self._store_line(one_line(line))
        frames = [
            self.encode_frame("request", "client", TOOLS_CALL, params, budget=budget),
            self.encode_frame(
                "request", "server", TOOLS_CALL, sent, same=sent == params, budget=budget
            ),
            *(
                frame
                for _, frame in self._intermediate_frames(call.transcript, call.started, budget)
            ),
            self.encode_frame("response", "server", TOOLS_CALL, result, ms, budget=budget),
            self.encode_frame(
                "response",
                "client",
                TOOLS_CALL,
                client_result,
                ms,
                same=client_result == result,
                budget=budget,
            ),
        ]
        self._loop_budget.charge(budget)
        return more + payload_file_member(self.store_frames(*ids_and_time, principal, frames))

    def _store_line(self, line: bytes) -> bytes:
        """Add a line to a payload file; returns the member that names the file."""
        place = self.payloads.next_file_name()
        if place is not self._payload_file:
            self._payload_file, self._payload_file_member = place, payload_file_member(place)
        return self._payload_file_member if self.payloads.add(escape_line(line)) else b""

    def _has_nothing_to_redact(
        self, call: FinishedFastCall, answer: FastAnswer, budget: RedactionBudget
    ) -> bool:
        """Whether neither the call nor its answer has anything to redact.

        The common part of a kind of call is checked once, and payloads that both sides share are
        not checked twice.
        """
        redact, kind = self._redact.redact_payload, call.kind
        arguments, result = answer.arguments, answer.result
        clean = kind is not None and self._clean_kinds.get(kind)
        if kind is not None and clean is None:
            clean = all(redact(side, budget) == side for side in call.params_without_arguments())
            if len(self._clean_kinds) < FRAMES_REMEMBERED_MAX:
                self._clean_kinds[kind] = clean
        return (
            bool(clean)
            and redact(arguments, budget) == arguments
            and redact(result, budget) == result
        )

    def _intermediate_frames(
        self, transcript: Transcript | None, started: float, budget: RedactionBudget
    ) -> list[tuple[float, bytes]]:
        """The frames between request and answer, each with its time."""
        steps: list[tuple[float, bytes]] = []
        before: TranscriptFrame | None = None
        for frame_record in () if transcript is None else transcript.frames:
            kind, side, method = frame_record.kind, frame_record.side, frame_record.method
            payload, failed, ms = (
                frame_record.payload,
                frame_record.failed,
                (frame_record.at - started) * 1000,
            )
            same = (
                frame_record.forwarded
                and before is not None
                and before.payload == payload is not None
            )
            frame = self.encode_frame(
                kind, side, method, payload, ms, failed=failed, same=same, budget=budget
            )
            steps.append((frame_record.at, frame))
            before = frame_record
        return steps

    def encode_frame(  # noqa: PLR0913 - what a frame is
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        ms: float = 0.0,
        *,
        failed: bool = False,
        same: bool = False,
        budget: RedactionBudget | None = None,
    ) -> bytes:
        """Encode a frame, redacted within the budget of its exchange, or one of its own."""
        opening = b'{"kind":"%b","side":"%b","ms":%.3f,"method":%b' % (
            kind.encode(),
            side.encode(),
            ms,
            self.encode_method(method),
        )
        if same:
            return opening + b',"same":true}'
        if payload is None:
            return opening + b"}"
        name = b"error" if failed else b"payload"
        share = budget or self._loop_budget.allot()
        shown = self._redact.redact_payload(payload, share)
        if budget is None:
            self._loop_budget.charge(share)
        return b'%b,"%b":%b}' % (opening, name, one_line(shown))

    def encode_method(self, text: str) -> bytes:
        """A method name as redacted JSON."""
        known = self._method_texts.get(text)
        if known is None:
            known = _encode(self.redact_method(text))
            if len(self._method_texts) < TEXTS_REMEMBERED_MAX:
                self._method_texts[text] = known
        return known

    def redact_method(self, method: str) -> str:
        """A method name without secrets. Redacted before it is cut: half a secret is one, too."""
        return cut(self._redact(method), METHOD_CHARS_MAX)

    def hash(self, raw: bytes) -> str:
        """Keyed hash: equal for equal bytes, meaningless without the key."""
        return self.digest(raw).decode()

    def shape(self, raw: bytes) -> str:
        """Outline of a payload: its keys and types."""
        shape: str = msgspec.json.decode(b'"%b"' % self.outline(raw))
        return shape


def _payload_bytes(exchange: Exchange, transcript: Transcript) -> int:
    """Roughly how many bytes an exchange has to store."""
    payloads = (
        transcript.first_params,
        transcript.server_answer,
        *(each.payload for each in transcript.frames),
    )
    return len(client_params(exchange)) + sum(len(each) for each in payloads if each is not None)


def payload_file_member(file: str | None) -> bytes:
    """The member that names a payload file."""
    return b"" if file is None else b',"payload_file":"%b"' % file.encode()


def client_params(exchange: Exchange) -> bytes:
    """The params of the client's first request, if it came back with answers since."""
    transcript = exchange.transcript
    return (
        exchange.params
        if transcript is None or transcript.original_params is None
        else transcript.original_params
    )


def subject_of(exchange: Exchange) -> bytes:
    """What tells one call from another: the arguments, or else the params without `_meta`."""
    params = client_params(exchange)
    found = exchange.param_members if params is exchange.params else raw_json.members(params)
    arguments = found.get("arguments")
    if arguments is not None:
        return bytes(arguments)
    if "_meta" in found:
        return raw_json.edit(params, {"_meta": None})
    return params


def frame_texts(transcript: Transcript, started: float) -> list[str]:
    """Frames as short texts; a frame and its forwarded copy are one."""
    return [
        frame_text((each.at - started) * 1000, each.kind, each.method, each.size)
        for each in transcript.frames
        if not each.forwarded
    ]


def frame_text(ms: float, kind: str, method: str, size: int) -> str:
    """One frame as a short text, for the metadata of an event."""
    return f"{ms:.3f} {kind} {method or '-'} {size}"


def token_subject(principal: Principal) -> str | None:
    """The owner of the token; None without tokens."""
    return None if principal == LOCAL else principal.subject


def one_line(raw: bytes) -> bytes:
    """JSON without line breaks. Inside strings they are escaped, so these mean nothing."""
    if b"\n" not in raw and b"\r" not in raw:
        return raw
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")
