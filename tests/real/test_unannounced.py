"""Servers on an SDK that does not tell what was added, and one that its next version replaces."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.harness import Message
from tests.journeys.clients import ModernClient, SessionClient, names
from tests.journeys.http_gateway import serving
from tests.journeys.scripts import eventually, said
from tests.real import rig
from tests.real.conftest import LIST_SECONDS
from tests.rig.toxic_proxy import deserted

pytestmark = pytest.mark.real

CHANGED = "notifications/tools/list_changed"
GROWING = rig.server("growing_py2")
ERAS = ["legacy", "modern"]


@contextmanager
def listening(port: int, tools: str) -> Iterator[None]:
    """A server without sessions at an address."""
    with subprocess.Popen([*GROWING, "streamable-http", str(port), tools]) as running:
        try:
            rig.wait_listening("growing", port)
            yield
        finally:
            running.kill()


@pytest.mark.parametrize("client", [SessionClient, ModernClient])
@pytest.mark.parametrize("protocol", ERAS)
def test_a_tool_that_was_added_at_run_time_is_called_and_then_listed(
    tmp_path: Path, protocol: str, client: type[SessionClient] | type[ModernClient]
) -> None:
    command, *args = [*GROWING, "stdio", "first"]
    entry: Message = {"command": command, "args": args, "protocol": protocol}
    with serving(tmp_path, {"s": entry}) as site:
        at = client(site)
        assert names(at)[2:] == ["s__grow", "s__first"]
        assert said(at.call("s__grow", {"name": "second"})) == "added second"

        assert said(at.call("s__second")) == "this is second"
        assert names(at)[2:] == names(client(site))[2:] == ["s__grow", "s__first", "s__second"]


@pytest.mark.parametrize("protocol", ERAS)
def test_a_tool_that_was_added_at_run_time_is_listed_though_nobody_calls_it(
    tmp_path: Path, protocol: str
) -> None:
    command, *args = [*GROWING, "stdio", "first"]
    entry: Message = {"command": command, "args": args, "protocol": protocol}
    with serving(tmp_path, {"s": entry}) as site:
        session = SessionClient(site)
        names(session)
        stream = session.listen()
        session.call("s__grow", {"name": "second"})

        eventually(lambda: "s__second" in names(SessionClient(site)), "the tool, in a new session")
        stream.wait_method(CHANGED)
        stream.close()


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_tool_that_one_sessions_process_got_is_that_sessions_alone(
    tmp_path: Path, protocol: str
) -> None:
    command, *args = [*GROWING, "stdio", "first"]
    entry: Message = {"command": command, "args": args, "protocol": protocol}
    with serving(tmp_path, {"s": entry}, gateway={"listSeconds": LIST_SECONDS}) as site:
        one, two = (SessionClient(site, capabilities={"elicitation": {}}) for _ in range(2))
        for session, name in ((one, "of_one"), (two, "of_two")):
            assert said(session.call("s__grow", {"name": name})) == f"added {name}"
            assert said(session.call(f"s__{name}")) == f"this is {name}"

        assert names(one)[2:] == ["s__grow", "s__first", "s__of_one"]
        assert names(two)[2:] == ["s__grow", "s__first", "s__of_two"]
        assert "error" in one.call("s__of_two")
        assert names(ModernClient(site))[2:] == ["s__grow", "s__first"]


@pytest.mark.parametrize("protocol", ERAS)
def test_a_server_that_is_replaced_by_its_next_version_shows_what_that_has(
    tmp_path: Path, protocol: str
) -> None:
    with deserted() as port, ExitStack() as stack:
        entry: Message = {"url": f"http://127.0.0.1:{port}/mcp", "protocol": protocol}
        with listening(port, "old,both"):
            site = stack.enter_context(serving(tmp_path, {"s": entry}))
            session = SessionClient(site)
            assert names(session)[2:] == ["s__grow", "s__old", "s__both"]
        with listening(port, "both,new"):
            eventually(lambda: "s__new" in names(SessionClient(site)), "the new tools")

            assert names(session)[2:] == ["s__grow", "s__both", "s__new"]
            assert said(session.call("s__new")) == "this is new"
