"""One open channel to a server, whichever bytes carry it: our ids, our tokens, one ledger.

Every request gets an id of our own that is never used again, so that no answer can reach the
wrong caller. Knows JSON-RPC and the few words both eras share; what an era adds is in `back`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.back import Back
from anyport.protocol.errors import Situation
from anyport.protocol.reading import CALL
from anyport.protocol.revision import Revision
from anyport.protocol.shape import read_result
from anyport.upstream.progress import read_report
from anyport.wire import codec, members
from anyport.wire.frame import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.framing import Overlong

OPEN_CALLS_MAX: Final = 128
"""Calls a server works on at a time."""
WAITING_CALLS_MAX: Final = 1024
"""Calls that wait for one of those places; the next is refused at once."""
NOISE_BYTES_MAX: Final = 80
"""What is shown of a line that is no frame."""


Fields = tuple[tuple[str, str], ...]
NO_FIELDS: Final[Fields] = ()


class Channel(Protocol):
    """Carries frames to a server."""

    @property
    def full(self) -> bool:
        """Whether the server has stopped taking what is sent."""

    def send(self, frame: bytes, call: "Call | None") -> None:
        """Queue one frame: a call of ours, or something that is not answered."""

    def cancel(self, call: "Call") -> bool:
        """Give up on a call in the channel's own way; False if the server has to be told."""


class Lost(msgspec.Struct, frozen=True, gc=False):
    """In place of an answer: the server will not give one."""

    reason: str
    situation: Situation = Situation.NOT_RUNNING


Answer = Result | Failure | Lost


class Call(msgspec.Struct, eq=False):
    """One request of ours that has no answer yet."""

    method: str
    on_done: Callable[[Answer], None]
    on_progress: Callable[[Sequence[bytes]], None] | None = None
    """Takes the params of one report or several."""
    number: int = 0
    name: str | None = None
    """The native name or URI it is about, where the caller knows it."""
    fields: Fields = NO_FIELDS
    """Header fields of the client's that nobody but the server can judge."""
    form: "Form | None" = None
    """Where it is a call of a tool like many before."""
    frame: bytes | None = None
    """Kept while the call waits for a place, and by channels that may have to send it again."""


class Form(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool that is made again and again: all but its id and its arguments."""

    name: str
    frame: bytes
    """With a place for the id, for the arguments and, if it `reports`, for the id once more."""
    reports: bool
    """Whether it asks for progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a server said of itself when the channel was opened."""

    revision: Revision
    capabilities: dict[str, msgspec.Raw]
    back: Back
    server_info: bytes = b"{}"
    instructions: str | None = None
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    """Of those it declared, the ones that we know, with their settings."""

    def offers(self, capability: str, flag: str | None = None) -> bool:
        """Whether it declared a capability, and a flag of it."""
        declared = self.capabilities.get(capability)
        if declared is None or flag is None:
            return declared is not None
        try:
            return members.members(declared).get(flag) == msgspec.Raw(b"true")
        except msgspec.DecodeError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearer:
    """Who is told what a server says on its own."""

    on_request: Callable[[Request], None]
    on_notification: Callable[[Notification], None]
    on_end: Callable[[], None]


class Connection:
    """One conversation with one server."""

    def __init__(
        self,
        channel: Channel,
        hearer: Hearer,
        bounds: codec.Bounds,
        calls: type[Call] = Call,
        numbers_used: int = 0,
    ) -> None:
        self.peer: Peer | None = None
        """None until the handshake is done."""
        self.noise_count = 0
        """Lines that were no frames."""
        self.first_noise = b""
        """How the first of them began: a program that is no MCP server shows itself by it."""
        self.stray_count = 0
        """Answers nobody had asked for."""
        self.lost: Lost | None = None
        self.level: str | None = None
        """How talkative the server was told to be; see `level`."""
        self.over: str | None = None
        """Why nothing new should be asked on it; what is under way may still be answered."""
        self._channel = channel
        self._hearer = hearer
        self._bounds = bounds
        self._calls = calls
        """What the channel keeps of a call; some need more than others."""
        self._last_number = numbers_used
        self._open: dict[int, Call] = {}
        self._waiting: dict[int, Call] = {}
        self._heard: dict[int, Call] = {}
        """Calls that were answered, and of whose progress somebody still wants to hear."""
        self.about: Call | None = None
        """With which the server says what it says now, where the channel knows that."""

    @property
    def usable(self) -> bool:
        """Whether something new may be asked on it."""
        return self.lost is None and self.over is None and self.peer is not None

    @property
    def open_calls(self) -> int:
        """How many calls have no answer yet, waiting ones included."""
        return len(self._open) + len(self._waiting)

    def call(
        self,
        method: str,
        params: bytes | None,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None] | None = None,
        name: str | None = None,
        fields: Fields = NO_FIELDS,
    ) -> Call | Lost:
        """Send a request. With `on_progress`, its params are stamped with a token of ours."""
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        self._last_number = number = self._last_number + 1
        call = self._calls(method, on_done, on_progress, number, name, fields)
        if on_progress is not None:
            params = meta.restamp(params or b"{}", {meta.PROGRESS_TOKEN: b"%d" % number})
        self._start(call, codec.request(b"%d" % number, method, params))
        return call

    def repeat(
        self,
        form: Form,
        arguments: Raw,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None],
    ) -> Call | Lost:
        """Call a tool in a form that is known."""
        if self.lost is not None or self._waiting or self._channel.full:
            refusal = self._refusal()
            if refusal is not None:
                return refusal
        self._last_number = number = self._last_number + 1
        if form.reports:
            call = self._calls(CALL, on_done, on_progress, number, form.name, NO_FIELDS, form)
            self._start(call, form.frame % (number, arguments, number))
        else:
            call = self._calls(CALL, on_done, None, number, form.name, NO_FIELDS, form)
            self._start(call, form.frame % (number, arguments))
        return call

    def _refusal(self) -> Lost | None:
        """Why nothing can be asked now."""
        if self.lost is not None:
            return self.lost
        if len(self._waiting) >= WAITING_CALLS_MAX or self._channel.full:
            words = f"{len(self._open)} calls are open and {len(self._waiting)} are waiting"
            return Lost(words, Situation.BUSY)
        return None

    def _start(self, call: Call, frame: bytes) -> None:
        if len(self._open) >= OPEN_CALLS_MAX:
            call.frame = frame
            self._waiting[call.number] = call
        else:
            self._open[call.number] = call
            self._channel.send(frame, call)

    def claim_number(self) -> int:
        """An id that no other request of this connection has or will have."""
        self._last_number += 1
        return self._last_number

    def waits_for(self, call: Call) -> bool:
        """Whether a call that was sent has no answer yet."""
        return call.number in self._open

    def settle(self, call: Call, answer: Answer) -> None:
        """End a call for which the channel found the answer, or found that there is none."""
        if self._open.pop(call.number, None) is not None:
            self._admit()
            call.on_done(answer)

    def cancel(self, call: Call, reason: bytes | None) -> None:
        """Tell the server that an answer is no longer wanted. A late one is dropped."""
        if self._waiting.pop(call.number, None) is not None:
            return
        if self._open.pop(call.number, None) is None:
            return
        if not self._channel.cancel(call):
            params = [("requestId", b"%d" % call.number)]
            if reason is not None:
                params.append(("reason", reason))
            self.notify("notifications/cancelled", members.join(params))
        self._admit()

    def hear(self, call: Call) -> Callable[[], object]:
        """Take progress of a call that was answered; what is returned ends that."""
        self._heard[call.number] = call
        return lambda: self._heard.pop(call.number, None)

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification."""
        self._channel.send(codec.notification(method, params), None)

    def answer(self, id: bytes, frame: Result | Failure) -> None:
        """Answer a request of the server's."""
        if isinstance(frame, Result):
            self._channel.send(codec.result(id, frame.result), None)
        else:
            self._channel.send(codec.failure(id, frame.error), None)

    def settles(self, raw: bytes, of: Call | None = None) -> bool:
        """Take a message if it is a result of an open call, written as most are.

        Where the channel knows of which call it came, it must be that one's.
        """
        result = read_result(raw, self._bounds)
        if result is None:
            return False
        number = int(result.id)
        if of is not None and of.number != number:
            return False
        call = self._open.pop(number, None)
        if call is not None:
            if self._waiting:
                self._admit()
            call.on_done(result)
        return call is not None

    def reports(self, messages: Sequence[bytes | Overlong], of: Call) -> list[bytes]:
        """The params of the first messages, as long as they are progress of this call and written
        as most are: what is told at once can go on its way at once."""
        reports: list[bytes] = []
        number = of.number if of.number in self._open else None
        for raw in messages:
            report = None if isinstance(raw, Overlong) else read_report(raw)
            if report is None or report[0] != number:
                break
            reports.append(report[1])
        return reports

    def receive(self, raw: bytes | Overlong, of: Call | None = None) -> None:
        """Take one message from the server, and with which call it came, if the channel knows.

        Then an error that names no call of ours is its: servers could not read that request.
        """
        if isinstance(raw, Overlong):
            words = f"answered with {raw.size} bytes; the limit is {self._bounds.bytes_max}"
            self._spoiled(codec.id_at_edge(raw.edges), raw.edges, words)
            return
        if self.settles(raw):
            return
        report = read_report(raw)
        if report is not None:
            self._reported(*report)
            return
        frame = codec.decode(raw, self._bounds)
        if isinstance(frame, BadFrame):
            words = f"answered with something that is not JSON-RPC: {frame.message}"
            self._spoiled(frame.id or codec.id_at_edge(raw), raw, words)
            return
        self.about = of
        try:
            self._take(frame, of)
        except members.Ambiguous:
            self.noise_count += 1
        self.about = None

    def _take(self, frame: Frame, of: Call | None) -> None:
        match frame:
            case Result():
                self._answered(frame)
            case Failure(id=id):
                if of is not None and codec.own_number(id) not in self._open:
                    self.settle(of, frame)
                else:
                    self._answered(frame)
            case Notification(method="notifications/progress", params=params):
                self._progressed(params)
            case Notification():
                self._hearer.on_notification(frame)
            case Request():
                self._hearer.on_request(frame)

    def end(self, reason: str) -> None:
        """The channel is gone: every open call gets to know, at once."""
        if self.lost is not None:
            return
        self.lost = Lost(reason)
        calls = [*self._open.values(), *self._waiting.values()]
        self._open, self._waiting = {}, {}
        for call in calls:
            call.on_done(self.lost)
        self._hearer.on_end()

    def _answered(self, frame: Result | Failure) -> None:
        call = self._open.pop(codec.own_number(frame.id), None)
        if call is None:
            self.stray_count += 1
            return
        if self._waiting:
            self._admit()
        call.on_done(frame)

    def _progressed(self, params: bytes | None) -> None:
        if params is None or params[:1] != b"{":
            self.stray_count += 1
            return
        token = members.members(params).get(meta.PROGRESS_TOKEN)
        self._reported(codec.own_number(None if token is None else bytes(token)), params)

    def _reported(self, token: int, params: bytes) -> None:
        call = self._open.get(token) or self._heard.get(token)
        if call is None or call.on_progress is None:
            self.stray_count += 1
            return
        call.on_progress((params,))

    def _spoiled(self, id: bytes | None, raw: bytes, words: str) -> None:
        """A line that is no frame: noise, unless it was meant as someone's answer."""
        call = self._open.pop(codec.own_number(id), None)
        if call is None:
            self.noise_count += 1
            self.first_noise = self.first_noise or raw[:NOISE_BYTES_MAX]
            return
        self._admit()
        call.on_done(Lost(words, Situation.MISBEHAVED))

    def _admit(self) -> None:
        """Give a free place to the call that has waited longest."""
        while self._waiting and len(self._open) < OPEN_CALLS_MAX:
            number, call = next(iter(self._waiting.items()))
            del self._waiting[number]
            self._open[number] = call
            frame, call.frame = call.frame, None
            if frame is not None:
                self._channel.send(frame, call)


def bounds_for(bytes_max: int) -> codec.Bounds:
    """The limits for one server's messages."""
    return replace(codec.OUTBOUND, bytes_max=bytes_max)
