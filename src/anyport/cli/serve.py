"""`anyport serve`: the gateway over HTTP, until a signal ends it.

Says where it listens once it does, and on the first signal finishes what is open. The order of
things stands here; what each of them takes is the gateway's business and the ingress's.
"""

import asyncio
import errno
import os
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from anyport.cli import places
from anyport.cli.ending import CommandFailed, say
from anyport.cli.loop import run
from anyport.cli.options import HOST, PORT, Given, Listening
from anyport.cli.outlook import Outlook
from anyport.cli.ready import EVERYWHERE, Ready, ready
from anyport.cli.render import flush, out_json
from anyport.cli.setup import announced_config
from anyport.cli.stopping import Stopping
from anyport.config.address import exposure
from anyport.config.schema import Config
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import http_ingress, start_servers
from anyport.ingress.http.server import HttpIngress

LAME_DUCK_SECONDS: Final = 5.0
"""So long new requests are told to come back, while others are still being answered."""

DRAIN_SECONDS_MAX: Final = 30.0
"""What is in flight then has so long to finish; whoever stops us seldom waits longer."""

PATIENCE_SECONDS: Final = 0.5
"""From here on a person wants to know why it does not end."""

CLOSE_SECONDS_MAX: Final = 2.0
"""Last words reach a client that reads; for others nobody waits."""

LOOK_SECONDS: Final = 0.01
"""Between two looks whether they have."""


def serve(given: Given, listening: Listening) -> int:
    """Serve clients until SIGTERM or SIGINT; the exit code.

    Raises:
        CommandFailed: it cannot or must not listen there.
    """
    config = announced_config(given)
    if given.profile is not None:
        chosen = config.profile(given.profile)
        config = replace(config, profiles=MappingProxyType({chosen.slug: chosen}))
    for warning in config.warnings:
        say(f"warning: {warning}")
    host, port = address(config, listening)
    refusal = exposure(config, host)
    if refusal is not None:
        raise CommandFailed(refusal)
    if host in EVERYWHERE and not config.gateway.allowed_hosts:
        # Whoever comes by any other name is turned away, and would not know why.
        say("warning: clients on other machines are let in by the names in gateway.allowedHosts")
    state_dir = places.state_dir(given.state_dir, os.environ)
    served = run(_serve(config, state_dir, (host, port), as_json=given.json))
    if isinstance(served, CommandFailed):
        raise served
    return served


def address(config: Config, listening: Listening) -> tuple[str, int]:
    """Where to listen: as the command line says, or else the configuration."""
    host, port = config.gateway.host, config.gateway.port
    return (
        host if listening.host is None else listening.host.strip("[]"),
        port if listening.port is None else listening.port,
    )


async def _serve(
    config: Config, state_dir: Path, place: tuple[str, int], *, as_json: bool
) -> int | CommandFailed:
    async with Gateway(config, state_dir, sole=False) as gateway:
        stopping = Stopping(partial(_stop_at_once, gateway))
        stopping.listen()
        if gateway.keys_warning is not None:
            say(gateway.keys_warning)
        ingress = http_ingress(gateway, place[0])
        try:
            in_use = await ingress.listen(*place)
        except OSError as error:
            return CommandFailed(explain(error, *place))
        accepting = ready(config, *in_use)
        _tell(accepting, as_json=as_json)
        start_servers(gateway)
        if not as_json:
            later = asyncio.get_running_loop().call_later
            Outlook(gateway, accepting.url, say).begin(os.environ, later)
        code = await stopping.wait_asked()
        patience = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, _ask_for_patience)
        gateway.draining = True
        await ingress.drain(LAME_DUCK_SECONDS, DRAIN_SECONDS_MAX)
        patience.cancel()
        await _close(ingress)
    trouble = gateway.journal.last_error
    if trouble is not None:
        say(f"warning: not everything could be recorded in {state_dir}: {trouble}")
    return code


async def _close(ingress: HttpIngress) -> None:
    """Hang up; a connection is gone once all that was said on it has been sent."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await ingress.close()
            while ingress.inlets:
                await asyncio.sleep(LOOK_SECONDS)


def _stop_at_once(gateway: Gateway, code: int) -> None:
    """Somebody insists. The servers are killed as soon as they find us gone."""
    gateway.journal.flush()
    os._exit(code)


def _tell(accepting: Ready, *, as_json: bool) -> None:
    if as_json:
        out_json(accepting.report(os.getpid()), indent=0)
        flush()
        return
    terminal = sys.stderr.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    with suppress(OSError):  # Nobody listens; that is no reason to fail.
        sys.stderr.write("".join(f"{line}\n" for line in accepting.lines(colour=colour)))
        sys.stderr.flush()


def _ask_for_patience() -> None:
    seconds = LAME_DUCK_SECONDS + DRAIN_SECONDS_MAX
    say(f"finishing what is open, for {seconds:g} s at most; a second signal stops it at once")


def explain(error: OSError, host: str, port: int) -> str:
    """Why an address cannot be listened on, and what to do about it."""
    if isinstance(error, socket.gaierror):
        return f"the name {host} is not known: give an address of this machine with {HOST.name}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is taken, perhaps by another gateway: "
            f"choose another with {PORT.name}, or any free one with {PORT.name} 0"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges: choose one from 1024 on with {PORT.name}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose one with {HOST.name}"
    reason = error.strerror or type(error).__name__
    return f"cannot listen on {host}, port {port}: {reason}"
