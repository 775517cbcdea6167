"""What a gateway that has just started tells about servers that do not run.

It looks at them from a timer until each has started or failed once: a listener would cost every
call something. It tells once; how they are doing later, `anyport status` shows.
"""

from collections.abc import Callable, Mapping
from typing import Final

from anyport.cli.check import obstacles
from anyport.gateway.runtime import Gateway
from anyport.upstream.server import Server
from anyport.upstream.tender import State

OUTLOOK_SECONDS_MAX: Final = 10.0
"""Servers that are still starting then are told as that: nobody looks at a banner for longer."""

OUTLOOK_LOOK_SECONDS: Final = 0.1
"""Between two looks at them."""

Later = Callable[[float, Callable[[], None]], object]
"""Runs something after some seconds."""


class Outlook:
    """The servers of one gateway, until they have shown what becomes of them."""

    def __init__(self, gateway: Gateway, url: str, say: Callable[[str], None]) -> None:
        self._gateway = gateway
        self._url = url
        self._say = say
        self._hopeless: set[str] = set()
        """Those that were told of already."""

    def begin(self, environ: Mapping[str, str], later: Later) -> None:
        """Tell who cannot start on this machine, and later who has not."""
        for slug, server in self._gateway.servers.items():
            reasons = list(obstacles(server.config, environ))
            if reasons:
                self._hopeless.add(slug)
                self._say(f"server '{slug}' will not start: {'; '.join(reasons)}")
        self._look(later, OUTLOOK_SECONDS_MAX)

    def _look(self, later: Later, left_seconds: float) -> None:
        if self._gateway.draining:
            return
        watched = [
            server for slug, server in self._gateway.servers.items() if slug not in self._hopeless
        ]
        if left_seconds > 0 and any(map(is_undecided, watched)):
            left_seconds -= OUTLOOK_LOOK_SECONDS
            later(OUTLOOK_LOOK_SECONDS, lambda: self._look(later, left_seconds))
            return
        troubles = [(server.slug, trouble(server)) for server in watched]
        told = [f"server '{slug}' {words}" for slug, words in troubles if words is not None]
        for line in told:
            self._say(line)
        if told or self._hopeless:
            self._say(f"'anyport status --url {self._url}' shows how they are")


def is_undecided(server: Server) -> bool:
    """Whether a server has neither started nor failed yet."""
    return server.state is State.STARTING and server.last_error is None


def trouble(server: Server) -> str | None:
    """Why a server does not run; None for one that does, or rests, or is switched off."""
    if server.config.disabled or server.state in (State.READY, State.IDLE):
        return None
    if is_undecided(server):
        return "is still starting"
    return f"is not running: {server.reason or server.last_error or 'no reason is known'}"
