"""How long a server is waited for, and how much it is asked at a time."""

from pathlib import Path

import pytest

from anyport.config import ConfigError, load
from anyport.config.model import ServerConfig


def loaded(folder: Path, text: str) -> ServerConfig:
    file = folder / "anyport.toml"
    file.write_text('[mcpServers.one]\ncommand = "x"\n' + text)
    return load([file], {}).servers["one"]


def test_a_server_of_which_nothing_is_said_has_the_defaults(tmp_path: Path) -> None:
    server = loaded(tmp_path, "")
    assert (server.timeout_seconds_max, server.connect_seconds) == (600.0, 5.0)
    assert (server.first_byte_seconds, server.stream_idle_seconds) == (None, 300.0)
    assert (server.calls_max, server.queue_max, server.queue_seconds) == (128, 1024, 30.0)
    assert (server.start, server.idle_seconds) == ("eager", None)
    assert (server.retry, server.breaker) == ("auto", True)


def test_a_server_says_everything(tmp_path: Path) -> None:
    server = loaded(
        tmp_path,
        """
        timeoutMax = 900
        connectSeconds = 2
        firstByteSeconds = 10
        streamIdleSeconds = 60
        callsMax = 4
        queueMax = 0
        queueSeconds = 1.5
        start = "first-use"
        idleSeconds = 120
        retry = "never"
        breaker = false
        """,
    )
    assert (server.timeout_seconds_max, server.connect_seconds) == (900.0, 2.0)
    assert (server.first_byte_seconds, server.stream_idle_seconds) == (10.0, 60.0)
    assert (server.calls_max, server.queue_max, server.queue_seconds) == (4, 0, 1.5)
    assert (server.start, server.idle_seconds) == ("first-use", 120.0)
    assert (server.retry, server.breaker) == ("never", False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("callsMax = 0", "callsMax must be between 1 and 100,000"),
        ("queueMax = -1", "queueMax must be between 0 and 1,000,000"),
        ("queueSeconds = 0", "queueSeconds must be between 0.1 and 3,600"),
        ("timeoutMax = 86401", "timeoutMax must be between 0.1 and 86,400"),
        ("idleSeconds = -1", "idleSeconds must be between 0 and 604,800"),
        ('start = "lazy"', 'start must be one of: "eager", "first-use"'),
        ('breaker = "no"', "breaker must be true or false"),
    ],
)
def test_what_cannot_be_is_refused_with_its_bounds(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, line)
    [fault] = caught.value.faults
    assert words.partition(" ")[0] in str(fault)
    assert words.partition(" must ")[2].split()[0] in str(fault)
