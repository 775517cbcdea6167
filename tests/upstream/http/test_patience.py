"""How long a server over HTTP is waited for."""

from math import inf

import pytest

from anyport.config.schema import (
    CONNECT_SECONDS_DEFAULT,
    STREAM_IDLE_SECONDS_DEFAULT,
    ServerConfig,
)
from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.patience import (
    AGE_SECONDS_MAX,
    AGE_SPREAD,
    SWEEP_SECONDS_MAX,
    Patience,
    patience_of,
)


def test_a_reply_may_take_as_long_as_its_call_unless_somebody_says_otherwise() -> None:
    patience = patience_of(
        ServerConfig(slug="s", name="s", url="http://x/"), lambda: 0.0, lambda _: None
    )

    assert patience.connect_seconds == CONNECT_SECONDS_DEFAULT
    assert patience.allowed(Timeout.FIRST_BYTE) == inf
    assert patience.allowed(Timeout.STREAM_IDLE) == STREAM_IDLE_SECONDS_DEFAULT
    assert patience.allowed(None) == inf
    assert patience.sweep_seconds == SWEEP_SECONDS_MAX


def test_what_is_configured_counts() -> None:
    config = ServerConfig(
        slug="s",
        name="s",
        url="http://x/",
        connect_seconds=1.0,
        first_byte_seconds=0.2,
        stream_idle_seconds=3.0,
    )

    patience = patience_of(config, lambda: 0.0, lambda _: None)

    assert patience.connect_seconds == 1.0
    assert patience.allowed(Timeout.FIRST_BYTE) == 0.2
    assert patience.allowed(Timeout.STREAM_IDLE) == 3.0
    assert patience.sweep_seconds == pytest.approx(0.05)
    assert patience.words(Timeout.FIRST_BYTE) == "no reply began within 0.2 s (firstByteSeconds)"
    assert patience.words(Timeout.STREAM_IDLE) == "it sent nothing for 3 s (streamIdleSeconds)"


def test_connections_that_were_opened_together_are_not_all_closed_together() -> None:
    assert Patience(chance=lambda: 0.0).until(100.0) == 100.0 + AGE_SECONDS_MAX
    assert Patience(chance=lambda: 1.0).until(100.0) == 100.0 + AGE_SECONDS_MAX * (1 - AGE_SPREAD)
