"""What a configuration says, as frozen types.

Nothing here reads files or knows their syntax: by the time one of these exists, every fault
has been found, every reference resolved, every name turned into a slug.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from anyport.config.faults import Fault
from anyport.protocol import revision

REVISIONS: Final = (*revision.ALIASES, *revision.REVISIONS)

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

DEFAULT_PROFILE: Final = "default"

MESSAGE_BYTES_DEFAULT: Final = 16 * 1024 * 1024
"""Large enough for a screenshot or a long file, small enough to hold a few at once."""

SESSION_IDLE_SECONDS_DEFAULT: Final = 1800.0
"""A client that was silent for half an hour opens a new session without anybody noticing."""

SESSIONS_DEFAULT: Final = 10_000
"""Far more than one gateway has clients; a flood of sessions stops here."""

CALLS_DEFAULT: Final = 4096
"""Of all clients together: more than a gateway answers in a second."""
CLIENT_CALLS_DEFAULT: Final = 1024
"""Of one client: what is left is for the others."""
BYTES_DEFAULT: Final = 256 * 1024 * 1024
"""Requests and answers that are held in memory, all together."""
SERVER_CALLS_DEFAULT: Final = 128
QUEUE_DEFAULT: Final = 1024
"""Calls that wait until a server has a place for them; the next is refused at once."""
QUEUE_SECONDS_DEFAULT: Final = 30.0
"""Who waited so long for a place is told to come back, while there is time to do something else."""
CALL_SECONDS_DEFAULT: Final = 600.0
"""One call in all, whatever progress it reports."""
CONNECT_SECONDS_DEFAULT: Final = 5.0
STREAM_IDLE_SECONDS_DEFAULT: Final = 300.0
"""A stream on which nothing came for five minutes was forgotten by the other side."""

KEEP_DAYS_DEFAULT: Final = 90
KEEP_BYTES_DEFAULT: Final = 1024**3
"""Of the journal: a few million calls."""
PAYLOAD_DAYS_DEFAULT: Final = 7
PAYLOAD_BYTES_DEFAULT: Final = 1024**3
"""Of payloads, for those who have them recorded."""

MASK: Final = "***"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class UnknownProfile(LookupError):
    """Somebody asked for a profile that the configuration does not have."""

    def __init__(self, name: str | None, names: tuple[str, ...]) -> None:
        asked = "no profile was named" if name is None else f"there is no profile {name!r}"
        super().__init__(f"{asked}; the profiles are: {', '.join(names) or 'none'}")
        self.name = name
        self.names = names

    def __str__(self) -> str:
        # LookupError's children may quote their argument; people read this one.
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What one client, or one kind of client, proves itself with."""

    name: str
    """Whom events and sessions name; never a secret."""
    digest: bytes = field(repr=False)
    """SHA-256 of the token; the token itself is kept nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The gateway itself."""

    listen: str = "127.0.0.1:8640"
    list_seconds: float = 2.0
    """How long a list waits for servers that are still starting."""
    tokens: tuple[Token, ...] = ()
    """Without any, everybody who reaches the gateway is the local user."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    session_idle_seconds: float = SESSION_IDLE_SECONDS_DEFAULT
    sessions_max: int = SESSIONS_DEFAULT
    hooks_match: HooksMatch = "all"
    """Whether an event triggers every hook that it fits, or only the first."""
    calls_max: int = CALLS_DEFAULT
    client_calls_max: int = CLIENT_CALLS_DEFAULT
    bytes_max: int = BYTES_DEFAULT
    watch: bool = True
    """Whether a change of the files is taken over without being asked to."""

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordConfig:
    """What is recorded of the traffic, and for how long."""

    capture: Capture = "shape"
    keep_days: int = KEEP_DAYS_DEFAULT
    keep_bytes: int = KEEP_BYTES_DEFAULT
    payload_days: int = PAYLOAD_DAYS_DEFAULT
    payload_bytes: int = PAYLOAD_BYTES_DEFAULT
    redact_keys: tuple[str, ...] = ()
    """Names of members whose values are never recorded, besides those that everybody knows."""
    anchor: str | None = None
    """A file that gets every signed head of the journal, too; best on another machine's disk."""
    on_failure: OnFailure = "degrade"
    """While the journal cannot be written: serve and count what is lost, or refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """What is told to a collector of OpenTelemetry."""

    enabled: bool = False
    endpoint: str | None = None
    """Where the collector takes signals, without `/v1/traces`; None: what the environment says."""
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    name: str | None = None
    """What this gateway is called there."""
    sample: float | None = None
    """Of the traces that begin here, the share that is told; None: what the environment says."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: how it is reached, and how it is treated."""

    slug: str
    name: str
    """As the file has it; differs from the slug where that had to be made."""
    origin: str = field(default="", compare=False)
    """Where it is defined: file and line."""
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_nothing)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=_nothing)
    proxy: str = "none"
    """`none`, `env` for what the environment names, or the proxy's URL."""
    transport: Transport = "auto"
    protocol: str = "auto"
    """`auto`, `modern`, `legacy`, or one of REVISIONS."""
    timeout_seconds: float = 60.0
    timeout_seconds_max: float = CALL_SECONDS_DEFAULT
    """The end of a call, whatever progress it reports."""
    calls_max: int = SERVER_CALLS_DEFAULT
    queue_max: int = QUEUE_DEFAULT
    queue_seconds: float = QUEUE_SECONDS_DEFAULT
    connect_seconds: float = CONNECT_SECONDS_DEFAULT
    first_byte_seconds: float | None = None
    """Until its reply begins; None: as long as the call may take."""
    stream_idle_seconds: float = STREAM_IDLE_SECONDS_DEFAULT
    start: Start = "eager"
    idle_seconds: float = 0.0
    """After so long without use it is stopped, until it is used again; nothing: never."""
    retry: Retry = "auto"
    breaker: bool = True
    scope: Scope = "auto"
    capture: Capture | None = None
    """None: what the profile or the gateway says."""
    disabled: bool = False
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    permit_env: tuple[str, ...] = ()
    env_file: str | None = field(default=None, compare=False)
    """Where a part of `env` was read from."""
    unresolved: tuple[str, ...] = ()
    """Sentences that say why this server cannot start; empty when it can."""
    secrets: frozenset[str] = frozenset()
    """Every value that came from a reference or stands in env or headers, for redaction."""

    def __repr__(self) -> str:
        shown: dict[str, Any] = {
            "slug": self.slug,
            "name": self.name,
            "command": self._masked(self.command),
            "args": tuple(self._masked(arg) for arg in self.args),
            "env": dict.fromkeys(self.env, MASK),
            "cwd": self._masked(self.cwd),
            "url": self._masked(self.url),
            "headers": dict.fromkeys(self.headers, MASK),
            "proxy": self._masked(self.proxy),
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
        inside = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"ServerConfig({inside}, secrets={MASK})"

    def _masked(self, text: str | None) -> str | None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HookConfig:
    """Which events, and one thing to do about each: `post`, `run` or `call`."""

    name: str
    on: str
    """The text of a filter."""
    post: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    """What is sent instead of the event itself; its texts may refer to the event."""
    run: tuple[str, ...] = field(default=(), repr=False)
    call: tuple[str, str] | None = None
    """The slug of a server, and the native name of its tool."""
    arguments: Mapping[str, Any] = field(default_factory=_nothing, repr=False)
    """Of that call; texts may refer to the event."""
    unresolved: tuple[str, ...] = ()
    """Sentences that say why it cannot do anything; empty when it can."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def action(self) -> Literal["post", "run", "call"]:
        """Which of the three it is."""
        if self.call is not None:
            return "call"
        return "run" if self.run else "post"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the files say."""

    gateway: GatewayConfig
    servers: Mapping[str, ServerConfig]
    profiles: Mapping[str, ProfileConfig]
    record: RecordConfig = RecordConfig()
    hooks: tuple[HookConfig, ...] = ()
    telemetry: TelemetryConfig = TelemetryConfig()
    sources: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=_nothing)
    """The name in the file to the slug, for those names that are no slugs themselves."""
    warnings: tuple[Fault, ...] = ()
    """What can be used as it is, but should not stay so."""

    @property
    def secrets(self) -> frozenset[str]:
        """Everything that must never be shown."""
        servers = (server.secrets for server in self.servers.values())
        hooks = (hook.secrets for hook in self.hooks)
        # A name that everybody is shown is no secret, whatever else is called so.
        return self.telemetry.secrets.union(*servers, *hooks) - {*self.servers, *self.profiles}

    def capture(self, profile: str | None, server: str | None) -> Capture:
        """How much is recorded of an exchange: the most specific word counts."""
        for one in (self.servers.get(server or ""), self.profiles.get(profile or "")):
            if one is not None and one.capture is not None:
                return one.capture
        return self.record.capture

    def profile(self, name: str | None = None) -> ProfileConfig:
        """The profile of that name; unnamed, the default one or the only one.

        Raises:
            UnknownProfile: There is none of that name, or no telling which one is meant.
        """
        names = tuple(self.profiles)
        if name is None:
            name = names[0] if len(names) == 1 else DEFAULT_PROFILE
            if name not in self.profiles:
                raise UnknownProfile(None, names)
        if name not in self.profiles:
            raise UnknownProfile(name, names)
        return self.profiles[name]
