"""The shapes of what the API answers. The OpenAPI document is made from them.

Nothing here carries what a configuration keeps secret: no commands, arguments, environments,
addresses or headers of servers.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from anyport.config.schema import ErrorStyle, OnFailure, Prefix, Scope, Separator
from anyport.record.detail import Detail
from anyport.record.row import Row


class Problem(Struct, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 has it."""

    type: Literal["about:blank"] = "about:blank"
    title: str
    status: int
    detail: str


class Health(Struct, frozen=True, kw_only=True):
    """Whether the gateway is alive, or ready."""

    status: Literal["ok", "draining", "blocking"]


class Contents(Struct, frozen=True, kw_only=True):
    """What the API has."""

    name: str
    version: str
    links: dict[str, str]


class OfferCounts(Struct, frozen=True, kw_only=True):
    """How much there is to use."""

    tools: int
    resources: int
    resource_templates: int
    prompts: int


class Backend(Struct, frozen=True, kw_only=True):
    """How a server is doing; the same that `gateway_status` says of it."""

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
    """Open ones, those of single sessions included."""
    offers: OfferCounts
    """All that it offers, whether or not a profile shows it."""
    status: Backend


class Servers(Struct, frozen=True, kw_only=True):
    """Every server of the configuration."""

    servers: tuple[ServerAnswer, ...]


class ProfileAnswer(Struct, frozen=True, kw_only=True):
    """A profile: which servers, and under which names."""

    slug: str
    path: str
    """Where clients find it."""
    servers: tuple[str, ...]
    prefix: Prefix
    separator: Separator
    errors: ErrorStyle
    gateway_tools: bool
    offers: OfferCounts


class Profiles(Struct, frozen=True, kw_only=True):
    """Every profile."""

    profiles: tuple[ProfileAnswer, ...]


class Offer(Struct, frozen=True, kw_only=True):
    """A tool or a prompt, as clients of the profile see it."""

    name: str
    server: str | None
    """Whose it is; null for the gateway's own."""
    native_name: str
    title: str | None = None
    description: str | None = None


class Resource(Struct, frozen=True, kw_only=True):
    """A resource or a template of some, as clients of the profile see it."""

    uri: str
    server: str
    native_uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class ProfileDetail(Struct, frozen=True, kw_only=True):
    """A profile with all that it offers."""

    profile: ProfileAnswer
    servers: dict[str, Backend]
    tools: tuple[Offer, ...]
    resources: tuple[Resource, ...]
    resource_templates: tuple[Resource, ...]
    prompts: tuple[Offer, ...]


class HookAnswer(Struct, frozen=True, kw_only=True):
    """How a hook is doing."""

    action: Literal["post", "run", "call"]
    delivered: int
    failed: int
    dropped: int
    waiting: int
    last_error: str | None
    missing: tuple[str, ...] | UnsetType = UNSET


class TelemetryAnswer(Struct, frozen=True, kw_only=True):
    """How telemetry is doing, while it is on."""

    dropped: int
    troubles: dict[str, str]


class Monitoring(Struct, frozen=True, kw_only=True):
    """The journal of events, and what is done about them."""

    enabled: bool
    webhook_configured: bool
    lost: int
    on_failure: OnFailure
    """What becomes of calls while the journal cannot be written."""
    blocking: bool
    """Whether calls are refused now."""
    slow: bool | UnsetType = UNSET
    """Set while the disk is so slow that answers wait for it."""
    payloads_lost: int | UnsetType = UNSET
    hooks: dict[str, HookAnswer] | UnsetType = UNSET
    telemetry: TelemetryAnswer | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    """All that does not work."""


class GatewayAnswer(Struct, frozen=True, kw_only=True):
    """The gateway itself."""

    name: str
    version: str
    uptime_s: float
    draining: bool
    event_monitoring: Monitoring


class Traffic(Struct, frozen=True, kw_only=True):
    """What is going on now."""

    sessions: int
    open_exchanges: int
    streams: int


class StatusAnswer(Struct, frozen=True, kw_only=True):
    """How everything is doing."""

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
    """Some events, oldest first, and how to ask for older ones."""

    events: tuple[EventAnswer, ...]
    next_cursor: str | None
    """Null where there are no older ones."""


class RowsAnswer(Struct, frozen=True, kw_only=True):
    """Some rows of the traffic, oldest first, and how to ask for older ones."""

    rows: tuple[Row, ...]
    next_cursor: str | None
    """Null where there are no older ones."""


class DetailsAnswer(Struct, frozen=True, kw_only=True):
    """What an id means: one exchange or frame, or all of a trace, oldest first."""

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


class Reloaded(Struct, frozen=True, kw_only=True):
    """What a changed configuration has changed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    """Servers, by their slugs."""
    profiles: tuple[str, ...]
    settings: tuple[str, ...]
    at_start: tuple[str, ...]
    """Of those settings, the ones that hold from the next start on."""
    lists: tuple[ListShift, ...] | UnsetType = UNSET
    """What clients would see differently; only where that was asked for, and nothing was done."""
