"""CALL: a tool of a server is called with arguments made from an event.

The call goes through the relay as any client's does: profile, rules, limits and record included.
It is part of the event's trace, below a span that the hooks know as their own. It is made once:
whether doing it twice does harm is not known here.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from anyport import __version__
from anyport.config.schema import HookConfig
from anyport.config.template import fill, prepare
from anyport.gateway.hooks_action import Done, GivenUp, Occasion, Outcome
from anyport.gateway.profile import Profile
from anyport.protocol import meta
from anyport.protocol.capability import NOTHING
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import (
    NOBODY,
    Answered,
    Caller,
    Ending,
    Exchange,
    Failed,
    Happening,
    Refused,
)
from anyport.protocol.method import METHODS, Kind
from anyport.protocol.principal import Principal
from anyport.protocol.revision import NEWEST_MODERN
from anyport.protocol.shape import read_shape
from anyport.wire import members

PRINCIPAL: Final = Principal("gateway", "hook")
"""Whom the record names as the caller."""
TRANSPORT: Final = "hook"

_CLIENT: Final = msgspec.json.encode({"name": "anyport-hook", "version": __version__})


class Call:
    """Calls one tool for each event."""

    kind = "call"

    def __init__(
        self,
        config: HookConfig,
        profiles: Mapping[str, Profile],
        begin: Callable[[Exchange], None],
    ) -> None:
        self.slug, self._native = config.call or ("", "")
        self._arguments = prepare(config.arguments)
        self._profiles = profiles
        self._begin = begin

    async def act(self, occasion: Occasion) -> Outcome:
        """Make the call, and wait for its ending."""
        profile = self._profile()
        if profile is None:
            return GivenUp(words=f"no profile has the server '{self.slug}'")
        missing: list[str] = []
        arguments = fill(self._arguments, occasion.event(), missing)
        params = msgspec.json.encode(
            {
                "name": self._public(profile),
                "arguments": arguments,
                "_meta": {meta.TRACEPARENT: occasion.traceparent},
            }
        )
        ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        exchange = Exchange(
            id=b"1",
            method=METHODS["tools/call"],
            params=params,
            found=members.members(params),
            caller=_caller(profile.slug),
            teller=NOBODY,
            tell=lambda exchange, happening: _settle(ended, exchange, happening),
        )
        self._begin(exchange)
        try:
            return _judged(await ended, tuple(missing))
        finally:
            exchange.cancel()

    def close(self) -> None:
        """What is under way ends by itself."""

    def _profile(self) -> Profile | None:
        """Of the profiles that have the server, the first that shows the tool."""
        having = [each for each in self._profiles.values() if self.slug in each.servers]
        showing = (each for each in having if self._listed(each) is not None)
        return next(showing, having[0] if having else None)

    def _listed(self, profile: Profile) -> str | None:
        entries = profile.catalog.entries(Kind.TOOLS)
        mine = (
            entry.public
            for entry in entries
            if (entry.slug, entry.native) == (self.slug, self._native)
        )
        return next(mine, None)

    def _public(self, profile: Profile) -> str:
        """What clients of the profile call the tool; a guess while its server has told nothing."""
        listed = self._listed(profile)
        if listed is not None:
            return listed
        naming = profile.catalog.view.naming
        make = naming.prefixed if naming.prefix == "always" else naming.bare
        return make(self.slug, self._native)


def _caller(profile: str) -> Caller:
    return Caller(
        profile=profile,
        session=None,
        revision=NEWEST_MODERN,
        capabilities=NOTHING,
        client=_CLIENT,
        principal=PRINCIPAL,
        transport=TRANSPORT,
    )


def _settle(ended: "asyncio.Future[Ending]", exchange: Exchange, happening: Happening) -> None:
    # Answered as a client's call is, so that the record has what came of it.
    match happening:
        case Answered(result):
            exchange.give(result)
        case Refused(error):
            exchange.deny(error, error_code(error))
        case Failed(fault):
            exchange.deny(fault.render(NEWEST_MODERN), fault.code(NEWEST_MODERN))
        case _:
            return
    if not ended.done():
        ended.set_result(happening)


def _judged(ending: Ending, missing: tuple[str, ...]) -> Outcome:
    match ending:
        case Answered(result, shape):
            if (shape or read_shape(result)).failed:
                return GivenUp(words="the tool reported an error")
            return Done(missing=missing)
        case Refused(error):
            message = members.string(members.members(error).get("message"))
            return GivenUp(words=f"the server refused ({error_code(error)}): {message or ''}")
        case Failed(fault):
            return GivenUp(words=fault.words(NEWEST_MODERN))
