"""The address to listen on: whether it is free, or who is there.

Asks whoever answers who it is; nothing is listened on, and nobody is disturbed.
"""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from anyport import __version__
from anyport.cli.doctoring.finding import (
    Finding,
    Section,
    good,
    hint,
    passed_over,
    problem,
    warning,
)
from anyport.cli.ending import CommandFailed
from anyport.cli.options import Given
from anyport.cli.reach import API, Reach
from anyport.cli.ready import EVERYWHERE, origin
from anyport.cli.serve import explain
from anyport.cli.target import TOKEN_VARIABLE, read_target
from anyport.config.schema import Config

NAME: Final = "listening"

REPLY_SECONDS_MAX: Final = 3.0
"""A gateway on this machine answers in a millisecond."""

Occupant: TypeAlias = Literal["nobody", "gateway", "guarded", "stranger", "impossible"]
"""`guarded` wants a token, and does not tell who it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Who is where the gateway is to listen."""

    url: str
    occupant: Occupant
    words: str = ""
    """Why nobody can listen there."""
    version: str = ""
    uptime_seconds: float = 0.0
    servers: frozenset[str] = frozenset()
    profiles: frozenset[str] = frozenset()


class _Gateway(msgspec.Struct, frozen=True):
    name: str
    version: str
    uptime_s: float


class _Status(msgspec.Struct, frozen=True):
    """What of a gateway's answer is needed here."""

    gateway: _Gateway
    servers: dict[str, msgspec.Raw]
    profiles: dict[str, msgspec.Raw]


async def look(config: Config, environ: Mapping[str, str]) -> Address:
    """Find out who is there."""
    host, port = config.gateway.host, config.gateway.port
    url = origin(EVERYWHERE.get(host, host), port)
    words = _why_impossible(host, port)
    if words is None:
        return Address(url=url, occupant="nobody")
    if not await _answers(EVERYWHERE.get(host, host), port):
        return Address(url=url, occupant="impossible", words=words)
    reach = Reach(read_target(Given(url=url), environ))
    try:
        async with asyncio.timeout(REPLY_SECONDS_MAX):
            status = msgspec.json.decode(await reach.get(f"{API}/status"), type=_Status)
    except CommandFailed as error:
        return Address(url=url, occupant="guarded" if "HTTP 401" in str(error) else "stranger")
    except (TimeoutError, msgspec.DecodeError):
        return Address(url=url, occupant="stranger")
    finally:
        reach.close()
    return Address(
        url=url,
        occupant="gateway",
        version=status.gateway.version,
        uptime_seconds=status.gateway.uptime_s,
        servers=frozenset(status.servers),
        profiles=frozenset(status.profiles),
    )


def judge(address: Address | None, config: Config | None) -> Section:
    """What is to be said of it."""
    if address is None or config is None:
        return passed_over(NAME)
    return Section(
        name=NAME,
        summary=f"{address.url}: {_summary(address)}",
        findings=tuple(_findings(address, config)),
    )


def _summary(address: Address) -> str:
    match address.occupant:
        case "nobody":
            return "free"
        case "gateway":
            uptime = _duration(address.uptime_seconds)
            return f"a gateway runs there, version {address.version}, for {uptime}"
        case "guarded":
            return "somebody is there who wants a token"
        case "stranger":
            return "taken by another program"
        case "impossible":
            return "cannot be listened on"


def _findings(address: Address, config: Config) -> Iterator[Finding]:
    match address.occupant:
        case "nobody":
            yield good(code="address", what="nobody listens there; 'anyport serve' can")
        case "gateway":
            yield good(code="address", what="a gateway of ours runs there")
            yield from _judge_gateway(address, config)
        case "guarded":
            yield hint(
                code="address",
                what="whoever is there wants a token, and does not say who it is",
                why="so it cannot be told whether it is your gateway",
                mend=f"set {TOKEN_VARIABLE} to one of its tokens, and run this again",
            )
        case "stranger":
            yield problem(
                code="address",
                what="what answers there is no gateway of ours",
                why="'anyport serve' cannot start there",
                mend=f"under [gateway], choose another port in listen; who has it tells: "
                f"lsof -i :{config.gateway.port}",
            )
        case "impossible":
            what, _, mend = address.words.partition(": ")
            why = "'anyport serve' cannot start"
            yield problem(code="address", what=what, why=why, mend=mend or "see gateway.listen")


def _judge_gateway(address: Address, config: Config) -> Iterator[Finding]:
    if address.version != __version__:
        yield warning(
            code="other-version",
            what=f"it is version {address.version}, and this is {__version__}",
            why="what you installed last is not what runs",
            mend="stop it, and run 'anyport serve' again",
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
            what="it has another configuration: not both have the " + " and the ".join(differences),
            why="its clients do not get what this configuration says",
            mend=f"if it is meant to have this one: anyport reload --url {address.url}",
        )


def _duration(seconds: float) -> str:
    for unit, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= unit:
            count = int(seconds / unit)
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return "less than a second"


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(REPLY_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _why_impossible(host: str, port: int) -> str | None:
    """Why nobody could listen there; None if one could."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            if os.name == "posix":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        return explain(error, host, port)
    return None
