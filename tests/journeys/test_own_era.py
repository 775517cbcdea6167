"""A server that speaks both eras is spoken to in that of the client, also of one without a say.

Sessions that can be asked nothing share one process in their era; clients without a session have
the one that is spoken to without a handshake.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.clients import ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import eventually, said

HERE: Final = Path(__file__).parent
SERVERS: Final[Message] = {
    "keeping": [sys.executable, "-I", "-S", str(HERE / "stateful_server.py"), "both"],
    "adding": [sys.executable, "-I", "-S", str(HERE / "changing_lists_server.py"), "both"],
    "modern": [sys.executable, "-I", "-S", str(HERE / "stateful_server.py"), "modern"],
}
UPDATED: Final = "notifications/resources/updated"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[HttpGateway]:
    with serving(tmp_path, SERVERS, gateway={"listSeconds": 30}) as site:
        yield site


def told(
    client: SessionClient | ModernClient, tool: str = "keeping__tell", **arguments: str
) -> Any:
    return json.loads(said(client.call(tool, arguments)))


def test_sessions_share_one_process_in_their_era(site: HttpGateway) -> None:
    one, two, modern = SessionClient(site), SessionClient(site), ModernClient(site)

    kept = told(one, "keeping__keep", text="a")
    assert kept["era"] == "legacy"
    assert told(two) == kept
    other = told(modern)
    assert (other["era"], other["kept"]) == ("modern", [])
    assert other["pid"] != kept["pid"]


def test_a_session_that_can_be_asked_has_its_own(site: HttpGateway) -> None:
    plain, able = SessionClient(site), SessionClient(site, capabilities={"elicitation": {}})

    pids = {told(client)["pid"] for client in (plain, able, ModernClient(site))}
    assert len(pids) == 3


def test_a_server_of_the_newer_era_alone_is_one_for_all(site: HttpGateway) -> None:
    assert told(SessionClient(site), "modern__tell") == told(ModernClient(site), "modern__tell")


def test_what_was_followed_before_the_first_call_is_told_of_after_it(site: HttpGateway) -> None:
    first, second = SessionClient(site), SessionClient(site)
    for session in (first, second):
        answer = session.request("resources/subscribe", {"uri": "keeping+kept:all"})
        assert answer["result"] == {}
        stream = session.listen()

        pid = told(session, "keeping__keep", text="news")["pid"]

        updated = stream.wait_method(UPDATED)["params"]
        assert (updated["uri"], updated["_meta"]["pid"]) == ("keeping+kept:all", pid)
        stream.close()


def test_what_the_process_of_sessions_lists_is_seen_by_those_whom_it_serves(
    site: HttpGateway,
) -> None:
    one, two = SessionClient(site), SessionClient(site)
    added = one.call("adding__add", {"kind": "tools", "name": "new", "tell": True})
    assert said(added) == "added in the legacy era"

    assert said(one.call("adding__new")) == "this is new"
    assert "adding__new" not in names(two), "it has not been served there yet"
    two.call("adding__add", {"kind": "prompts", "name": "p"})
    eventually(lambda: "adding__new" in names(two), "the tool, in the other session")
    assert "adding__new" not in names(ModernClient(site))
