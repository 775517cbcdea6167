"""Reports the servers that do not run after the start of `anyport serve`, once.

Servers are polled until each has started or failed; a listener would cost every call something.
"""

from collections.abc import Callable, Mapping
from typing import Final

from anyport.cli.preflight import server_obstacles
from anyport.gateway.gateway import Gateway
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ServerState

REPORT_SECONDS_MAX: Final = 10.0
"""After this, servers that are still starting are reported as such."""

REPORT_POLL_SECONDS: Final = 0.1
"""Between two polls."""

CallLater = Callable[[float, Callable[[], None]], object]
"""Calls a function after some seconds."""


class StartupReport:
    """The report on the servers of one gateway."""

    def __init__(self, gateway: Gateway, url: str, print_line: Callable[[str], None]) -> None:
        self._gateway = gateway
        self._url = url
        self._print = print_line
        self._cannot_start: set[str] = set()
        """Servers that were reported already."""

    def start(self, environ: Mapping[str, str], later: CallLater) -> None:
        """Report servers that cannot start on this machine, and later those that did not."""
        for slug, server in self._gateway.servers.items():
            reasons = list(server_obstacles(server.config, environ))
            if reasons:
                self._cannot_start.add(slug)
                self._print(f"server '{slug}' will not start: {'; '.join(reasons)}")
        self._check(later, REPORT_SECONDS_MAX)

    def _check(self, later: CallLater, left_seconds: float) -> None:
        if self._gateway.draining:
            return
        servers = [
            server
            for slug, server in self._gateway.servers.items()
            if slug not in self._cannot_start
        ]
        if left_seconds > 0 and any(map(is_undecided, servers)):
            left_seconds -= REPORT_POLL_SECONDS
            later(REPORT_POLL_SECONDS, lambda: self._check(later, left_seconds))
            return
        troubles = [(server.slug, describe_trouble(server)) for server in servers]
        messages = [
            f"server '{slug}' {trouble}" for slug, trouble in troubles if trouble is not None
        ]
        for line in messages:
            self._print(line)
        if messages or self._cannot_start:
            self._print(f"for their status, run 'anyport status --url {self._url}'")


def is_undecided(server: Server) -> bool:
    """Whether a server has neither started nor failed yet."""
    return server.state is ServerState.STARTING and server.last_error is None


def describe_trouble(server: Server) -> str | None:
    """Why a server does not run; None if it is ready, idle or disabled."""
    if server.config.disabled or server.state in (ServerState.READY, ServerState.IDLE):
        return None
    if is_undecided(server):
        return "is still starting"
    return f"is not running: {server.reason or server.last_error or 'no reason is known'}"
