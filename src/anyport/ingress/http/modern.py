"""Modern requests over HTTP: each stands alone, and climbs the ladder before anything is begun.

What it says of itself is in its body, and its headers have to repeat it. Closing the connection
cancels it. Sessions are not known here.
"""

from collections.abc import Hashable
from functools import partial
from typing import Final

from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.reply import JSON
from anyport.ingress.http.sessions import COMMIT_SECONDS, HTTP
from anyport.ingress.http.streams import PLAIN, Plain
from anyport.ingress.http.visit import Visit
from anyport.protocol import meta
from anyport.protocol.errors import Fault, method_not_found
from anyport.protocol.exchange import Answered, Caller, Exchange, Happening
from anyport.protocol.front import ENDINGS, Relay, modern_caller, tell_ending
from anyport.protocol.method import find_method
from anyport.protocol.modern_front import tell_modern, unsupported_revision
from anyport.protocol.principal import Principal
from anyport.protocol.reading import CALL, PlainCall, Reading, split_token
from anyport.protocol.revision import NEWEST_MODERN
from anyport.wire import codec
from anyport.wire.frame import Failure, Request

CALLERS_REMEMBERED_MAX: Final = 512
CALLER_BYTES_REMEMBERED_MAX: Final = 1024
"""A modern client says the same of itself with every request."""

LISTEN: Final = "subscriptions/listen"
MODERN_STATUSES: Final = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}


class ModernPosts:
    """The modern requests that are open."""

    def __init__(self, relay: Relay, now: float) -> None:
        self.now = now
        """The time of the last sweep."""
        self.listening: set[Exchange] = set()
        """Exchanges that end only when somebody ends them."""
        self._relay = relay
        self._identity = relay.identity
        self._callers: dict[tuple[str, Principal, bytes], Caller] = {}

    def begin(self, inlet: Inlet, visit: Visit, reading: Reading) -> None:
        """The ladder of a request that stands alone, then its exchange."""
        frame = reading.frame
        inlet.statuses = MODERN_STATUSES
        caller = self._caller(visit, reading)
        if isinstance(caller, Fault):
            self._refuse(inlet, visit.stranger(HTTP), frame, caller)
            return
        method = find_method(frame.method, caller.revision)
        if method is None:
            self._refuse(inlet, caller, frame, method_not_found(frame.method))
            return
        if method.name == LISTEN and not visit.takes.stream:
            words = "subscriptions/listen is answered by a stream: accept text/event-stream"
            error = codec.error(-32600, words)
            self._relay.aside(caller, frame, Failure(frame.id, error))
            inlet.answer(406, codec.failure(frame.id, error), (JSON,))
            return
        exchange = Exchange(
            id=frame.id,
            method=method,
            params=reading.params,
            found=reading.found,
            caller=caller,
            teller=inlet,
            tell=self.tell,
            progress_token=reading.progress_token,
            param_fields=visit.param_fields,
            carried=reading.carried,
        )
        inlet.exchange = exchange
        if visit.takes.stream:
            inlet.opener = PLAIN
            inlet.deadline = self.now + COMMIT_SECONDS
        if method.name == LISTEN:
            self.listening.add(exchange)
            inlet.on_closed = lambda: self.listening.discard(exchange)
        elif not visit.takes.json:
            Plain(inlet)
        self._relay.begin(exchange)

    def _caller(self, visit: Visit, reading: Reading) -> Caller | Fault:
        raw, token = split_token(bytes(reading.found["_meta"]))
        key = (visit.profile, visit.principal, raw)
        caller = self._callers.get(key)
        if caller is not None:
            return visit.disagreement(reading, caller.revision.name) or caller
        agrees = partial(visit.disagreement, reading)
        found = modern_caller(reading.about, visit.profile, visit.principal, HTTP, agrees)
        lasting = token == reading.progress_token and meta.TRACEPARENT not in reading.about
        if isinstance(found, Caller) and lasting and len(raw) <= CALLER_BYTES_REMEMBERED_MAX:
            if len(self._callers) >= CALLERS_REMEMBERED_MAX:
                self._callers.clear()
            self._callers[key] = found
        return found

    def tell(self, exchange: Exchange, happening: Happening) -> None:
        """Tell a modern client what happened."""
        if not isinstance(happening, ENDINGS):
            self._say(exchange, happening)
            return
        self.listening.discard(exchange)
        tell_ending(self._say, exchange, happening)

    def _say(self, exchange: Exchange, happening: Happening) -> None:
        tell_modern(exchange, happening, self._identity)

    def refuse_unopened(self, inlet: Inlet, visit: Visit, reading: Reading) -> None:
        """Modern by its header, but without the envelope that goes with it."""
        inlet.statuses = MODERN_STATUSES
        if visit.revision is None:
            fault = unsupported_revision(visit.version or "")
        else:
            missing = modern_caller(reading.about, visit.profile, visit.principal, HTTP)
            fault = missing if isinstance(missing, Fault) else method_not_found("")
        self._refuse(inlet, visit.stranger(HTTP), reading.frame, fault)

    def repeat(self, inlet: Inlet, visit: Visit, plain: PlainCall) -> bool:
        """Make a call again; False if it has to be looked at like any other."""
        caller = self._callers.get((visit.profile, visit.principal, plain.about))
        if (
            caller is None
            or visit.name != plain.name
            or visit.method != CALL
            or visit.revision is not caller.revision
        ):
            return False
        again = self._relay.again(plain, caller, self, inlet, inlet)
        if again is None:
            return False
        inlet.statuses = MODERN_STATUSES
        inlet.opener = PLAIN
        inlet.deadline = self.now + COMMIT_SECONDS
        inlet.exchange = again
        again.go()
        return True

    def close(self, key: Hashable) -> None:
        """A modern call has its answer: nothing is kept of it but its connection."""

    def swap(self, key: Hashable, exchange: Exchange) -> None:
        """A modern call goes on as an exchange."""
        if isinstance(key, Inlet) and key.transport is not None:
            key.exchange = exchange

    def end_all(self) -> None:
        """Give every subscription its result."""
        for exchange in list(self.listening):
            self.part(exchange)

    def part(self, exchange: Exchange) -> None:
        """Give a subscription its result."""
        exchange.end(Answered(b"{}"))

    def _refuse(self, inlet: Inlet, caller: Caller, frame: Request, fault: Fault) -> None:
        error = fault.render(NEWEST_MODERN)
        self._relay.aside(caller, frame, Failure(frame.id, error))
        inlet.end(codec.failure(frame.id, error), fault.code(NEWEST_MODERN))
