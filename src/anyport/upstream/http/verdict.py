"""What a reply that holds no answer says of its server, and what it says if no reply came at all.

Pure. A server that cannot answer now may say when it can: that is no failure of it. Nor is any
status that puts the blame on the request.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Final

from anyport.protocol.errors import Situation
from anyport.upstream.call import Lost
from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.upstream.http.outgoing import complaint
from anyport.upstream.sign import Again, Postponed, Sign
from anyport.wire import codec
from anyport.wire.frame import Failure
from anyport.wire.http import ReplyHead

WAIT_SECONDS_DEFAULT: Final = 1.0
"""For a server that is asked too often, and does not say when it may be asked again."""

UNREACHED: Final = frozenset({TroubleKind.CONNECT, TroubleKind.TLS})
_NEVER_WILL: Final = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
"""The statuses from 500 on that are about the request."""


def wait_of(reply: ReplyHead) -> float | None:
    """Seconds after which a server wants to be asked again, if that is what it says."""
    said = _retry_after(reply)
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
        return WAIT_SECONDS_DEFAULT if said is None else said
    return said if reply.status == HTTPStatus.SERVICE_UNAVAILABLE else None


def not_now(reply: ReplyHead, body: bytes, wait: float) -> Postponed | Lost:
    """What a caller is told by a server that wants to be asked later, in its words if possible."""
    # Most who say so are not the server, and have a word of their own for an error.
    told = body[:1] == b"{" and b'"jsonrpc"' in body
    frame = codec.decode(body, codec.OUTBOUND) if told else None
    if isinstance(frame, Failure):
        return Postponed(frame.id, frame.error, wait)
    words = f"it answered with HTTP {reply.status}; ask again in {wait:.0f} s"
    return Lost(words, Situation.BUSY, Sign.GOOD, retry_after=wait)


def unanswered(reply: ReplyHead) -> Lost:
    """What a caller is told of a reply that holds no message."""
    words = complaint(reply)
    if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR or reply.status in _NEVER_WILL:
        return Lost(words, Situation.MISBEHAVED, Sign.GOOD)
    return Lost(words, Situation.MISBEHAVED, Sign.BAD, Again.IF_SAFE)


def cut_off(trouble: Trouble | None) -> Lost:
    """What a caller is told when a stream ends before the answer."""
    if trouble is not None:
        return lost(trouble)
    words = "closed its stream before it had answered"
    return Lost(words, Situation.MISBEHAVED, Sign.ACCIDENT, Again.IF_SAFE)


def lost(trouble: Trouble) -> Lost:
    """What a caller is told when no reply came."""
    if trouble.kind in UNREACHED:
        late = trouble.timeout is not None
        situation = Situation.TIMED_OUT if late else Situation.NOT_RUNNING
        way = (Sign.UNREACHED, Again.ALWAYS)
        return Lost(trouble.words, situation, *way, timeout=trouble.timeout)
    if trouble.kind is TroubleKind.CROWDED:
        return Lost(trouble.words, Situation.OVERLOADED, Sign.GOOD)
    sign = {TroubleKind.CUT: Sign.ACCIDENT, TroubleKind.TOO_LARGE: Sign.GOOD}
    again = Again.IF_SAFE if trouble.sent else Again.ALWAYS
    if trouble.kind is TroubleKind.TOO_LARGE:
        again = Again.NEVER
    words = f"failed to answer: {trouble.words}"
    if trouble.kind is TroubleKind.TIMEOUT:
        return Lost(words, Situation.TIMED_OUT, Sign.BAD, timeout=trouble.timeout)
    return Lost(words, Situation.MISBEHAVED, sign.get(trouble.kind, Sign.BAD), again)


def _retry_after(reply: ReplyHead) -> float | None:
    """In seconds. Where it is a time of day, by the server's own clock."""
    said = reply.get("retry-after")
    if said is None:
        return None
    if said.isascii() and said.isdigit():
        return float(said[:9])
    then, now = _moment(said), _moment(reply.get("date") or "")
    if then is None or now is None:
        return None
    return max(0.0, (then - now).total_seconds())


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text.replace("GMT", "+0000"), "%a, %d %b %Y %H:%M:%S %z")
    except ValueError:
        return None
