"""Which callers may share a connection."""

from dataclasses import FrozenInstanceError

import pytest

from anyport.protocol.principal import Principal
from anyport.upstream.key import SHARED, LeaseKey


def test_callers_share_a_connection_exactly_if_their_keys_are_equal() -> None:
    own = LeaseKey(owner="a", capabilities=b'{"roots":{}}', interactive=True)

    assert LeaseKey() == SHARED
    assert {own: 1}[LeaseKey(owner="a", capabilities=b'{"roots":{}}', interactive=True)] == 1
    assert own != LeaseKey(owner="b", capabilities=b'{"roots":{}}', interactive=True)
    assert own != LeaseKey(owner="a", interactive=True)
    assert LeaseKey(principal=Principal("token", "me")) != SHARED


def test_a_key_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        SHARED.owner = "me"  # type: ignore[misc]
