"""`anyport serve`: runs the gateway over HTTP until a signal stops it."""

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

from anyport.cli.exit_codes import CommandFailed, notify_user, run_async
from anyport.cli.options import HOST, PORT, UPGRADE, ListenOptions, SharedOptions
from anyport.cli.output import flush, out_json
from anyport.cli.serve.banner import ReadyBanner, make_banner
from anyport.cli.serve.config_watch import ConfigWatcher, make_config_reader
from anyport.cli.serve.listening_sockets import ServeHandover, find_predecessor, inherited_sockets
from anyport.cli.serve.signals import StopSignals
from anyport.cli.serve.startup_report import StartupReport
from anyport.cli.setup import (
    WILDCARD_ADDRESSES,
    announced_config,
    record_obstacle,
    trusted_state_dir,
)
from anyport.config.addresses import explain_exposure
from anyport.config.model import Config
from anyport.gateway.gateway import HANDED_OVER, Gateway
from anyport.gateway.http_app import make_http_ingress
from anyport.ingress.http.server import HttpIngress

LAME_DUCK_SECONDS: Final = 5.0
"""How long new requests get status 503 with `Retry-After` while open ones finish."""

DRAIN_SECONDS_MAX: Final = 30.0
"""How long open requests may take after that; init systems seldom wait longer."""

IDLE_SECONDS: Final = 10.0
"""After a handover, connections without a request for this long are closed; common clients drop
them from their pools after five seconds."""

HANDOVER_DRAIN_SECONDS_MAX: Final = 600.0
"""How long open requests may take after a handover."""

DRAIN_NOTICE_SECONDS: Final = 0.5
"""After this, the reason why it has not stopped yet is printed."""

CLOSE_SECONDS_MAX: Final = 2.0
"""For clients to read the last responses."""

CLOSE_POLL_SECONDS: Final = 0.01
"""Between two looks at the open connections."""


def serve(options: SharedOptions, listen_options: ListenOptions) -> int:
    """Serve clients until SIGTERM or SIGINT; the exit code.

    Raises:
        CommandFailed: it cannot or must not listen on the address.
    """
    config = limit_to_profile(announced_config(options), options.profile)
    for warning in config.warnings:
        notify_user(f"warning: {warning}")
    inherited = inherited_sockets(os.environ, os.getpid())
    host, port = (
        inherited[0].getsockname()[:2] if inherited else listen_address(config, listen_options)
    )
    refusal = explain_exposure(config, host)
    if refusal is not None:
        raise CommandFailed(refusal)
    if host in WILDCARD_ADDRESSES and not config.gateway.allowed_hosts:
        # The check of the Host header would refuse them without a hint in the log.
        notify_user(
            "warning: clients on other machines will be refused: add the host names that they use "
            "to gateway.allowedHosts"
        )
    state_dir = trusted_state_dir(options)
    predecessor = None
    if listen_options.upgrade and port and not inherited:
        predecessor = find_predecessor(state_dir, (host, port))
    handover = ServeHandover(state_dir, (host, port), predecessor=predecessor, inherited=inherited)
    result = run_async(_serve(config, state_dir, handover, options))
    if isinstance(result, CommandFailed):
        raise result
    return result


def limit_to_profile(config: Config, profile: str | None) -> Config:
    """The configuration with only this profile; all of it without one."""
    if profile is None:
        return config
    chosen = config.profile(profile)
    return replace(config, profiles=MappingProxyType({chosen.slug: chosen}))


def listen_address(config: Config, options: ListenOptions) -> tuple[str, int]:
    """Host and port of the command line, or else of the configuration."""
    host, port = config.gateway.host, config.gateway.port
    return (
        host if options.host is None else options.host.strip("[]"),
        port if options.port is None else options.port,
    )


async def _serve(
    config: Config, state_dir: Path, handover: ServeHandover, options: SharedOptions
) -> int | CommandFailed:
    address = handover.address
    async with Gateway(config, state_dir, sole=False) as gateway:
        stop_signals = StopSignals(partial(_stop_at_once, gateway))
        stop_signals.listen()
        if gateway.keys_warning is not None:
            notify_user(gateway.keys_warning)
        refusal = record_obstacle(gateway)
        if refusal is not None:
            return CommandFailed(refusal)
        ingress = make_http_ingress(gateway, address[0])
        handover.on_handed_over = partial(_report_handover, gateway, stop_signals)
        try:
            in_use = await handover.listen(gateway, ingress)
        except OSError as error:
            return CommandFailed(explain_listen_error(error, *address))
        banner = make_banner(config, *in_use)
        shape = partial(limit_to_profile, profile=options.profile)
        gateway.reload.source = make_config_reader(
            options, shape, partial(explain_exposure, host=address[0])
        )
        ConfigWatcher(gateway, options).start()
        _print_banner(banner, as_json=options.json)
        if not options.json:
            later = asyncio.get_running_loop().call_later
            StartupReport(gateway, banner.url, notify_user).start(os.environ, later)
        code = await stop_signals.wait_stop_requested()
        if handover.is_handed_over:
            await _finish_after_handover(gateway, ingress)
        else:
            await _drain(gateway, ingress, keeps_address=handover.keeps_address)
        handover.close()
        await _close(ingress)
    trouble = gateway.journal.last_error
    if trouble is not None:
        notify_user(f"warning: not everything could be recorded in {state_dir}: {trouble}")
    return code


async def _drain(gateway: Gateway, ingress: HttpIngress, *, keeps_address: bool) -> None:
    """Finish open requests; new ones are refused, unless systemd keeps the address open."""
    notice = asyncio.get_running_loop().call_later(DRAIN_NOTICE_SECONDS, _announce_drain)
    gateway.draining = True
    finish = ingress.drain_without_refusing if keeps_address else ingress.drain
    await finish(LAME_DUCK_SECONDS, DRAIN_SECONDS_MAX)
    notice.cancel()


async def _finish_after_handover(gateway: Gateway, ingress: HttpIngress) -> None:
    """Finish open requests after a handover; a signal shortens the time for that."""
    stop_signals = StopSignals(partial(_stop_at_once, gateway))
    stop_signals.listen()
    stop_signals.add_stop_callback(partial(ingress.shorten_drain, DRAIN_SECONDS_MAX))
    await ingress.drain_without_refusing(IDLE_SECONDS, HANDOVER_DRAIN_SECONDS_MAX)
    gateway.draining = True


def _report_handover(gateway: Gateway, stop_signals: StopSignals, successor: int) -> None:
    gateway.stop_reason = HANDED_OVER
    gateway.note("gateway.handed_over", successor=successor)
    notify_user(f"process {successor} has taken over; finishing open requests")
    stop_signals.request_stop()


async def _close(ingress: HttpIngress) -> None:
    """Close all connections, each after its last bytes are sent."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await ingress.close()
            while ingress.connections:
                await asyncio.sleep(CLOSE_POLL_SECONDS)


def _stop_at_once(gateway: Gateway, code: int) -> None:
    """Exit without waiting; the reaper then kills the child processes."""
    gateway.journal.flush()
    os._exit(code)


def _print_banner(banner: ReadyBanner, *, as_json: bool) -> None:
    if as_json:
        out_json(banner.report(os.getpid()), indent=0)
        flush()
        return
    terminal = sys.stderr.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    with suppress(OSError):  # A closed stderr must not end the gateway.
        sys.stderr.write("".join(f"{line}\n" for line in banner.lines(colour=colour)))
        sys.stderr.flush()


def _announce_drain() -> None:
    seconds = LAME_DUCK_SECONDS + DRAIN_SECONDS_MAX
    notify_user(
        f"finishing open requests, for {seconds:g} s at most; a second signal stops at once"
    )


def explain_listen_error(error: OSError, host: str, port: int) -> str:
    """Why the gateway cannot listen on an address, and what to do."""
    if isinstance(error, socket.gaierror):
        return f"unknown host {host}: choose an address of this machine with {HOST.name}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use: choose another with {PORT.name}, or any free one "
            f"with {PORT.name} 0; or take over from your gateway with the same state directory "
            f"with {UPGRADE.name}"
        )
    if error.errno == errno.EACCES:
        return f"port {port} requires privileges: choose a port from 1024 on with {PORT.name}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: choose one with {HOST.name}"
    reason = error.strerror or type(error).__name__
    return f"cannot listen on {host}, port {port}: {reason}"
