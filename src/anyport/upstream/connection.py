"""One open channel to a server, whichever bytes carry it: our ids, our tokens, one ledger.

Every request gets an id of our own that is never used again, so that no answer can reach the
wrong caller. Knows JSON-RPC and the few words both eras share; what an era adds is in `back`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.errors import Situation
from anyport.protocol.progress import PROGRESS
from anyport.protocol.reading import CALL
from anyport.protocol.room import LARGE_BYTES, Room
from anyport.protocol.shape import read_result
from anyport.upstream.call import NO_FIELDS, OWN, Answer, Call, Concern, Form, Lost, unkept
from anyport.upstream.channel import Channel
from anyport.upstream.hearer import Hearer
from anyport.upstream.own import Record
from anyport.upstream.parting import BROKEN, Parting
from anyport.upstream.peer import Peer
from anyport.upstream.progress import read_report
from anyport.upstream.queue import Places
from anyport.upstream.sign import Again, Sign
from anyport.wire import codec, members
from anyport.wire.frame import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.framing import Overlong

GIVEN_UP_MAX: Final = 256
"""Calls that were cancelled, and may be answered all the same; the last ones."""
UNASKED: Final = "nobody had asked for it"
NOISE_BYTES_MAX: Final = 80
"""What is shown of a line that is no frame."""


class Connection:
    """One conversation with one server."""

    def __init__(
        self,
        channel: Channel,
        hearer: Hearer,
        bounds: codec.Bounds,
        calls: type[Call] = Call,
        numbers_used: int = 0,
        record: Record = Record(),  # noqa: B008 - frozen
    ) -> None:
        self.clock = record.clock
        self.noted = record.noted
        self.peer: Peer | None = None
        """None until the handshake is done."""
        self.noise_count = 0
        """Lines that were no frames."""
        self.first_noise = b""
        """How the first of them began: a program that is no MCP server shows itself by it."""
        self._given_up: deque[int] = deque(maxlen=GIVEN_UP_MAX)
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
        self.last_number = numbers_used
        self.own_requests = 0
        """Of all there were, those that no client had a part in."""
        self.places: Places[Call] = Places()
        """Its own, unless somebody shares them out among several."""
        self.room = Room()
        """For large answers."""
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

    @property
    def waiting_calls(self) -> int:
        """How many of them wait for a place."""
        return len(self._waiting)

    def call(
        self,
        method: str,
        params: bytes | None,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None] | None = None,
        concern: Concern = OWN,
    ) -> Call | Lost:
        """Send a request. With `on_progress`, its params are stamped with a token of ours."""
        name, fields, who = concern.name, concern.fields, concern.who
        refusal = self._refusal(who)
        if refusal is not None:
            return refusal
        if on_progress is not None:
            params = self.stamped(params or b"{}")
        self.last_number = number = self.last_number + 1
        call = self._calls(method, on_done, on_progress, number, name, fields, None, who)
        self._start(call, codec.request(b"%d" % number, method, params))
        return call

    def stamped(self, params: bytes) -> bytes:
        """Params with the progress token that the next call will have."""
        return meta.restamp(params, {meta.PROGRESS_TOKEN: b"%d" % (self.last_number + 1)})

    def repeat(
        self,
        form: Form,
        arguments: Raw,
        on_done: Callable[[Answer], None],
        on_progress: Callable[[Sequence[bytes]], None],
        who: object,
    ) -> Call | Lost:
        """Call a tool in a form that is known."""
        places = self.places
        if self.lost is not None or places.taken >= places.calls_max or self._channel.full:
            refusal = self._refusal(who)
            if refusal is not None:
                return refusal
        self.last_number = number = self.last_number + 1
        if form.reports:
            call = self._calls(CALL, on_done, on_progress, number, form.name, NO_FIELDS, form, who)
            self._start(call, form.frame % (number, arguments, number))
        else:
            call = self._calls(CALL, on_done, None, number, form.name, NO_FIELDS, form, who)
            self._start(call, form.frame % (number, arguments))
        return call

    def _refusal(self, who: object) -> Lost | None:
        """Why nothing can be asked now. Whoever has most waiting may have to make room."""
        if self.lost is not None:
            return self.lost
        if self._channel.full:
            return self._busy()
        if who is not None and self.places.full:
            displaced = self.places.waiting.displace(who)
            if displaced is None or displaced.home is None:
                return self._busy()
            displaced.home.turn_away(displaced, self._busy())
        return None

    def _busy(self) -> Lost:
        return Lost(self.places.words, Situation.BUSY)

    def _start(self, call: Call, frame: bytes) -> None:
        places = self.places
        if call.who is not None:
            if places.taken >= places.calls_max:
                call.frame, call.home, call.queued = frame, self, self.clock()
                self._waiting[call.number] = call
                places.waiting.add(call.who, call)
                return
            places.taken += 1
        self._open[call.number] = call
        self._channel.send(frame, call)

    def look(self, call: Call, now: float) -> bool:
        """Give up on a call that has waited for a place for too long; whether it has."""
        seconds = self.places.queue_seconds
        late = call.number in self._waiting and now - call.queued >= seconds
        if late:
            self.places.waiting.drop(call.who, call)
            self.turn_away(call, Lost.unplaced(seconds))
        return late

    def claim_number(self) -> int:
        """An id that no other request of this connection has or will have."""
        self.last_number += 1
        return self.last_number

    def waits_for(self, call: Call) -> bool:
        """Whether a call that was sent has no answer yet."""
        return call.number in self._open

    def settle(self, call: Call, answer: Answer) -> None:
        """End a call for which the channel found the answer, or found that there is none."""
        if self._open.pop(call.number, None) is not None:
            self._leave(call)
            call.on_done(answer)

    def cancel(self, call: Call, reason: bytes | None) -> None:
        """Tell the server that an answer is no longer wanted. A late one is dropped."""
        if self._waiting.pop(call.number, None) is not None:
            self.places.waiting.drop(call.who, call)
            return
        if self._open.pop(call.number, None) is None:
            return
        self._given_up.append(call.number)
        if not self._channel.cancel(call):
            params = [("requestId", b"%d" % call.number)]
            if reason is not None:
                params.append(("reason", reason))
            self.notify("notifications/cancelled", members.join(params))
        self._leave(call)

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
        if call is None:
            return False
        if call.who is not None:
            places = self.places
            places.taken -= 1
            if places.waiting:
                places.admit()
        crowded = len(raw) > LARGE_BYTES and call.who is not None and self.room.lacks(len(raw))
        call.on_done(unkept(len(raw)) if crowded else result)
        return True

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
            limit = raw.size > self._bounds.bytes_max
            # That one answer is too large says nothing of the next.
            why = Lost(words, Situation.MISBEHAVED, Sign.GOOD) if limit else unkept(raw.size)
            self._spoiled(codec.id_at_edge(raw.edges), raw.edges, why)
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
            why = Lost(words, Situation.MISBEHAVED, Sign.BAD, Again.IF_SAFE)
            self._spoiled(frame.id or codec.id_at_edge(raw), raw, why)
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
            case Notification(method=method, params=params) if method == PROGRESS:
                self._progressed(params)
            case Notification():
                self._hearer.on_notification(frame)
            case Request():
                self._hearer.on_request(frame)

    def unreached(self, words: str) -> None:
        """The channel could not bring something to the server."""
        self._hearer.on_unreached(words)

    def end(self, reason: str, how: Parting = BROKEN) -> None:
        """The channel is gone: every open call gets to know, at once."""
        if self.lost is not None:
            return
        self.lost = how.unsent(reason)
        opened, waiting = self._open.values(), self._waiting.values()
        self._open, self._waiting = {}, {}
        for call in waiting:
            self.places.waiting.drop(call.who, call)
        for call in opened:
            self._leave(call)
        cut = how.sent(reason)
        for call in opened:
            call.on_done(self.lost if call.number in how.unwritten else cut)
        for call in waiting:
            call.on_done(self.lost)
        self._hearer.on_end()

    def _answered(self, frame: Result | Failure) -> None:
        number = codec.own_number(frame.id)
        call = self._open.pop(number, None)
        if call is None:
            self._stray(frame, number)
            return
        self._leave(call)
        size = 0 if isinstance(frame, Failure) else len(frame.result)
        crowded = call.who is not None and self.room.lacks(size)
        call.on_done(unkept(size) if crowded else frame)

    def _stray(self, said: Result | Failure | Notification, number: int) -> None:
        self.stray_count += 1
        if number not in self._given_up:
            self._hearer.on_noise(said, UNASKED)

    def _progressed(self, params: bytes | None) -> None:
        if params is None or params[:1] != b"{":
            self._stray(Notification(PROGRESS, params), -1)
            return
        token = members.members(params).get(meta.PROGRESS_TOKEN)
        self._reported(codec.own_number(None if token is None else bytes(token)), params)

    def _reported(self, token: int, params: bytes) -> None:
        call = self._open.get(token) or self._heard.get(token)
        if call is None or call.on_progress is None:
            self._stray(Notification(PROGRESS, params), token)
            return
        call.on_progress((params,))

    def _spoiled(self, id: bytes | None, raw: bytes, why: Lost) -> None:
        """A line that is no frame: noise, unless it was meant as someone's answer."""
        call = self._open.pop(codec.own_number(id), None)
        if call is None:
            self.noise_count += 1
            self.first_noise = self.first_noise or raw[:NOISE_BYTES_MAX]
            self._hearer.on_noise(raw[:NOISE_BYTES_MAX], why.reason)
            return
        self._leave(call)
        call.on_done(why)

    def _leave(self, call: Call) -> None:
        """A call that was open is over: its place is free."""
        if call.who is not None:
            self.places.taken -= 1
            self.places.admit()

    def go(self, call: Call) -> None:
        """A call has got the place that it waited for."""
        self._waiting.pop(call.number, None)
        self._open[call.number] = call
        frame, call.frame, call.admitted = call.frame, None, self.clock()
        if frame is not None:
            self._channel.send(frame, call)

    def turn_away(self, call: Call, why: Lost) -> None:
        """A call waits no longer, and has not been sent."""
        self._waiting.pop(call.number, None)
        call.on_done(why)


def bounds_for(bytes_max: int) -> codec.Bounds:
    """The limits for one server's messages."""
    return replace(codec.OUTBOUND, bytes_max=bytes_max)
