"""A gateway as commands see it: one started for the occasion, or one that runs elsewhere."""

import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from anyport.cli.caller import Ask, Caller, Tell
from anyport.cli.occasion import occasion
from anyport.cli.options import Given
from anyport.cli.setup import read_setup
from anyport.cli.target import read_target
from anyport.cli.visit import visit
from anyport.routing.catalog import Entry


class Front(Protocol):
    """A running gateway and a client in front of it."""

    @property
    def caller(self) -> Caller:
        """The client."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The tools that are known so far."""

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of the profile."""

    @property
    def takes_any_name(self) -> bool:
        """Whether tools can be called that are not listed."""

    @property
    def knows_servers(self) -> bool:
        """Whether it is a gateway of ours, and tells whose a tool is."""

    async def settle(self) -> None:
        """Wait until every server has told what it offers, or until waiting is pointless."""

    def tell_troubles(self, name: str | None = None) -> None:
        """Say on stderr which servers are missing, and why; for a named tool, only its own."""

    async def find(self, name: str) -> Entry | None:
        """The tool of that name."""

    def explain_missing(self, name: str) -> str:
        """Why no tool has this name, and which one may be meant."""

    async def report(self) -> dict[str, Any]:
        """What `gateway_status` says."""


def front(
    given: Given,
    *,
    ask: Ask | None = None,
    on_log: Tell | None = None,
    log_level: str | None = None,
) -> AbstractAsyncContextManager[Front]:
    """The gateway that the command line asks for.

    Raises:
        ConfigError: a file cannot be used.
        UnknownProfile: there is no such profile.
        WrongUsage: the options contradict each other.
    """
    if given.url is None:
        return occasion(read_setup(given), ask=ask, on_log=on_log, log_level=log_level)
    target = read_target(given, os.environ)
    return visit(target, ask=ask, on_log=on_log, log_level=log_level)
