"""A gateway that everything here looks at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.protocol.methods import OfferKind
from tests.gateway.api.fakes import FakeGateway
from tests.gateway.fakes import FakeServer


def rich_server() -> FakeServer:
    """One that offers something of each kind."""
    server = FakeServer(
        "docs",
        args=("--token", "hunter2-argument"),
        env={"TOKEN": "hunter2-variable"},
        headers={"Authorization": "Bearer hunter2-header"},
        secrets=frozenset({"hunter2-argument", "hunter2-variable", "hunter2-header"}),
    )
    tool = b'{"name":"read","title":"Read","description":"Reads a page.","inputSchema":{}}'
    server.listings |= {
        OfferKind.TOOLS: Listing(
            offers=(Offer("read", tool), Offer("odd", b'{"name":"odd","title":7}'))
        ),
        OfferKind.RESOURCES: Listing(
            offers=(Offer("doc:1", b'{"uri":"doc:1","name":"one","mimeType":"text/plain"}'),)
        ),
        OfferKind.TEMPLATES: Listing(
            offers=(Offer("doc:{id}", b'{"uriTemplate":"doc:{id}","name":"any"}'),)
        ),
        OfferKind.PROMPTS: Listing(offers=(Offer("ask", b'{"name":"ask","description":"Asks."}'),)),
    }
    server.lists_ready = True
    return server


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[FakeGateway]:
    """One server that runs, one that is down, one that is disabled."""
    down = FakeServer("down", None)
    down.last_error = "exit code 1"
    gateway = FakeGateway(tmp_path, rich_server(), down, FakeServer("off", None, disabled=True))
    yield gateway
    gateway.close()
