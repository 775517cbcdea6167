"""Requests to a gateway that runs elsewhere, and words for people where it does not answer well."""

import asyncio
from typing import Any, Final

import msgspec

from anyport.cli.ending import CommandFailed
from anyport.cli.options import TOKEN
from anyport.cli.target import TOKEN_VARIABLE, Target
from anyport.record.text import cut, printable
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Line, Taker, Trouble, TroubleKind
from anyport.wire import codec
from anyport.wire.http import ReplyHead

API: Final = "/api/v1"

WORDS_CHARS_MAX: Final = 300
"""Of what a stranger says; more would hide what we say."""


PROBLEM: Final = "application/problem+json"
"""How our gateway words what it cannot answer; others hardly do."""

PAGE_SECONDS_MAX: Final = 30.0
"""For one page of a gateway: a reload may have to wait for servers, a search for the disk."""

NOT_TELLING: Final = frozenset({401, 403})
"""Refusals that do not tell who refuses."""


class NotThere(CommandFailed):
    """The gateway, or whatever answers there, does not know this path."""


class Reach:
    """The way to one gateway."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._client = Client(target.place, codec.OUTBOUND.bytes_max)

    def send(self, head: bytes, body: bytes | None, taker: Taker) -> None:
        """Start a request."""
        self._client.request(head, body, taker)

    def give_up(self, taker: Taker) -> None:
        """Nobody waits for it any more."""
        self._client.give_up(taker)

    async def get(self, path: str) -> bytes:
        """A page of the gateway, which is JSON.

        Raises:
            CommandFailed: there is none.
        """
        return await self._page(self.target.head("GET", path, Accept="application/json"), None)

    async def post(self, path: str) -> bytes:
        """Have the gateway do something; what it says of it, which is JSON.

        Raises:
            CommandFailed: it does not, and says why.
        """
        return await self._page(self.target.head("POST", path, Accept="application/json"), b"")

    async def _page(self, head: bytes, content: bytes | None) -> bytes:
        page = _Page(self.target)
        self.send(head, content, page)
        try:
            async with asyncio.timeout(PAGE_SECONDS_MAX):
                body = await page.body
        except TimeoutError:
            words = f"it did not answer within {PAGE_SECONDS_MAX:g} s; is it stopped, or very busy?"
            raise CommandFailed(f"{self.target.place.origin}: {words}") from None
        finally:
            self.give_up(page)
        if isinstance(body, CommandFailed):
            raise body
        return body

    def close(self) -> None:
        """Nothing more is asked."""
        self._client.close()


class _Page:
    """Takes one reply."""

    waits = None

    def __init__(self, target: Target) -> None:
        self.line: Line | None = None
        self._target = target
        self.body: asyncio.Future[bytes | CommandFailed]
        self.body = asyncio.get_running_loop().create_future()

    def answered(self, head: ReplyHead, body: bytes) -> None:
        if head.status == 200 and head.media_type == "application/json":
            self._settle(body)
        elif head.media_type == PROBLEM or head.status in NOT_TELLING or head.status >= 500:
            self._settle(refusal(self._target, head, body))
        else:
            self._settle(no_gateway(self._target))

    def opened(self, head: ReplyHead) -> None:
        self._settle(no_gateway(self._target))

    def portion(self, portion: bytes) -> None:
        """Nobody asked for a stream."""

    def closed(self, trouble: Trouble | None) -> None:
        """Nor for its end."""

    def failed(self, trouble: Trouble) -> None:
        self._settle(unreachable(self._target, trouble))

    def _settle(self, outcome: bytes | CommandFailed) -> None:
        if not self.body.done():
            self.body.set_result(outcome)


def unreachable(target: Target, trouble: Trouble) -> CommandFailed:
    """Why no reply came."""
    if trouble.kind is TroubleKind.CONNECT:
        return CommandFailed(
            f"nothing answers at {target.place.origin}: {trouble.words}. "
            "Is a gateway running there? 'anyport serve' starts one"
        )
    return CommandFailed(f"{target} gave no answer: {printable(trouble.words)}")


def no_gateway(target: Target) -> NotThere:
    """Somebody answers there who has none of our gateway's pages."""
    return NotThere(
        f"what answers at {target.place.origin} is no Anyport gateway: "
        f"it has no {target.root}{API}. "
        f"If it is an MCP server, 'anyport tools --url {target}' may work"
    )


def refusal(target: Target, head: ReplyHead, body: bytes) -> CommandFailed:
    """Why a reply is not the one that was asked for."""
    said = words_of(body)
    if head.status == 401:
        if target.token is None:
            return CommandFailed(
                f"{target.place.origin} wants a token (HTTP 401): "
                f"give it with {TOKEN.name} or {TOKEN_VARIABLE}"
            )
        return CommandFailed(f"{target.place.origin} does not accept this token (HTTP 401)")
    if head.status == 404:
        return NotThere(said or f"there is no MCP server at {target} (HTTP 404)")
    if said is None:
        media = printable(head.media_type) or "nothing"
        return CommandFailed(
            f"{target} is no MCP server: it answered with HTTP {head.status} and {media}"
        )
    return CommandFailed(f"{target} refuses (HTTP {head.status}): {said}")


def words_of(body: bytes) -> str | None:
    """What the body of an error says: an error of JSON-RPC, or a problem of HTTP."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    said = error.get("message") if isinstance(error, dict) else document.get("detail")
    return cut(printable(said), WORDS_CHARS_MAX) if isinstance(said, str) and said else None
