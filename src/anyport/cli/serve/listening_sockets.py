"""The listening sockets of `anyport serve`: new ones, from systemd, or from its predecessor.

With `--upgrade` a new gateway takes the sockets over from the running one, so that no connection is
refused. `ingress.http.handover` passes the sockets between the processes.
"""

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyport.cli.exit_codes import CommandFailed, notify_user
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import start_servers
from anyport.ingress.http.handover import (
    SOCKETS_MAX,
    HandoverChannel,
    HandoverOffer,
    HandoverPeers,
    HandoverRefused,
    Predecessor,
)
from anyport.ingress.http.server import HttpIngress

READY_SECONDS_MAX: Final = 10.0
"""How long the predecessor goes on while the servers of its successor start."""

SETTLE_POLL_SECONDS: Final = 0.02
"""Between two looks at the starting servers."""

FIRST_SYSTEMD_FD: Final = 3
"""The first socket that systemd passes; see sd_listen_fds(3)."""


class ServeHandover:
    """The handover of listening sockets, from a predecessor and to a successor."""

    def __init__(
        self,
        state_dir: Path,
        address: tuple[str, int],
        *,
        predecessor: Predecessor | None = None,
        inherited: Sequence[socket.socket] = (),
    ) -> None:
        self.is_handed_over = False
        """Whether a successor accepts connections now."""
        self.keeps_address = bool(inherited)
        """Whether systemd keeps the address open after the end of this process."""
        self.on_handed_over: Callable[[int], None] | None = None
        """Called with the process id of the successor."""
        self._state_dir = state_dir
        self.address = address
        self._predecessor = predecessor
        self._inherited = inherited
        self._offer: HandoverOffer | None = None

    async def listen(self, gateway: Gateway, ingress: HttpIngress) -> tuple[str, int]:
        """Start the servers and accept connections; the address in use.

        A successor starts its servers first, while its predecessor still accepts connections.

        Raises:
            OSError: it cannot listen on the address.
        """
        peers = HandoverPeers(ingress.endpoint.sessions)
        predecessor, sockets = self._predecessor, self._inherited
        if predecessor is not None:
            start_servers(gateway)
            await _wait_settled(gateway)
            sockets = await asyncio.to_thread(predecessor.take_sockets)
        in_use = await (
            ingress.adopt_sockets(sockets) if sockets else ingress.listen(*self.address)
        )
        with suppress(OSError):  # Without an offer there is no handover; a successor reports it.
            self._offer = self._make_offer(ingress, peers, in_use[1])
            await self._offer.open()
        if predecessor is None:
            start_servers(gateway)
        elif sockets:
            with suppress(OSError):  # The predecessor is gone; its sockets are ours.
                peers.set_older(
                    await predecessor.confirm_accepting(peers.on_message, peers.on_lost)
                )
            notify_user(
                f"took over from process {predecessor.pid}, which finishes its open requests"
            )
        return in_use

    def close(self) -> None:
        """Stop offering the sockets to a successor."""
        if self._offer is not None:
            self._offer.close()

    def _make_offer(self, ingress: HttpIngress, peers: HandoverPeers, port: int) -> HandoverOffer:
        def on_taken_over(channel: HandoverChannel, pid: int) -> None:
            self.is_handed_over = True
            peers.set_newer(channel)
            ingress.hand_over_listening()
            if self.on_handed_over is not None:
                self.on_handed_over(pid)

        path = handover_socket_path(self._state_dir, port)
        offer = HandoverOffer(
            path, (self.address[0], port), lambda: ingress.descriptors, on_taken_over
        )
        offer.on_message = peers.on_message
        return offer


def handover_socket_path(state_dir: Path, port: int) -> Path:
    """The Unix socket at which a successor finds the gateway that listens on a port."""
    return state_dir / f"serve-{port}.sock"


def find_predecessor(state_dir: Path, address: tuple[str, int]) -> Predecessor | None:
    """The gateway to take over from; None if there is none.

    Raises:
        CommandFailed: it listens elsewhere, or refuses.
    """
    host, port = address
    try:
        predecessor = Predecessor.find(handover_socket_path(state_dir, port))
    except HandoverRefused as error:
        raise CommandFailed(str(error)) from None
    if predecessor is not None and predecessor.listens != address:
        listens = predecessor.listens
        location = "elsewhere" if listens is None else f"on {listens[0]}"
        predecessor.close()
        raise CommandFailed(
            f"cannot take over: the gateway with process id {predecessor.pid} listens {location}, "
            f"port {port}, not on {host}; stop it first"
        )
    return predecessor


def inherited_sockets(environ: MutableMapping[str, str], pid: int) -> list[socket.socket]:
    """The listening sockets that systemd passes to this process.

    Raises:
        CommandFailed: a socket is not TCP.
    """
    is_for_us = environ.pop("LISTEN_PID", "") == str(pid)
    number = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not is_for_us or not number.isdigit():
        return []
    sockets = []
    for descriptor in range(FIRST_SYSTEMD_FD, FIRST_SYSTEMD_FD + min(int(number), SOCKETS_MAX)):
        os.set_inheritable(descriptor, False)  # Child processes must not get them.
        sockets.append(socket.socket(fileno=descriptor))
    if any(sock.family not in (socket.AF_INET, socket.AF_INET6) for sock in sockets):
        for sock in sockets:
            sock.close()
        raise CommandFailed(
            "systemd passed a socket that is not TCP: use ListenStream=127.0.0.1:8640 in the unit"
        )
    return sockets


async def _wait_settled(gateway: Gateway) -> None:
    """Wait until every server has listed what it offers or failed, or until time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS_MAX
    while loop.time() < deadline and not all(
        server.lists_settled for server in gateway.servers.values()
    ):
        await asyncio.sleep(SETTLE_POLL_SECONDS)
