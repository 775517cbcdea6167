"""The configuration as frozen types.

This module does not read files and does not know their syntax. References are already resolved and
names already turned into slugs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from anyport.config.faults import ConfigFault
from anyport.protocol import revisions

REVISIONS: Final = (*revisions.ALIASES, *revisions.REVISIONS)

Transport: TypeAlias = Literal["stdio", "auto", "streamable-http", "sse"]
Scope: TypeAlias = Literal["auto", "shared", "principal", "session", "call"]
Prefix: TypeAlias = Literal["always", "on-conflict", "never"]
Separator: TypeAlias = Literal["__", ":", "/", ".", "-"]
ErrorStyle: TypeAlias = Literal["context", "verbatim"]
Capture: TypeAlias = Literal["off", "shape", "full"]
HooksMatch: TypeAlias = Literal["all", "first"]
Start: TypeAlias = Literal["eager", "first-use"]
Retry: TypeAlias = Literal["auto", "never"]
OnFailure: TypeAlias = Literal["degrade", "block"]
Sync: TypeAlias = Literal["batch", "always", "off"]

DEFAULT_PROFILE: Final = "default"

MESSAGE_BYTES_DEFAULT: Final = 16 * 1024 * 1024
"""Large enough for a screenshot or a long file, small enough to hold a few at once."""

SESSION_IDLE_SECONDS_DEFAULT: Final = 1800.0
"""After half an hour of silence, a client opens a new session without its user noticing."""

SESSIONS_DEFAULT: Final = 10_000
"""Far more than one gateway has clients; a flood of sessions stops here."""
CLIENT_SESSIONS_DEFAULT: Final = 1000
"""Per token, so that one client cannot use up the sessions of all."""

CALLS_DEFAULT: Final = 4096
"""For all clients together: more than a gateway answers in a second."""
CLIENT_CALLS_DEFAULT: Final = 1024
"""Per client, so that one client cannot use up the calls of all."""
BYTES_DEFAULT: Final = 256 * 1024 * 1024
"""Memory for all pending requests and answers together."""
SERVER_CALLS_DEFAULT: Final = 128
QUEUE_DEFAULT: Final = 1024
"""Calls that queue for a server; one more is refused at once."""
QUEUE_SECONDS_DEFAULT: Final = 30.0
"""A call that queued longer is refused while its client still has time to react."""
CALL_SECONDS_DEFAULT: Final = 600.0
"""The total time of one call, even if it keeps reporting progress."""
CONNECT_SECONDS_DEFAULT: Final = 5.0
STREAM_IDLE_SECONDS_DEFAULT: Final = 300.0
"""A stream that is silent for five minutes is considered dead."""

KEEP_DAYS_DEFAULT: Final = 90
KEEP_BYTES_DEFAULT: Final = 1024**3
"""Journal size: enough for a few million calls."""
PAYLOAD_DAYS_DEFAULT: Final = 7
PAYLOAD_BYTES_DEFAULT: Final = 1024**3
"""Size of recorded payloads, with `capture = "full"`."""

MASK: Final = "***"


def _empty_mapping() -> Mapping[str, str]:
    return MappingProxyType({})


class UnknownProfile(LookupError):
    """The requested profile does not exist, or none was named and there is no default."""

    def __init__(self, name: str | None, names: tuple[str, ...]) -> None:
        asked = "no profile was named" if name is None else f"there is no profile {name!r}"
        super().__init__(f"{asked}; the profiles are: {', '.join(names) or 'none'}")
        self.name = name
        self.names = names

    def __str__(self) -> str:
        # A subclass of LookupError may show its argument quoted; this message is for people.
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Access token of one client, or of one kind of client."""

    name: str
    """The client's name in events and sessions; not secret."""
    digest: bytes = field(repr=False)
    """SHA-256 of the token; the token itself is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The `[gateway]` section."""

    listen: str = "127.0.0.1:8640"
    list_seconds: float = 2.0
    """How long a list waits for servers that are still starting."""
    tokens: tuple[Token, ...] = ()
    """Without tokens, every caller is the local user."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    session_idle_seconds: float = SESSION_IDLE_SECONDS_DEFAULT
    sessions_max: int = SESSIONS_DEFAULT
    client_sessions_max: int = CLIENT_SESSIONS_DEFAULT
    hooks_match: HooksMatch = "all"
    """Whether an event triggers every matching hook, or only the first."""
    calls_max: int = CALLS_DEFAULT
    client_calls_max: int = CLIENT_CALLS_DEFAULT
    bytes_max: int = BYTES_DEFAULT
    watch: bool = True
    """Whether the gateway reloads the files when they change."""

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordConfig:
    """What is recorded of the traffic, and how long it is kept."""

    capture: Capture = "shape"
    keep_days: int = KEEP_DAYS_DEFAULT
    keep_bytes: int = KEEP_BYTES_DEFAULT
    payload_days: int = PAYLOAD_DAYS_DEFAULT
    payload_bytes: int = PAYLOAD_BYTES_DEFAULT
    redact_keys: tuple[str, ...] = ()
    """Names of members whose values are never recorded, in addition to the built-in ones."""
    anchor: str | None = None
    """File that receives a copy of every signed checkpoint; best on another machine's disk."""
    on_failure: OnFailure = "degrade"
    """While the journal cannot be written: serve and count the lost events, or refuse calls."""
    sync: Sync = "batch"
    """When the journal is synced to disk: with each checkpoint, before each answer, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """Export of spans and metrics to an OpenTelemetry collector."""

    enabled: bool = False
    endpoint: str | None = None
    """The collector's URL, without `/v1/traces`; None: read from the environment."""
    headers: Mapping[str, str] = field(default_factory=_empty_mapping, repr=False)
    name: str | None = None
    """The service name of this gateway."""
    sample: float | None = None
    """Share of the traces begun here that are exported; None: read from the environment."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: how to reach it, and its limits."""

    slug: str
    name: str
    """The name in the file; differs from the slug if it is not a valid one."""
    origin: str = field(default="", compare=False)
    """File and line of the definition."""
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_empty_mapping)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=_empty_mapping)
    proxy: str = "none"
    """`none`, `env` for the proxy that the environment names, or the proxy's URL."""
    transport: Transport = "auto"
    protocol: str = "auto"
    """`auto`, `modern`, `legacy`, or one of REVISIONS."""
    timeout_seconds: float = 60.0
    timeout_seconds_max: float = CALL_SECONDS_DEFAULT
    """The total time of a call, even if it keeps reporting progress."""
    calls_max: int = SERVER_CALLS_DEFAULT
    queue_max: int = QUEUE_DEFAULT
    queue_seconds: float = QUEUE_SECONDS_DEFAULT
    connect_seconds: float = CONNECT_SECONDS_DEFAULT
    first_byte_seconds: float | None = None
    """Time until its reply begins; None: as long as the call may take."""
    stream_idle_seconds: float = STREAM_IDLE_SECONDS_DEFAULT
    start: Start = "eager"
    idle_seconds: float | None = None
    """Idle time after which the server is stopped until its next use. 0: never stopped. None: only
    connections of single sessions may be closed."""
    retry: Retry = "auto"
    breaker: bool = True
    scope: Scope = "auto"
    capture: Capture | None = None
    """None: as set in the profile or in `[record]`."""
    disabled: bool = False
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    permit_env: tuple[str, ...] = ()
    env_file: str | None = field(default=None, compare=False)
    """The file that part of `env` was read from."""
    unresolved: tuple[str, ...] = ()
    """Reasons why this server cannot start; empty if it can."""
    secrets: frozenset[str] = frozenset()
    """Values from references, `env` and headers, for redaction."""

    def __repr__(self) -> str:
        fields: dict[str, Any] = {
            "slug": self.slug,
            "name": self.name,
            "command": self._mask(self.command),
            "args": tuple(self._mask(arg) for arg in self.args),
            "env": dict.fromkeys(self.env, MASK),
            "cwd": self._mask(self.cwd),
            "url": self._mask(self.url),
            "headers": dict.fromkeys(self.headers, MASK),
            "proxy": self._mask(self.proxy),
            "transport": self.transport,
            "protocol": self.protocol,
            "timeout_seconds": self.timeout_seconds,
            "timeout_seconds_max": self.timeout_seconds_max,
            "calls_max": self.calls_max,
            "queue_max": self.queue_max,
            "queue_seconds": self.queue_seconds,
            "connect_seconds": self.connect_seconds,
            "first_byte_seconds": self.first_byte_seconds,
            "stream_idle_seconds": self.stream_idle_seconds,
            "start": self.start,
            "idle_seconds": self.idle_seconds,
            "retry": self.retry,
            "breaker": self.breaker,
            "scope": self.scope,
            "capture": self.capture,
            "disabled": self.disabled,
            "message_bytes_max": self.message_bytes_max,
            "permit_env": self.permit_env,
            "unresolved": self.unresolved,
        }
        text = ", ".join(f"{key}={value!r}" for key, value in fields.items())
        return f"ServerConfig({text}, secrets={MASK})"

    def _mask(self, text: str | None) -> str | None:
        if text is None:
            return None
        # The longest first: a secret may be part of another one.
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """One profile: which servers a client sees, and under which names."""

    slug: str
    servers: tuple[str, ...]
    prefix: Prefix = "always"
    separator: Separator = "__"
    gateway_tools: bool = True
    errors: ErrorStyle = "context"
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    capture: Capture | None = None
    transparent: bool = False
    """Pass the one server through unchanged: identity, capabilities, and lists page by page."""

    @property
    def passes_unknown(self) -> bool:
        """Whether extensions that the gateway does not know are passed on.

        Only with a single server, and without tool rules, which unknown methods could bypass.
        """
        return len(self.servers) == 1 and self.allow == ("*",) and not self.deny

    def as_transparent(self) -> ProfileConfig:
        """A transparent copy of this profile, which must have exactly one server."""
        return replace(
            self, transparent=True, prefix="never", gateway_tools=False, errors="verbatim"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HookConfig:
    """A filter for events, and the action for each: `post`, `run` or `call`."""

    name: str
    on: str
    """The filter, as text."""
    post: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=_empty_mapping, repr=False)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    """Sent instead of the event itself; its strings may be templates."""
    run: tuple[str, ...] = field(default=(), repr=False)
    call: tuple[str, str] | None = None
    """Server slug and native tool name."""
    arguments: Mapping[str, Any] = field(default_factory=_empty_mapping, repr=False)
    """Arguments of `call`; strings may be templates."""
    unresolved: tuple[str, ...] = ()
    """Reasons why the hook cannot act; empty if it can."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def action(self) -> Literal["post", "run", "call"]:
        if self.call is not None:
            return "call"
        return "run" if self.run else "post"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration."""

    gateway: GatewayConfig
    servers: Mapping[str, ServerConfig]
    profiles: Mapping[str, ProfileConfig]
    record: RecordConfig = RecordConfig()
    hooks: tuple[HookConfig, ...] = ()
    telemetry: TelemetryConfig = TelemetryConfig()
    sources: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=_empty_mapping)
    """Names in the files that are not valid slugs, mapped to their slugs."""
    warnings: tuple[ConfigFault, ...] = ()
    """Problems that do not prevent a start."""

    @property
    def secrets(self) -> frozenset[str]:
        """All values that must be redacted."""
        servers = (server.secrets for server in self.servers.values())
        hooks = (hook.secrets for hook in self.hooks)
        # Names of servers and profiles are public, even if a secret has the same value.
        return self.telemetry.secrets.union(*servers, *hooks) - {*self.servers, *self.profiles}

    def capture(self, profile: str | None, server: str | None) -> Capture:
        """Capture level of an exchange: the server's, else the profile's, else the record's."""
        for section in (self.servers.get(server or ""), self.profiles.get(profile or "")):
            if section is not None and section.capture is not None:
                return section.capture
        return self.record.capture

    @property
    def transparent_servers(self) -> frozenset[str]:
        """Servers that only transparent profiles use; the gateway need not list them."""
        servers = {transparent: set[str]() for transparent in (True, False)}
        for profile in self.profiles.values():
            servers[profile.transparent].update(profile.servers)
        return frozenset(servers[True] - servers[False])

    def profile(self, name: str | None = None) -> ProfileConfig:
        """The profile with this name; without a name, the default profile or the only one.

        Raises:
            UnknownProfile: No profile has that name, or none is the default.
        """
        names = tuple(self.profiles)
        if name is None:
            name = names[0] if len(names) == 1 else DEFAULT_PROFILE
            if name not in self.profiles:
                raise UnknownProfile(None, names)
        if name not in self.profiles:
            raise UnknownProfile(name, names)
        return self.profiles[name]
