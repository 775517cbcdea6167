"""What clients tell that is no request, and which servers hear it."""

import json
from typing import Any

import pytest

from anyport.gateway.local.client_notifications import (
    forward_notification,
    reach_shared_connection,
    reach_sole_client,
)
from anyport.protocol.exchange import Caller
from anyport.protocol.revisions import Revision
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.supervisor import NotReady
from anyport.wire.jsonrpc import Notification
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    FakeServer,
    FakeSession,
    caller,
    declared,
    profile_of,
)
from tests.upstream.fakes import Message

ROOTS, PROGRESS = "notifications/roots/list_changed", "notifications/progress"
VENDOR = "vendor/told"
ABOUT = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "own": 1}


class Scene:
    """A profile with one server, and a client that tells it something."""

    def __init__(self, revision: Revision = MODERN, **config: Any) -> None:
        self.server = FakeServer("s", revision)
        self.profile = profile_of(self.server, **config)

    def tell(self, method: str, by: Caller | None = None, **params: Any) -> list[Message]:
        """What the server gets to hear of it."""
        raw = json.dumps(params).encode() if params else None
        before = len(self.server.channel.sent)
        forward_notification(
            self.profile, by or caller(), Notification(method, raw), reach_shared_connection
        )
        return self.server.channel.sent[before:]


def told(method: str, **params: Any) -> list[Message]:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return [{**message, "params": params} if params else message]


def own(server: FakeServer) -> FakeSession:
    """A session with the connection to a server to itself."""
    server.have(LeaseKey(owner="mine"))
    connection = server.connection
    server.connections = lambda: [(LeaseKey(owner="mine"), connection)]  # type: ignore[method-assign]
    return FakeSession()


@pytest.mark.parametrize("method", [VENDOR, ROOTS])
def test_a_client_without_a_session_tells_a_modern_server_anything(method: str) -> None:
    scene = Scene(transparent=True)
    assert scene.tell(method, _meta=ABOUT) == told(method, _meta=ABOUT)
    assert scene.tell(method) == told(method)


def test_a_session_in_front_of_a_modern_server_tells_it_what_no_revision_has() -> None:
    scene = Scene(transparent=True)
    by = caller(FakeSession())
    assert scene.tell(VENDOR, by, a=1) == told(VENDOR, a=1)
    # The newer era has no roots that could change, and no progress of clients.
    assert scene.tell(ROOTS, by) == scene.tell(PROGRESS, by) == []


def test_a_legacy_server_hears_nothing_of_the_other_era() -> None:
    scene = Scene(LEGACY, transparent=True)
    assert scene.tell(VENDOR, a=1, _meta=ABOUT) == told(VENDOR, a=1, _meta={"own": 1})
    assert scene.tell(ROOTS) == []


@pytest.mark.parametrize(
    ("config", "heard"),
    [
        ({"transparent": True}, [VENDOR, ROOTS, PROGRESS]),
        ({"prefix": "never"}, [VENDOR, ROOTS]),
        ({}, [ROOTS]),
    ],
)
def test_over_its_own_connection_a_session_tells_what_its_profile_passes(
    config: Message, heard: list[str]
) -> None:
    scene = Scene(LEGACY, **config)
    by = caller(own(scene.server))
    for method in (VENDOR, ROOTS, PROGRESS):
        scene.tell(method, by)
    assert [frame["method"] for frame in scene.server.channel.sent] == heard


@pytest.mark.parametrize("config", [{}, {"prefix": "never"}])
def test_of_an_ordinary_profile_nothing_passes_over_a_connection_of_others(config: Message) -> None:
    scene = Scene(**config)
    assert scene.tell(VENDOR) == scene.tell(VENDOR, caller(FakeSession())) == []


@pytest.mark.parametrize("session", [True, False])
def test_what_belongs_to_an_extension_that_both_declare_passes(session: bool) -> None:
    scene = Scene()
    scene.server.extensions = {"com.example/x": b"{}"}
    capabilities: Message = {"extensions": {"com.example/x": {}}}
    if session:
        own = FakeSession()
        own.capabilities = declared(capabilities)
        assert len(scene.tell(VENDOR, caller(own))) == 1
        assert scene.tell(VENDOR, caller(FakeSession("another"))) == []
    else:
        about = {**ABOUT, "io.modelcontextprotocol/clientCapabilities": capabilities}
        assert len(scene.tell(VENDOR, _meta=about)) == 1
        assert scene.tell(VENDOR, _meta=ABOUT) == []


def test_a_server_is_not_started_for_it_unless_there_is_but_one_client() -> None:
    scene = Scene(transparent=True)
    scene.server.waiting = []
    server, said = scene.server, Notification(VENDOR, None)
    scene.server.down = "it is starting"
    assert scene.tell(VENDOR) == []

    forward_notification(scene.profile, caller(), said, reach_sole_client)
    assert server.waiting is not None
    (ready,) = server.waiting
    ready(NotReady("it did not start"))
    assert server.channel.sent == []
    ready(server.connection)
    assert server.channel.sent == told(VENDOR)


@pytest.mark.parametrize("params", [b"[1]", b'{"_meta":7}', b'{"_meta":{"x":1,"x":2}}'])
def test_params_in_an_odd_form_harm_nobody(params: bytes) -> None:
    params = params.replace(b"x", b"io.modelcontextprotocol/x")
    for revision in (LEGACY, MODERN):
        scene = Scene(revision)
        forward_notification(
            scene.profile, caller(), Notification(VENDOR, params), reach_shared_connection
        )
        scene = Scene(revision, transparent=True)
        forward_notification(
            scene.profile, caller(), Notification(VENDOR, params), reach_shared_connection
        )
