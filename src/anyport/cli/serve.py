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
from anyport.cli.options import HOST, PORT, UPGRADE, Given, Listening
from anyport.cli.outlook import Outlook
from anyport.cli.ready import EVERYWHERE, Ready, ready
from anyport.cli.recording import obstacle
from anyport.cli.render import flush, out_json
from anyport.cli.renewing import Renewing, reader
from anyport.cli.setup import announced_config
from anyport.cli.stopping import Stopping
from anyport.cli.succession import Succession, find_predecessor, inherited_sockets
from anyport.config.address import exposure
from anyport.config.schema import Config
from anyport.gateway.runtime import HANDED_OVER, Gateway
from anyport.gateway.serving import http_ingress
from anyport.ingress.http.server import HttpIngress

LAME_DUCK_SECONDS: Final = 5.0
"""So long new requests are told to come back, while others are still being answered."""

DRAIN_SECONDS_MAX: Final = 30.0
"""What is in flight then has so long to finish; whoever stops us seldom waits longer."""

IDLE_SECONDS: Final = 10.0
"""A connection that nobody has used for so long is closed when another gateway has taken over;
the usual clients have forgotten such a one after five."""

OVER_SECONDS_MAX: Final = 600.0
"""What was open then has so long to finish: nobody waits for us, and few calls may take longer."""

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
    config = served(announced_config(given), given.profile)
    for warning in config.warnings:
        say(f"warning: {warning}")
    inherited = inherited_sockets(os.environ, os.getpid())
    host, port = inherited[0].getsockname()[:2] if inherited else address(config, listening)
    refusal = exposure(config, host)
    if refusal is not None:
        raise CommandFailed(refusal)
    if host in EVERYWHERE and not config.gateway.allowed_hosts:
        # Whoever comes by any other name is turned away, and would not know why.
        say("warning: clients on other machines are let in by the names in gateway.allowedHosts")
    state_dir = places.state_dir(given.state_dir, os.environ)
    before = None
    if listening.upgrade and port and not inherited:
        before = find_predecessor(state_dir, (host, port))
    succession = Succession(state_dir, (host, port), before=before, inherited=inherited)
    ended = run(_serve(config, state_dir, succession, given))
    if isinstance(ended, CommandFailed):
        raise ended
    return ended


def served(config: Config, profile: str | None) -> Config:
    """The configuration of a gateway that serves only this profile, or all."""
    if profile is None:
        return config
    chosen = config.profile(profile)
    return replace(config, profiles=MappingProxyType({chosen.slug: chosen}))


def address(config: Config, listening: Listening) -> tuple[str, int]:
    """Where to listen: as the command line says, or else the configuration."""
    host, port = config.gateway.host, config.gateway.port
    return (
        host if listening.host is None else listening.host.strip("[]"),
        port if listening.port is None else listening.port,
    )


async def _serve(
    config: Config, state_dir: Path, succession: Succession, given: Given
) -> int | CommandFailed:
    place = succession.place
    async with Gateway(config, state_dir, sole=False) as gateway:
        stopping = Stopping(partial(_stop_at_once, gateway))
        stopping.listen()
        if gateway.keys_warning is not None:
            say(gateway.keys_warning)
        refusal = obstacle(gateway)
        if refusal is not None:
            return CommandFailed(refusal)
        ingress = http_ingress(gateway, place[0])
        succession.on_over = partial(_tell_over, gateway, stopping)
        try:
            in_use = await succession.listen(gateway, ingress)
        except OSError as error:
            return CommandFailed(explain(error, *place))
        accepting = ready(config, *in_use)
        shape = partial(served, profile=given.profile)
        gateway.reload.source = reader(given, shape, partial(exposure, host=place[0]))
        Renewing(gateway, given).begin()
        _tell(accepting, as_json=given.json)
        if not given.json:
            later = asyncio.get_running_loop().call_later
            Outlook(gateway, accepting.url, say).begin(os.environ, later)
        code = await stopping.wait_asked()
        if succession.over:
            await _leave(gateway, ingress)
        else:
            await _drain(gateway, ingress, kept=succession.kept)
        succession.close()
        await _close(ingress)
    trouble = gateway.journal.last_error
    if trouble is not None:
        say(f"warning: not everything could be recorded in {state_dir}: {trouble}")
    return code


async def _drain(gateway: Gateway, ingress: HttpIngress, *, kept: bool) -> None:
    """Finish what is open. Where somebody keeps the address for us, nobody is turned away."""
    patience = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, _ask_for_patience)
    gateway.draining = True
    finish = ingress.leave if kept else ingress.drain
    await finish(LAME_DUCK_SECONDS, DRAIN_SECONDS_MAX)
    patience.cancel()


async def _leave(gateway: Gateway, ingress: HttpIngress) -> None:
    """Finish what is open, while a successor does everything else; a signal makes that quicker."""
    stopping = Stopping(partial(_stop_at_once, gateway))
    stopping.listen()
    stopping.when_asked(partial(ingress.hasten, DRAIN_SECONDS_MAX))
    await ingress.leave(IDLE_SECONDS, OVER_SECONDS_MAX)
    gateway.draining = True


def _tell_over(gateway: Gateway, stopping: Stopping, successor: int) -> None:
    gateway.parting = HANDED_OVER
    gateway.note("gateway.handed_over", successor=successor)
    say(f"process {successor} has taken over; finishing what is open here")
    stopping.ask()


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
            f"port {port} on {host} is taken: choose another with {PORT.name}, or any free one "
            f"with {PORT.name} 0; {UPGRADE.name} takes over from a gateway of yours with the same "
            "state directory"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges: choose one from 1024 on with {PORT.name}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose one with {HOST.name}"
    reason = error.strerror or type(error).__name__
    return f"cannot listen on {host}, port {port}: {reason}"
