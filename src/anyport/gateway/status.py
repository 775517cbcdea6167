"""The report of `gateway_status`: the state of the gateway and of each server, with reasons."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from anyport import __version__
from anyport.config.model import ServerConfig
from anyport.gateway.hooks.hooks import Hooks
from anyport.gateway.profile import Profile
from anyport.observe.telemetry import Telemetry
from anyport.protocol.methods import OfferKind
from anyport.record.journal.journal import Journal
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ServerState

ADVICE_BY_WORDS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("working directory",), "create that directory, or fix cwd"),
    (("permission denied",), "make the command executable"),
    (("was not found", "does not exist"), "install the command, or give its full path"),
    (("is no program",), "install what the command needs, or give another command"),
    (("wants authorization", "HTTP 401", "HTTP 403"), "set headers that it accepts"),
    (("certificate", "TLS failed"), "fix its certificate, or trust its issuer"),
    (("cannot be resolved",), "fix the host in url"),
    (("no connection", "refused"), "check that it runs where url says"),
    (("redirect",), "set url to its new location"),
    (("not MCP",), "a server must write nothing but MCP to its standard output"),
    (("does not speak", "not one we know"), "set protocol to a revision that it speaks"),
    (("did not answer", "no reply"), "check whether it waits for something, such as a login"),
    (("exit code", "killed by"), "its last lines on stderr say why; 'anyport events' shows more"),
)
"""Words in a reason, and advice; the first match counts."""


def status_reason(server: Server) -> str | None:
    """Why a server does not run and what to do about it, in one sentence; None if it runs."""
    if server.config.disabled:
        return "it is disabled in the configuration; set disabled = false to use it"
    if server.config.unresolved:
        return f"{server.disabled_reason}; fix that, then restart the gateway"
    if server.state is ServerState.READY:
        refusal = server.health.reason
        return None if refusal is None else f"it is not taking calls: {refusal}"
    if server.state is ServerState.STARTING:
        return _starting_reason(server)
    reason = server.reason or "the reason is not known"
    if server.state in (ServerState.IDLE, ServerState.STOPPED):
        return reason
    retry_words = (
        "it is retried on the next use" if server.asleep else "it is retried automatically"
    )
    return _join_clauses(reason, f"{advice_for(reason)}; {retry_words}".lstrip("; "))


def advice_for(reason: str) -> str:
    """Advice on a reason; empty if there is none, or the reason gives it already."""
    for words, advice in ADVICE_BY_WORDS:
        if any(word in reason for word in words):
            return "" if advice in reason else advice
    return ""


def _starting_reason(server: Server) -> str:
    if server.main is None:
        return "it has not been used yet; it starts with the first client"
    if server.last_error is not None:
        return _join_clauses(f"it is restarting after: {server.last_error}", "wait a moment")
    return "it is starting; wait a moment"


def _join_clauses(first: str, second: str) -> str:
    return f"{first.rstrip('.;')}; {second}"


DEFAULT_TIMEOUT_SECONDS: Final = ServerConfig(slug="a", name="a").timeout_seconds
"""Default timeout of one call."""


def gateway_status(
    profile: Profile,
    journal: Journal,
    hooks: Hooks | None = None,
    telemetry: Telemetry | None = None,
    *,
    uptime_seconds: float,
    debug: bool,
) -> dict[str, Any]:
    """The report for one profile."""
    catalog = profile.catalog
    visible = Counter(entry.slug for entry in catalog.entries(OfferKind.TOOLS))
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
            "tools": len(catalog.entries(OfferKind.TOOLS)),
            "resources": len(catalog.entries(OfferKind.RESOURCES)),
            "resource_templates": len(catalog.entries(OfferKind.TEMPLATES)),
            "prompts": len(catalog.entries(OfferKind.PROMPTS)),
        },
    }


def backend_status(server: Server, tool_count: int) -> Mapping[str, Any]:
    """The state of one server, its last error, and warnings."""
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
    reason = status_reason(server)
    if reason is not None:
        report["reason"] = reason
    if server.config.name != server.slug:
        report["name"] = server.config.name
    if server.state is not ServerState.READY and tool_count:
        report["list"] = "last known"
    warnings = [server.warning] if server.warning is not None else []
    if server.lists_overdue and server.state is ServerState.READY:
        warnings.append("it has not listed its offers yet")
    if main is not None and main.noise is not None:
        warnings.append(main.noise)
    warnings += [each for each in (server.trials.warning, server.lists_warning) if each is not None]
    warnings += [
        listing.warning for listing in server.listings.values() if listing.warning is not None
    ]
    if warnings:
        report["warnings"] = warnings
    if main is not None:
        report["pid"] = None if main.child is None else main.child.pid
        report["noise_lines"] = (
            0 if main.current_connection is None else main.current_connection.noise_count
        )
        report["stray_answers"] = (
            0 if main.current_connection is None else main.current_connection.unsolicited_count
        )
    return report


def event_monitoring(
    journal: Journal, hooks: Hooks | None = None, telemetry: Telemetry | None = None
) -> dict[str, Any]:
    """The state of the journal, and of the hooks and the telemetry that read it."""
    monitoring: dict[str, Any] = {
        "enabled": journal.last_error is None,
        "webhook_configured": hooks is not None and hooks.has_post,
        "lost": journal.lost_count,
        "on_failure": journal.on_failure,
        "blocking": journal.is_blocking,
        "sync": journal.sync,
    }
    if hooks is not None and (report := hooks.report()):
        monitoring["hooks"] = report
    if telemetry is not None and (telemetry_report := telemetry.report()) is not None:
        monitoring["telemetry"] = telemetry_report
    writer = journal.file_writer
    if writer.is_slow:
        monitoring["slow"] = True
    troubles = [journal.last_error, *journal.troubles.values()]
    if writer.payloads is not None:
        monitoring["payloads_lost"] = writer.payloads.lost_count
        troubles.append(writer.payloads.last_error)
    warnings = [trouble for trouble in troubles if trouble is not None]
    if warnings:
        monitoring["last_error"] = warnings[0]
        monitoring["warnings"] = warnings
    return monitoring
