"""What `gateway_status` says: how the gateway and each of its servers are doing."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from anyport import __version__
from anyport.config.schema import ServerConfig
from anyport.gateway.hooks import Hooks
from anyport.gateway.profile import Profile
from anyport.gateway.reason import reason_of
from anyport.gateway.telemetry import Telemetry
from anyport.protocol.method import Kind
from anyport.record.journal import Journal
from anyport.upstream.server import Server
from anyport.upstream.tender import State

DEFAULT_TIMEOUT_SECONDS: Final = ServerConfig(slug="a", name="a").timeout_seconds
"""What a server has for one call unless the configuration says otherwise."""


def gateway_status(
    profile: Profile,
    journal: Journal,
    hooks: Hooks | None = None,
    telemetry: Telemetry | None = None,
    *,
    uptime_seconds: float,
    debug: bool,
) -> dict[str, Any]:
    """The whole report for one profile."""
    catalog = profile.catalog
    visible = Counter(entry.slug for entry in catalog.entries(Kind.TOOLS))
    return {
        "gateway": {
            "name": "anyport",
            "version": __version__,
            "uptime_s": round(uptime_seconds, 3),
            "config": {
                "profile": profile.slug,
                "prefix": profile.config.prefix,
                "separator": profile.config.separator,
                "errors": profile.config.errors,
                "backend_timeout": DEFAULT_TIMEOUT_SECONDS,
                "log_level": "DEBUG" if debug else "WARNING",
                "debug": debug,
            },
            "event_monitoring": event_monitoring(journal, hooks, telemetry),
        },
        "backends": {
            slug: backend_status(server, visible[slug]) for slug, server in profile.servers.items()
        },
        "capabilities": {
            "tools": len(catalog.entries(Kind.TOOLS)),
            "resources": len(catalog.entries(Kind.RESOURCES)),
            "resource_templates": len(catalog.entries(Kind.TEMPLATES)),
            "prompts": len(catalog.entries(Kind.PROMPTS)),
        },
    }


def backend_status(server: Server, tool_count: int) -> Mapping[str, Any]:
    """How one server is doing, and why it is not doing better."""
    main = server.main
    peer = server.peer
    report: dict[str, Any] = {
        "status": "disabled" if server.config.disabled else server.state.value,
        "namespace": server.slug,
        "tool_count": tool_count,
        "era": None if peer is None else peer.revision.era.value,
        "revision": None if peer is None else peer.revision.name,
        "transport": server.transport,
        "restarts": 0 if main is None else main.restarts,
        "last_error": server.last_error,
    }
    reason = reason_of(server)
    if reason is not None:
        report["reason"] = reason
    if server.config.name != server.slug:
        report["name"] = server.config.name
    if server.state is not State.READY and tool_count:
        report["list"] = "last known"
    warnings = [server.warning] if server.warning is not None else []
    if server.late and server.state is State.READY:
        warnings.append("it has not told yet what it offers")
    if main is not None and main.noise is not None:
        warnings.append(main.noise)
    warnings += [
        listing.warning for listing in server.listings.values() if listing.warning is not None
    ]
    if warnings:
        report["warnings"] = warnings
    if main is not None:
        report["pid"] = None if main.child is None else main.child.pid
        report["noise_lines"] = 0 if main.line is None else main.line.noise_count
        report["stray_answers"] = 0 if main.line is None else main.line.stray_count
    return report


def event_monitoring(
    journal: Journal, hooks: Hooks | None = None, telemetry: Telemetry | None = None
) -> dict[str, Any]:
    """Whether the journal can be written, what it lost, and how those do who are told of it."""
    monitoring: dict[str, Any] = {
        "enabled": journal.last_error is None,
        "webhook_configured": hooks is not None and hooks.posting,
        "lost": journal.lost_count,
        "on_failure": journal.on_failure,
        "blocking": journal.blocking,
    }
    if hooks is not None and (report := hooks.report()):
        monitoring["hooks"] = report
    if telemetry is not None and (sending := telemetry.report()) is not None:
        monitoring["telemetry"] = sending
    outflow = journal.outflow
    if outflow.slow:
        monitoring["slow"] = True
    troubles = [journal.last_error, *journal.troubles.values()]
    if outflow.beside is not None:
        monitoring["payloads_lost"] = outflow.beside.lost_count
        troubles.append(outflow.beside.last_error)
    warnings = [trouble for trouble in troubles if trouble is not None]
    if warnings:
        monitoring["last_error"] = warnings[0]
        monitoring["warnings"] = warnings
    return monitoring
