"""One `anyport serve` after another at the same address: who listens when, and who lets go.

Where the listening sockets come from and where they go is decided here. How they travel is the
ingress's business, and so is how clients are parted from.
"""

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyport.cli.ending import CommandFailed, say
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import start_servers
from anyport.ingress.http.handover import SOCKETS_MAX, Line, Offer, Predecessor, Unwilling
from anyport.ingress.http.kin import Kin
from anyport.ingress.http.server import HttpIngress

READY_SECONDS_MAX: Final = 10.0
"""Servers that have not started then are not waited for: so long the one before goes on."""

LOOK_SECONDS: Final = 0.02
"""Between two looks whether they have."""

FIRST_INHERITED: Final = 3
"""The number of the first socket that systemd passes on; see sd_listen_fds(3)."""


class Succession:
    """One gateway, between the one before it and the one after."""

    def __init__(
        self,
        state_dir: Path,
        place: tuple[str, int],
        *,
        before: Predecessor | None = None,
        inherited: Sequence[socket.socket] = (),
    ) -> None:
        self.over = False
        """Whether a successor accepts connections now."""
        self.kept = bool(inherited)
        """Whether the address stays open when we end: who started us keeps it for who follows."""
        self.on_over: Callable[[int], None] | None = None
        """Called with the process id of a successor, once that accepts connections."""
        self._state_dir = state_dir
        self.place = place
        self._before = before
        self._inherited = inherited
        self._offer: Offer | None = None

    async def listen(self, gateway: Gateway, ingress: HttpIngress) -> tuple[str, int]:
        """Start the servers and accept connections; the address in use.

        Who takes over from another is ready first, and lets the other go on until then.

        Raises:
            OSError: it cannot be listened on.
        """
        kin = Kin(ingress.endpoint.sessions)
        before, sockets = self._before, self._inherited
        if before is not None:
            start_servers(gateway)
            await _settle(gateway)
            sockets = await asyncio.to_thread(before.take)
        in_use = await (ingress.take(sockets) if sockets else ingress.listen(*self.place))
        with suppress(OSError):  # Then it can have no successor, who will be told.
            self._offer = self._made_offer(ingress, kin, in_use[1])
            await self._offer.open()
        if before is None:
            start_servers(gateway)
        elif sockets:
            with suppress(OSError):  # It has gone, and left us its sockets.
                kin.follow(await before.accepted(kin.heard, kin.lost))
            say(f"took over from process {before.pid}, which finishes what is open there")
        return in_use

    def close(self) -> None:
        """There can be no successor any more."""
        if self._offer is not None:
            self._offer.close()

    def _made_offer(self, ingress: HttpIngress, kin: Kin, port: int) -> Offer:
        def taken(line: Line, pid: int) -> None:
            self.over = True
            kin.precede(line)
            ingress.give_way()
            if self.on_over is not None:
                self.on_over(pid)

        path = meeting_place(self._state_dir, port)
        offer = Offer(path, (self.place[0], port), lambda: ingress.descriptors, taken)
        offer.heard = kin.heard
        return offer


def meeting_place(state_dir: Path, port: int) -> Path:
    """Where a gateway that listens on a port and its successor find each other."""
    return state_dir / f"serve-{port}.sock"


def find_predecessor(state_dir: Path, place: tuple[str, int]) -> Predecessor | None:
    """The gateway that listens there now; None if there is none.

    Raises:
        CommandFailed: there is one, and it cannot be taken over from.
    """
    host, port = place
    try:
        found = Predecessor.find(meeting_place(state_dir, port))
    except Unwilling as error:
        raise CommandFailed(str(error)) from None
    if found is not None and found.listens != place:
        there = "elsewhere" if found.listens is None else f"on {found.listens[0]}"
        found.close()
        raise CommandFailed(
            f"the gateway with process id {found.pid} listens {there}, port {port}, and this one "
            f"is to listen on {host}: stop it first"
        )
    return found


def inherited_sockets(environ: MutableMapping[str, str], pid: int) -> list[socket.socket]:
    """The sockets that systemd listens on for us; none if it does not.

    Raises:
        CommandFailed: clients cannot come through them.
    """
    meant = environ.pop("LISTEN_PID", "") == str(pid)
    number = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not meant or not number.isdigit():
        return []
    sockets = []
    for descriptor in range(FIRST_INHERITED, FIRST_INHERITED + min(int(number), SOCKETS_MAX)):
        os.set_inheritable(descriptor, False)  # Servers that are started must not have them.
        sockets.append(socket.socket(fileno=descriptor))
    if any(each.family not in (socket.AF_INET, socket.AF_INET6) for each in sockets):
        for each in sockets:
            each.close()
        raise CommandFailed(
            "a socket that systemd passed on is not TCP: write ListenStream=127.0.0.1:8640"
        )
    return sockets


async def _settle(gateway: Gateway) -> None:
    """Wait until every server has started and told what it offers, or has had its time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + READY_SECONDS_MAX
    while loop.time() < until and not all(each.settled for each in gateway.servers.values()):
        await asyncio.sleep(LOOK_SECONDS)
