"""Checks the listen address: whether it is free, or what listens there."""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from anyport import __version__
from anyport.cli.connect.http import API, TOKEN_VARIABLE, ApiClient, read_target
from anyport.cli.doctor.findings import (
    DoctorFinding,
    Section,
    good,
    hint,
    problem,
    skipped_section,
    warning,
)
from anyport.cli.exit_codes import CommandFailed
from anyport.cli.options import SharedOptions
from anyport.cli.serve.serve import explain_listen_error
from anyport.cli.setup import WILDCARD_ADDRESSES, origin_url
from anyport.config.model import Config

NAME: Final = "listening"

REPLY_SECONDS_MAX: Final = 3.0
"""A gateway on this machine answers in milliseconds."""

Occupant: TypeAlias = Literal["free", "gateway", "unauthorized", "other", "unavailable"]
"""`unauthorized`: it requires a token, so it may be a gateway or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """The listen address, and what listens there."""

    url: str
    occupant: Occupant
    reason: str = ""
    """Why the gateway cannot listen there."""
    version: str = ""
    uptime_seconds: float = 0.0
    servers: frozenset[str] = frozenset()
    profiles: frozenset[str] = frozenset()


class _Gateway(msgspec.Struct, frozen=True):
    name: str
    version: str
    uptime_s: float


class _Status(msgspec.Struct, frozen=True):
    """`GET /api/v1/status`, as far as needed here."""

    gateway: _Gateway
    servers: dict[str, msgspec.Raw]
    profiles: dict[str, msgspec.Raw]


async def probe_listener(config: Config, environ: Mapping[str, str]) -> ListenAddress:
    """Find out what listens on the configured address, without disturbing it."""
    host, port = config.gateway.host, config.gateway.port
    url = origin_url(WILDCARD_ADDRESSES.get(host, host), port)
    reason = _bind_error(host, port)
    if reason is None:
        return ListenAddress(url=url, occupant="free")
    if not await _is_answering(WILDCARD_ADDRESSES.get(host, host), port):
        return ListenAddress(url=url, occupant="unavailable", reason=reason)
    api = ApiClient(read_target(SharedOptions(url=url), environ))
    try:
        async with asyncio.timeout(REPLY_SECONDS_MAX):
            status = msgspec.json.decode(await api.get(f"{API}/status"), type=_Status)
    except CommandFailed as error:
        return ListenAddress(
            url=url, occupant="unauthorized" if "HTTP 401" in str(error) else "other"
        )
    except (TimeoutError, msgspec.DecodeError):
        return ListenAddress(url=url, occupant="other")
    finally:
        api.close()
    return ListenAddress(
        url=url,
        occupant="gateway",
        version=status.gateway.version,
        uptime_seconds=status.gateway.uptime_s,
        servers=frozenset(status.servers),
        profiles=frozenset(status.profiles),
    )


def check_listener(address: ListenAddress | None, config: Config | None) -> Section:
    """The findings."""
    if address is None or config is None:
        return skipped_section(NAME)
    return Section(
        name=NAME,
        summary=f"{address.url}: {_summary(address)}",
        findings=tuple(_findings(address, config)),
    )


def _summary(address: ListenAddress) -> str:
    match address.occupant:
        case "free":
            return "free"
        case "gateway":
            uptime = _duration(address.uptime_seconds)
            return f"a gateway listens there, version {address.version}, up for {uptime}"
        case "unauthorized":
            return "a server that requires a token listens there"
        case "other":
            return "in use by another program"
        case "unavailable":
            return "not available"


def _findings(address: ListenAddress, config: Config) -> Iterator[DoctorFinding]:
    match address.occupant:
        case "free":
            yield good(code="address", what="the address is free")
        case "gateway":
            yield good(code="address", what="an Anyport gateway listens there")
            yield from _check_gateway(address, config)
        case "unauthorized":
            yield hint(
                code="address",
                what="the server at this address requires a token",
                why="without the token it is unknown whether it is your gateway",
                fix=f"set {TOKEN_VARIABLE} to one of its tokens, and run 'anyport doctor' again",
            )
        case "other":
            yield problem(
                code="address",
                what="the server at this address is not an Anyport gateway",
                why="'anyport serve' cannot start there",
                fix="under [gateway], choose another port in listen; to see what uses the port: "
                f"lsof -i :{config.gateway.port}",
            )
        case "unavailable":
            what, _, fix = address.reason.partition(": ")
            why = "'anyport serve' cannot start"
            yield problem(code="address", what=what, why=why, fix=fix or "see gateway.listen")


def _check_gateway(address: ListenAddress, config: Config) -> Iterator[DoctorFinding]:
    if address.version != __version__:
        yield warning(
            code="other-version",
            what=f"it is version {address.version}, and this is {__version__}",
            why="the running gateway is not the installed version",
            fix="stop it, and run 'anyport serve' again",
        )
    differences = [
        f"{what} {', '.join(sorted(there ^ here))}"
        for what, there, here in (
            ("servers", address.servers, frozenset(config.servers)),
            ("profiles", address.profiles, frozenset(config.profiles)),
        )
        if there != here
    ]
    if differences:
        yield warning(
            code="other-configuration",
            what="it has another configuration, with different " + " and ".join(differences),
            why="its clients do not get this configuration",
            fix=f"to load this configuration: anyport reload --url {address.url}",
        )


def _duration(seconds: float) -> str:
    for unit, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= unit:
            count = int(seconds / unit)
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return "less than a second"


async def _is_answering(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(REPLY_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _bind_error(host: str, port: int) -> str | None:
    """Why the gateway cannot listen there; None if it can."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            if os.name == "posix":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        return explain_listen_error(error, host, port)
    return None
