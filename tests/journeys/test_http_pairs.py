"""Every revision in front of every kind of server: the same tools do the same things."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.harness import Message
from tests.journeys.clients import (
    LEGACY,
    MODERN,
    Client,
    ModernClient,
    SessionClient,
    SseClient,
    names,
    status,
)
from tests.journeys.http_gateway import HttpGateway
from tests.journeys.scripts import said

FRONTS: dict[str, Callable[[HttpGateway], Client]] = {
    f"{MODERN} over HTTP": ModernClient,
    **{
        f"{revision} in a session": partial(SessionClient, revision=revision) for revision in LEGACY
    },
    **{
        f"{revision} over HTTP+SSE": partial(SseClient, revision=revision)
        for revision in LEGACY[::3]
    },
}
BACKS = {
    "stdio-old": ("legacy", "stdio"),
    "stdio-new": ("modern", "stdio"),
    "http-old": ("legacy", "streamable-http"),
    "http-new": ("modern", "streamable-http"),
    "json": ("legacy", "streamable-http"),
    "older": ("legacy", "sse"),
}


@pytest.fixture(scope="module", params=FRONTS)
def client(request: pytest.FixtureRequest, site: HttpGateway) -> Client:
    """A client of one revision, the same for every server."""
    return FRONTS[request.param](site)


def progress(client: Client, token: Any) -> list[Message]:
    told = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
    return [params for params in told if params["progressToken"] == token]


@pytest.mark.parametrize("back", BACKS)
def test_a_client_of_any_revision_works_with_any_kind_of_server(client: Client, back: str) -> None:
    listed = names(client)
    for tool in ("echo", "slow", "error", "fail", "elicit"):
        assert f"{back}__{tool}" in listed

    assert said(client.call(f"{back}__echo", {"text": "hällo\n\ndata: x"})) == "hällo\n\ndata: x"

    failed = client.call(f"{back}__fail", {"message": "no"})["result"]
    assert failed["isError"] is True

    error = client.call(f"{back}__error", {"code": 4321, "message": "so be it", "data": [1]})
    assert (error["error"]["code"], error["error"]["message"]) == (4321, "so be it")
    assert error["error"]["data"]["server"] == back
    assert error["error"]["data"]["originalError"]["data"] == [1]

    token = f"of {back}"
    slow = client.call(f"{back}__slow", {"seconds": 0.05, "steps": 3}, progressToken=token)
    assert said(slow) == "Done after 3 steps."
    # A server that never opens a stream has no way to tell of progress.
    steps = [] if back == "json" else [1, 2, 3]
    assert [told["progress"] for told in progress(client, token)] == steps
    assert all(told["total"] == 3 for told in progress(client, token))


def test_every_server_was_reached_in_its_own_way(site: HttpGateway) -> None:
    backends = status(SessionClient(site))["backends"]
    found = {name: (server["era"], server["transport"]) for name, server in backends.items()}
    assert found == BACKS
