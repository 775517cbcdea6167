"""What is recorded of the traffic besides that it happened: how much, and in which words.

`off` records nothing more; `shape` records keys, types, sizes and hashes; `full` also the payloads,
redacted, in files of their own. Decides nothing about what happens to a call.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from anyport.config.schema import Capture, Config
from anyport.protocol.exchange import Exchange
from anyport.protocol.passage import Crossing, FrameKind, Passage, Side
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.reading import CALL
from anyport.record.event import METADATA_ENTRIES_MAX, MetadataValue
from anyport.record.likeness import Looks
from anyport.record.outline import Digests, Outlines
from anyport.record.payloads import Payloads
from anyport.record.redact import Redactor
from anyport.record.text import cut, escape_line
from anyport.wire import members

METHOD_CHARS_MAX: Final = 128
"""Of a method that somebody made up."""

TEXTS_REMEMBERED_MAX: Final = 256
"""Names of methods come again and again."""
FRAMES_REMEMBERED_MAX: Final = 4096
"""Kinds of calls that were looked at for secrets; one for each tool of each client."""

_encode: Final = msgspec.json.Encoder().encode
_OPENED: Final = b'{"kind":"%b","side":"%b","ms":%b,"method":"tools/call"'
_PAYLOAD: Final = b',"payload":%b}'
_EXCHANGED: Final = b",".join(
    (
        b'{"span_id":"%b","timestamp":"%b","frames":['
        + _OPENED % (b"request", b"client", b"0.000")
        + _PAYLOAD,
        _OPENED % (b"request", b"server", b"0.000") + _PAYLOAD,
        _OPENED % (b"response", b"server", b"%.3f") + _PAYLOAD,
        _OPENED % (b"response", b"client", b"%.3f"),
    )
)
_PLAIN: Final = _EXCHANGED + _PAYLOAD + b"]}"
"""A call in which nothing happened but question and answer, and nothing has to be redacted."""
_PLAIN_SAME: Final = _EXCHANGED + b',"same":true}]}'


class Trip(Protocol):
    """A call of a known kind that has its result; see `track`."""

    started: float
    queued: float
    passage: Passage | None
    """Where something came between."""

    @property
    def principal(self) -> Principal:
        """Whose call it is."""

    def asked(self) -> tuple[bytes, int, int]:
        """Its arguments, the size of the client's params, and of those the server got."""

    def sides(self) -> tuple[bytes, bytes]:
        """The params as the client wrote them, and as the server got them."""

    def bare(self) -> tuple[bytes, bytes]:
        """The same without its arguments."""

    @property
    def kind(self) -> tuple[bytes, bytes] | None:
        """What is the same in all calls like this one; None if more than arguments is not."""


class Said(msgspec.Struct, frozen=True, gc=False):
    """How such a call was answered."""

    arguments: bytes
    result: bytes
    """The server's."""
    answer: bytes
    """What the client got, whole."""
    size: int
    """Of the result in that."""
    waited: float
    """For the server."""


class Tap:
    """Turns what passed into what is noted of it."""

    def __init__(
        self, config: Config, redact: Redactor, payloads: Payloads, digests: Digests
    ) -> None:
        self._redact = redact
        self.payloads = payloads
        self.looks = Looks(Outlines(redact))
        self.outline = self.looks.outline
        self.digest = digests.of
        self._levels: dict[tuple[str, str], Capture] = {}
        self._texts: dict[str, bytes] = {}
        self._place: str | None = None
        self._place_member = b""
        """Where payloads go now, and that as a member."""
        self._clean: dict[tuple[bytes, bytes], bool] = {}
        """Of what is the same in all calls of a kind: whether there is nothing to redact."""
        self.take(config)

    def take(self, config: Config) -> None:
        """What is recorded from now on."""
        self._config = config
        self._levels.clear()
        self._clean.clear()  # There may be more to redact than before.
        levels = {
            config.record.capture,
            *(server.capture for server in config.servers.values()),
            *(profile.capture for profile in config.profiles.values()),
        }
        self.works = levels - {None} != {"off"}
        """Whether anything is recorded at all."""
        self.keeps = "full" in levels
        """Whether payloads may have to be kept until an exchange is over."""

    def level(self, profile: str, server: str) -> Capture:
        """How much is recorded of what a profile's client and a server say."""
        level = self._levels.get((profile, server))
        if level is None:
            level = self._config.capture(profile, server)
            self._levels[profile, server] = level
        return level

    def facts(self, exchange: Exchange, level: Capture) -> dict[str, MetadataValue]:
        """What is noted of an exchange that is over."""
        passage = exchange.passage
        if level == "off" or passage is None:
            return {}
        subject = subject_of(exchange)
        answer = passage.given if passage.answer is None else passage.answer
        facts: dict[str, MetadataValue] = {
            "params_bytes": len(asked_by(exchange)),
            "params_shape": self.shape(subject),
            "params_hash": self.hash(subject),
        }
        if passage.sent is not None:
            facts["sent_bytes"] = len(passage.sent)
            facts["server_ms"] = round(passage.waited * 1000, 3)
            if passage.queued:
                facts["queue_ms"] = round(passage.queued * 1000, 3)
        if passage.answer is not None:
            facts["answer_bytes"] = len(passage.answer)
        if answer is not None:
            facts["result_shape"] = self.shape(answer)
            facts["result_hash"] = self.hash(answer)
        if passage.given is not None:
            facts["result_bytes"] = len(passage.given)
        texts = frame_texts(passage, exchange.started)
        if texts:
            facts["frames"] = texts[:METADATA_ENTRIES_MAX]
        more = passage.more + max(0, len(texts) - METADATA_ENTRIES_MAX)
        if more:
            facts["frames_more"] = more
        return facts

    def keep(self, exchange: Exchange, moment: bytes) -> str | None:
        """Keep the payloads of an exchange; returns the name of the file they go to."""
        passage = exchange.passage
        if passage is None:
            return None
        started, method = exchange.started, exchange.method.name
        asked = asked_by(exchange)
        steps: list[tuple[float, bytes]] = []
        if passage.first is not None:
            # What a server was asked again, with more, is among the crossings.
            at, first = passage.sent_at, passage.first
            ms, same = (at - started) * 1000, first == asked
            steps.append((at, self.frame("request", "server", method, first, ms, same=same)))
        steps += self._between(passage, started)
        if passage.answer is not None:
            at, said, failed = passage.answered_at, passage.answer, passage.refused
            ms = (at - started) * 1000
            steps.append((at, self.frame("response", "server", method, said, ms, failed=failed)))
        # A client that has gone to fetch an answer may come back after the server's.
        steps.sort(key=lambda step: step[0])
        frames = [self.frame("request", "client", method, asked), *(frame for _, frame in steps)]
        if passage.given is not None:
            ms, same = (passage.given_at - started) * 1000, passage.given == passage.answer
            said, failed = passage.given, passage.denied
            frames.append(
                self.frame("response", "client", method, said, ms, failed=failed, same=same)
            )
        principal = exchange.caller.principal
        return self.put(exchange.span_id.encode(), moment, principal_name(principal), frames)

    def put(
        self, span_id: bytes, moment: bytes, principal: str | None, frames: Sequence[bytes]
    ) -> str | None:
        """Keep the payloads of some frames, rendered."""
        place = self.payloads.place()
        who = b"" if principal is None else b',"principal":%b' % members.text(principal)
        line = b'{"span_id":"%b","timestamp":"%b"%b,"frames":[%b]}' % (
            span_id,
            moment,
            who,
            b",".join(frames),
        )
        return place if self.payloads.add(escape_line(line)) else None

    def more(self, level: Capture, trip: Trip, about: tuple[bytes, bytes], said: Said) -> bytes:
        """What is rarely noted of a call of a known kind; `about` is its span and its moment."""
        more = b',"queue_ms":%.3f' % (trip.queued * 1000) if trip.queued else b""
        if trip.passage is not None:
            texts = frame_texts(trip.passage, trip.started)
            more += b',"frames":%b' % _encode(texts[:METADATA_ENTRIES_MAX])
            left_out = trip.passage.more + max(0, len(texts) - METADATA_ENTRIES_MAX)
            more += b',"frames_more":%d' % left_out if left_out else b""
        if level != "full":
            return more
        asked, sent = trip.sides()
        result, given = said.result, said.answer[-said.size - 1 : -1]
        ms = (trip.queued + said.waited) * 1000
        principal = principal_name(trip.principal)
        if trip.passage is None and principal is None and self._is_clean(trip, said):
            if given == result:
                line = _PLAIN_SAME % (*about, asked, sent, ms, result, ms)
            else:
                line = _PLAIN % (*about, asked, sent, ms, result, ms, given)
            return more + self._kept(one_line(line))
        frames = [
            self.frame("request", "client", CALL, asked),
            self.frame("request", "server", CALL, sent, same=sent == asked),
            *(frame for _, frame in self._between(trip.passage, trip.started)),
            self.frame("response", "server", CALL, result, ms),
            self.frame("response", "client", CALL, given, ms, same=given == result),
        ]
        return more + payload_place(self.put(*about, principal, frames))

    def _kept(self, line: bytes) -> bytes:
        """Keep a line of payloads; returns where, as a member."""
        place = self.payloads.place()
        if place is not self._place:
            self._place, self._place_member = place, payload_place(place)
        return self._place_member if self.payloads.add(escape_line(line)) else b""

    def _is_clean(self, trip: Trip, said: Said) -> bool:
        """Whether nothing in a call has to be redacted: what is the same in all calls of its kind
        is looked at once, and the rest not once for each side."""
        redact, kind = self._redact.payload, trip.kind
        arguments, result = said.arguments, said.result
        clean = kind is not None and self._clean.get(kind)
        if kind is not None and clean is None:
            clean = all(redact(side) == side for side in trip.bare())
            if len(self._clean) < FRAMES_REMEMBERED_MAX:
                self._clean[kind] = clean
        return bool(clean) and redact(arguments) == arguments and redact(result) == result

    def _between(self, passage: Passage | None, started: float) -> list[tuple[float, bytes]]:
        """What came between request and answer, and when."""
        steps: list[tuple[float, bytes]] = []
        before: Crossing | None = None
        for crossing in () if passage is None else passage.crossings:
            kind, side, method = crossing.kind, crossing.side, crossing.method
            payload, failed, ms = crossing.payload, crossing.failed, (crossing.at - started) * 1000
            same = crossing.twin and before is not None and before.payload == payload is not None
            frame = self.frame(kind, side, method, payload, ms, failed=failed, same=same)
            steps.append((crossing.at, frame))
            before = crossing
        return steps

    def frame(  # noqa: PLR0913 - what a frame is
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        ms: float = 0.0,
        *,
        failed: bool = False,
        same: bool = False,
    ) -> bytes:
        opening = b'{"kind":"%b","side":"%b","ms":%.3f,"method":%b' % (
            kind.encode(),
            side.encode(),
            ms,
            self.text(method),
        )
        if same:
            return opening + b',"same":true}'
        if payload is None:
            return opening + b"}"
        name = b"error" if failed else b"payload"
        return b'%b,"%b":%b}' % (opening, name, one_line(self._redact.payload(payload)))

    def text(self, text: str) -> bytes:
        """A method that a stranger may have made up, in JSON, without secrets."""
        known = self._texts.get(text)
        if known is None:
            known = _encode(self.name(text))
            if len(self._texts) < TEXTS_REMEMBERED_MAX:
                self._texts[text] = known
        return known

    def name(self, method: str) -> str:
        """The same as text. Redacted before it is cut: the beginning of a secret is one, too."""
        return cut(self._redact(method), METHOD_CHARS_MAX)

    def hash(self, raw: bytes) -> str:
        """Equal for equal bytes, and telling nothing of them."""
        return self.digest(raw).decode()

    def shape(self, raw: bytes) -> str:
        """Keys and types."""
        shape: str = msgspec.json.decode(b'"%b"' % self.outline(raw))
        return shape


def payload_place(file: str | None) -> bytes:
    """Where the payloads lie, as a member."""
    return b"" if file is None else b',"payload_file":"%b"' % file.encode()


def asked_by(exchange: Exchange) -> bytes:
    """The params that the client came with; first, if it has come back since."""
    passage = exchange.passage
    return exchange.params if passage is None or passage.asked is None else passage.asked


def subject_of(exchange: Exchange) -> bytes:
    """What of the params tells one call from another: the arguments, or all but `_meta`."""
    asked = asked_by(exchange)
    found = exchange.found if asked is exchange.params else members.members(asked)
    arguments = found.get("arguments")
    if arguments is not None:
        return bytes(arguments)
    if "_meta" in found:
        return members.edit(asked, {"_meta": None})
    return asked


def frame_texts(passage: Passage, started: float) -> list[str]:
    """Frames, each in a short text; one that was passed on is one."""
    return [
        frame_text((each.at - started) * 1000, each.kind, each.method, each.size)
        for each in passage.crossings
        if not each.twin
    ]


def frame_text(ms: float, kind: str, method: str, size: int) -> str:
    """One frame in a short text."""
    return f"{ms:.3f} {kind} {method or '-'} {size}"


def principal_name(principal: Principal) -> str | None:
    """Whose token it was; None where there are none."""
    return None if principal == LOCAL else principal.subject


def one_line(raw: bytes) -> bytes:
    """JSON without line breaks: between its members they mean nothing."""
    if b"\n" not in raw and b"\r" not in raw:
        return raw
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")
