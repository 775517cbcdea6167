"""Facts made up for tests of what is found in them."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import msgspec

from anyport.catalog.offers import Listing, Offer
from anyport.cli.doctor.findings import DoctorFinding, Level, Section
from anyport.cli.doctor.servers import ExaminedServer
from anyport.config.model import Config, GatewayConfig, ProfileConfig, ServerConfig
from anyport.protocol.methods import OfferKind


def server(slug: str, command: str = "program", **rest: Any) -> ServerConfig:
    """A server of a configuration."""
    reach: dict[str, Any] = {} if "url" in rest else {"command": command, "transport": "stdio"}
    return ServerConfig(slug=slug, name=slug, **reach, **rest)


def config(
    *servers: ServerConfig, gateway: GatewayConfig | None = None, **profiles: ProfileConfig
) -> Config:
    """A configuration with these servers, and all of them in the profile `default`."""
    slugs = tuple(each.slug for each in servers)
    default = {"default": ProfileConfig(slug="default", servers=slugs)}
    return Config(
        gateway=gateway or GatewayConfig(),
        servers=MappingProxyType({each.slug: each for each in servers}),
        profiles=MappingProxyType(profiles or default),
    )


def tool(name: str, **rest: Any) -> Offer:
    """A tool as its server lists it."""
    return Offer(
        name, msgspec.json.encode({"name": name, "inputSchema": {"type": "object"}} | rest)
    )


def examined(slug: str, *tools: Offer, **rest: Any) -> ExaminedServer:
    """A server that runs and has these tools."""
    told: dict[str, Any] = {"condition": "running", "started_seconds": 0.1, "listed_seconds": 0.2}
    return ExaminedServer(
        slug=slug, listings={OfferKind.TOOLS: Listing(offers=tools)}, **told | rest
    )


def codes(found: Section | Iterable[DoctorFinding], *levels: Level) -> list[str]:
    """What was found that is not good, or is of these levels, by its codes."""
    findings = found.findings if isinstance(found, Section) else found
    wanted = levels or (Level.HINT, Level.WARNING, Level.PROBLEM)
    return [finding.code for finding in findings if finding.level in wanted]


def the(found: Section | Iterable[DoctorFinding], code: str) -> DoctorFinding:
    """The one finding of this code."""
    findings = found.findings if isinstance(found, Section) else found
    (only,) = (finding for finding in findings if finding.code == code)
    return only
