"""POST: an event goes to a URL, with the gateway's own HTTP client.

Delivered is what was answered with 2xx. A refusal of the event itself is final; everything else
is tried again. Redirects are not followed: a URL is where its owner says it is.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import msgspec

from anyport.config.schema import HookConfig
from anyport.config.template import fill, prepare
from anyport.gateway.hooks_action import Again, Done, GivenUp, Occasion, Outcome
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Line, Trouble, TroubleKind
from anyport.upstream.http.outgoing import Outgoing, field
from anyport.upstream.http.place import Place
from anyport.wire.http import ReplyHead

POST_SECONDS_MAX: Final = 10.0
"""For one attempt, from the connection to the end of the reply; receivers only take note."""

RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""A receiver that wants to be left alone for longer is asked again after an hour."""

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Nobody reads it; it only has to end."""

AGAIN: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Refusals that say "not now" and nothing of the event."""


class Post:
    """Sends events to one URL, over connections that are kept."""

    kind = "post"

    def __init__(self, config: HookConfig, now: Callable[[], float]) -> None:
        place = Place.parse(config.post or "")
        self._client = Client(place, REPLY_BYTES_MAX)
        self._outgoing = Outgoing(place, config.headers)
        self._body = None if config.body is None else prepare(config.body)
        self._name = config.name
        self._now = now

    async def act(self, occasion: Occasion) -> Outcome:
        """One attempt."""
        missing: list[str] = []
        body = occasion.line
        if self._body is not None:
            body = msgspec.json.encode(fill(self._body, occasion.event(), missing))
        fields = (
            field("Idempotency-Key", occasion.key)
            + field("Anyport-Hook", self._name)
            + field("traceparent", occasion.traceparent)
        )
        reply = _Reply()
        self._client.request(self._outgoing.post(fields), body, reply)
        try:
            async with asyncio.timeout(POST_SECONDS_MAX):
                head = await reply.head
        except TimeoutError:
            return Again(words=f"no reply within {POST_SECONDS_MAX:g} s", counts=False)
        finally:
            self._client.give_up(reply)
        if isinstance(head, Trouble):
            # Who is not reached says nothing of the event; who breaks off may have choked on it.
            away = head.kind in (TroubleKind.CONNECT, TroubleKind.TLS)
            return Again(words=head.words, counts=not away)
        return judged(head, tuple(missing), self._now())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def judged(head: ReplyHead, missing: tuple[str, ...], now: float) -> Outcome:
    """What a reply means for the event."""
    status = head.status
    if 200 <= status < 300:
        return Done(missing=missing)
    if 300 <= status < 400:
        words = f"it answered with a redirect (HTTP {status}): set post to where it is"
        return GivenUp(words=words)
    words = f"it answered with HTTP {status}"
    if status < 500 and status not in AGAIN:
        return GivenUp(words=words)
    return Again(words=words, after_seconds=read_retry_after(head.get("retry-after"), now))


def read_retry_after(text: str | None, now: float) -> float | None:
    """Seconds, from either form that RFC 9110 has: a number of them, or a date."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_SECONDS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is in UTC: HTTP knows no other.
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    seconds = (at - datetime.fromtimestamp(now, UTC)).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


class _Reply:
    """Takes one reply; of that, the head."""

    waits = None

    def __init__(self) -> None:
        self.line: Line | None = None
        self.head: asyncio.Future[ReplyHead | Trouble]
        self.head = asyncio.get_running_loop().create_future()

    def opened(self, head: ReplyHead) -> None:
        self._settle(head)

    def portion(self, portion: bytes) -> None:
        """Nobody asked for a stream."""

    def answered(self, head: ReplyHead, body: bytes) -> None:
        self._settle(head)

    def closed(self, trouble: Trouble | None) -> None:
        """Nor for its end."""

    def failed(self, trouble: Trouble) -> None:
        self._settle(trouble)

    def _settle(self, outcome: ReplyHead | Trouble) -> None:
        if not self.head.done():
            self.head.set_result(outcome)
