"""The port as a whole: where what is, and how it starts and stops."""

import subprocess
import sys

import pytest

from tests.demo.driver import EVERYTHING, Json
from tests.demo.http.driver import Event, HttpDemo, Session

GET = {"Accept": "text/event-stream"}


@pytest.mark.parametrize(
    ("options", "mcp", "sse", "ready"),
    [
        ([], 400, 200, "/mcp"),
        (["--transport", "streamable"], 400, 404, "/mcp"),
        (["--transport", "sse"], 404, 200, "/sse"),
        (["--modern-only"], 405, 404, "/mcp"),
        (["--legacy-only"], 400, 200, "/mcp"),
    ],
)
def test_each_transport_is_at_its_address(
    options: list[str], mcp: int, sse: int, ready: str
) -> None:
    with HttpDemo(*options) as demo:
        assert demo.ready.endswith(f"{ready}\n")
        assert demo.send("GET", "/mcp", headers=GET).status == mcp
        assert demo.send("GET", "/sse", headers=GET).status == sse
        assert demo.send("GET", "/", headers=GET).status == 404


def test_a_server_that_is_told_to_stop_ends_everything_and_exits() -> None:
    with HttpDemo() as demo:
        session = Session(demo, capabilities=EVERYTHING)
        streams = [session.get(), session.call("roots"), demo.send("GET", "/sse", headers=GET)]
        demo.ask_modern("tools/list")  # Leaves an idle connection behind.

        demo.terminate()

        assert demo.exit_code() == 0
        for stream in streams:
            assert all("result" not in message for message in messages(stream.events()))
        assert "fault" not in demo.stderr()


def test_a_discovery_can_be_deadly() -> None:
    with HttpDemo("--die-on-discover") as demo:
        with pytest.raises(ConnectionError):
            demo.ask_modern("server/discover")

        assert demo.exit_code() == 1


def test_a_port_that_is_taken_is_told() -> None:
    with HttpDemo() as demo:
        command = [sys.executable, "-m", "anyport.demo", "--http", str(demo.port)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)

        assert ended.returncode == 1
        assert ended.stderr.startswith(f"cannot listen on 127.0.0.1:{demo.port}: ")
        assert len(ended.stderr.splitlines()) == 1


def messages(events: list[Event]) -> list[Json]:
    return [event.message for event in events if event.event == "message"]
