"""Schemas of the API's responses; the OpenAPI document is generated from them.

None of them has a field for what a configuration keeps secret: commands, arguments, environments,
URLs or headers of servers.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from anyport.config.model import ErrorStyle, OnFailure, Prefix, Scope, Separator, Sync
from anyport.record.traffic import Detail, Row


class Problem(Struct, frozen=True, kw_only=True):
    """An error, as in RFC 9457."""

    type: Literal["about:blank"] = "about:blank"
    title: str
    status: int
    detail: str


class Health(Struct, frozen=True, kw_only=True):
    """Whether the gateway is alive, or ready."""

    status: Literal["ok", "draining", "blocking"]


class Contents(Struct, frozen=True, kw_only=True):
    """The paths of the API."""

    name: str
    version: str
    links: dict[str, str]


class OfferCounts(Struct, frozen=True, kw_only=True):
    """Numbers of offers."""

    tools: int
    resources: int
    resource_templates: int
    prompts: int


class Backend(Struct, frozen=True, kw_only=True):
    """The state of a server, as in `gateway_status`."""

    status: Literal["starting", "running", "idle", "failed", "stopped", "disabled"]
    namespace: str
    tool_count: int
    era: Literal["legacy", "modern"] | None
    revision: str | None
    transport: str
    restarts: int
    last_error: str | None
    reason: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    list: str | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    pid: int | UnsetType | None = UNSET
    noise_lines: int | UnsetType = UNSET
    stray_answers: int | UnsetType = UNSET


class ServerAnswer(Struct, frozen=True, kw_only=True):
    """A server of the configuration."""

    slug: str
    name: str
    profiles: tuple[str, ...]
    protocol: str
    scope: Scope
    timeout_s: float
    connections: int
    """Open connections, including those of single sessions."""
    offers: OfferCounts
    """All its offers, whether or not a profile shows them."""
    status: Backend


class Servers(Struct, frozen=True, kw_only=True):
    """Every server of the configuration."""

    servers: tuple[ServerAnswer, ...]


class ProfileAnswer(Struct, frozen=True, kw_only=True):
    """A profile: its servers, and how their offers are named."""

    slug: str
    path: str
    """The path of its endpoint."""
    servers: tuple[str, ...]
    prefix: Prefix
    separator: Separator
    errors: ErrorStyle
    gateway_tools: bool
    offers: OfferCounts


class ProfilesAnswer(Struct, frozen=True, kw_only=True):
    """Every profile."""

    profiles: tuple[ProfileAnswer, ...]


class OfferAnswer(Struct, frozen=True, kw_only=True):
    """A tool or a prompt of a profile."""

    name: str
    server: str | None
    """The server that offers it; null for the gateway's own tools."""
    native_name: str
    title: str | None = None
    description: str | None = None


class Resource(Struct, frozen=True, kw_only=True):
    """A resource or a resource template of a profile."""

    uri: str
    server: str
    native_uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class ProfileDetail(Struct, frozen=True, kw_only=True):
    """A profile with all its offers."""

    profile: ProfileAnswer
    servers: dict[str, Backend]
    tools: tuple[OfferAnswer, ...]
    resources: tuple[Resource, ...]
    resource_templates: tuple[Resource, ...]
    prompts: tuple[OfferAnswer, ...]


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The state of a hook."""

    action: Literal["post", "run", "call"]
    delivered: int
    failed: int
    dropped: int
    waiting: int
    last_error: str | None
    missing: tuple[str, ...] | UnsetType = UNSET


class TelemetryAnswer(Struct, frozen=True, kw_only=True):
    """The state of telemetry, while it is on."""

    dropped: int
    troubles: dict[str, str]


class Monitoring(Struct, frozen=True, kw_only=True):
    """The state of the journal, of hooks and of telemetry."""

    enabled: bool
    webhook_configured: bool
    lost: int
    on_failure: OnFailure
    """What happens to calls while the journal cannot be written."""
    blocking: bool
    """Whether calls are being refused."""
    sync: Sync
    """When the journal is synced to disk."""
    slow: bool | UnsetType = UNSET
    """Set while answers wait for a slow disk."""
    payloads_lost: int | UnsetType = UNSET
    hooks: dict[str, HookAnswer] | UnsetType = UNSET
    telemetry: TelemetryAnswer | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    """Everything that fails right now."""


class GatewayAnswer(Struct, frozen=True, kw_only=True):
    """The gateway itself."""

    name: str
    version: str
    uptime_s: float
    draining: bool
    event_monitoring: Monitoring


class Traffic(Struct, frozen=True, kw_only=True):
    """Current numbers of sessions, calls and streams."""

    sessions: int
    open_exchanges: int
    streams: int


class StatusAnswer(Struct, frozen=True, kw_only=True):
    """The state of the gateway, its servers and its profiles."""

    gateway: GatewayAnswer
    traffic: Traffic
    servers: dict[str, Backend]
    profiles: dict[str, OfferCounts]


class EventAnswer(Struct, frozen=True, kw_only=True):
    """One event of the journal."""

    timestamp: str
    trace_id: str
    status: Literal["pending", "success", "failure", "cancelled", "timeout"]
    schema_version: str
    event_type: str
    source: str
    metadata: dict[str, Any]
    duration_ms: float | UnsetType = UNSET
    error_code: int | str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """A page of events, oldest first."""

    events: tuple[EventAnswer, ...]
    next_cursor: str | None
    """For the page of older ones; null if there are none."""


class RowsAnswer(Struct, frozen=True, kw_only=True):
    """A page of traffic rows, oldest first."""

    rows: tuple[Row, ...]
    next_cursor: str | None
    """For the page of older ones; null if there are none."""


class DetailsAnswer(Struct, frozen=True, kw_only=True):
    """What is recorded under an id: one exchange or frame, or all of a trace, oldest first."""

    details: tuple[Detail, ...]


class ListShift(Struct, frozen=True, kw_only=True):
    """How one list of one profile would change."""

    profile: str
    kind: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    """The name before, and the name after."""
    changed: tuple[str, ...]


class ReloadAnswer(Struct, frozen=True, kw_only=True):
    """What a reload has changed, or would change."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    """Servers, by their slugs."""
    profiles: tuple[str, ...]
    settings: tuple[str, ...]
    at_start: tuple[str, ...]
    """Those of the settings that take effect at the next start."""
    lists: tuple[ListShift, ...] | UnsetType = UNSET
    """How lists of clients would change; only in a preview."""


# Errors of the API: one shape, RFC 9457, with a sentence for people.

MEDIA_TYPE: Final = "application/problem+json"

SAFE_HEADERS: Final = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
"""Sent with every response, which must be neither cached nor run."""

READ_ALLOW: Final = "GET, HEAD"
"""Methods of paths that can only be read."""

DEFAULT_DETAILS: Final[Mapping[int, str]] = {
    404: "There is nothing at this path; /api/v1 lists what there is",
    405: f"This can only be read: use {READ_ALLOW}",
    500: "The gateway failed to answer this request; its standard error says why",
}


def encode_problem(status: int, detail: str | None = None) -> bytes:
    """The body of an error."""
    title = HTTPStatus(status).phrase
    return msgspec.json.encode(
        Problem(title=title, status=status, detail=detail or DEFAULT_DETAILS.get(status, title))
    )
