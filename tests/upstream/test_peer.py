"""What a server said of itself."""

import pytest
from msgspec import Raw

from anyport.protocol.adapters.server import server_adapter_for
from anyport.protocol.revisions import NEWEST_LEGACY
from anyport.upstream.peer import Peer


@pytest.mark.parametrize(
    ("capability", "flag", "offered"),
    [
        ("tools", None, True),
        ("tools", "listChanged", True),
        ("tools", "subscribe", False),
        ("prompts", None, False),
        ("resources", "subscribe", False),
        ("logging", "x", False),
    ],
)
def test_what_was_declared_is_offered(capability: str, flag: str | None, offered: bool) -> None:
    peer = Peer(
        revision=NEWEST_LEGACY,
        adapter=server_adapter_for(NEWEST_LEGACY, b"{}", {}),
        capabilities={
            "tools": Raw(b'{"listChanged":true}'),
            "resources": Raw(b'{"subscribe":false}'),
            "logging": Raw(b'"nonsense"'),
        },
    )
    assert peer.offers(capability, flag) is offered
