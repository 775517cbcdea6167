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

DEFAULT_PROFILE: Final = "default"

MESSAGE_BYTES_DEFAULT: Final = 16 * 1024 * 1024
"""Large enough for a screenshot or a long file, small enough to hold a few at once."""

SESSION_IDLE_SECONDS_DEFAULT: Final = 1800.0
"""A client that was silent for half an hour opens a new session without anybody noticing."""

SESSIONS_DEFAULT: Final = 10_000
"""Far more than one gateway has clients; a flood of sessions stops here."""

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

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: how it is reached, and how it is treated."""

    slug: str
    name: str
    """As the file has it; differs from the slug where that had to be made."""
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
    scope: Scope = "auto"
    disabled: bool = False
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    permit_env: tuple[str, ...] = ()
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
            "scope": self.scope,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the files say."""

    gateway: GatewayConfig
    servers: Mapping[str, ServerConfig]
    profiles: Mapping[str, ProfileConfig]
    sources: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=_nothing)
    """The name in the file to the slug, for those names that are no slugs themselves."""
    warnings: tuple[Fault, ...] = ()
    """What can be used as it is, but should not stay so."""

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
