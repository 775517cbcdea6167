"""How long a server over HTTP is waited for, and how long a connection to it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from anyport.config.schema import (
    CONNECT_SECONDS_DEFAULT,
    STREAM_IDLE_SECONDS_DEFAULT,
    ServerConfig,
)
from anyport.protocol.timeouts import Timeout

AGE_SECONDS_MAX: Final = 3600.0
"""A connection that is used all the time is closed after this, between two requests: a name may
lead elsewhere by now, and whoever balances load gets to choose again."""
AGE_SPREAD: Final = 0.1
"""Less by up to this part, so that connections opened together are not all closed together."""
SWEEP_SECONDS_MAX: Final = 0.5
"""Between two looks at what has gone quiet; nobody learns of it more than two of these late."""
SWEEPS: Final = 4
"""Looks within the shortest of the times that are looked after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The times of one server."""

    connect_seconds: float = CONNECT_SECONDS_DEFAULT
    first_byte_seconds: float | None = None
    """None: as long as the call may take, which somebody else looks after."""
    stream_idle_seconds: float = STREAM_IDLE_SECONDS_DEFAULT
    age_seconds: float = AGE_SECONDS_MAX
    chance: Callable[[], float] = lambda: 0.0
    tell: Callable[[Timeout], None] = lambda _: None
    """Told whenever one of them is over."""

    @property
    def sweep_seconds(self) -> float:
        """How often connections are looked at."""
        shortest = min(self.stream_idle_seconds, self.first_byte_seconds or inf)
        return min(SWEEP_SECONDS_MAX, shortest / SWEEPS)

    def allowed(self, timeout: Timeout | None) -> float:
        """How many seconds may pass without a byte."""
        if timeout is Timeout.FIRST_BYTE:
            return self.first_byte_seconds or inf
        return inf if timeout is None else self.stream_idle_seconds

    def words(self, timeout: Timeout) -> str:
        """What has not come, for people, and what to change if it should have more time."""
        seconds = self.allowed(timeout)
        if timeout is Timeout.FIRST_BYTE:
            return f"no reply began within {seconds:g} s (firstByteSeconds)"
        return f"it sent nothing for {seconds:g} s (streamIdleSeconds)"

    def until(self, now: float) -> float:
        """When a connection that is opened now has been in use for long enough."""
        return now + self.age_seconds * (1 - AGE_SPREAD * self.chance())


def patience_of(
    config: ServerConfig, chance: Callable[[], float], tell: Callable[[Timeout], None]
) -> Patience:
    """As a configuration has it."""
    return Patience(
        connect_seconds=config.connect_seconds,
        first_byte_seconds=config.first_byte_seconds,
        stream_idle_seconds=config.stream_idle_seconds,
        chance=chance,
        tell=tell,
    )
