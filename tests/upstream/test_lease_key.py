"""Which callers may share a connection."""

from dataclasses import FrozenInstanceError

import pytest

from anyport.protocol.principal import Principal
from anyport.upstream.lease_key import SHARED, LeaseKey, owner_of_all, owner_of_sessions


def test_callers_share_a_connection_exactly_if_their_keys_are_equal() -> None:
    own = LeaseKey(owner="a", capabilities=b'{"roots":{}}', interactive=True)

    assert LeaseKey() == SHARED
    assert {own: 1}[LeaseKey(owner="a", capabilities=b'{"roots":{}}', interactive=True)] == 1
    assert own != LeaseKey(owner="b", capabilities=b'{"roots":{}}', interactive=True)
    assert own != LeaseKey(owner="a", interactive=True)
    assert LeaseKey(principal=Principal("token", "me")) != SHARED


def test_a_key_says_who_shares_the_connection() -> None:
    me = Principal("token", "me")
    own = LeaseKey(owner="session", fallback=SHARED)
    keys = {
        "one session": own,
        "sessions": LeaseKey(owner=owner_of_sessions(me), principal=me, fallback=SHARED),
        "a principal": LeaseKey(owner=owner_of_all(me), principal=me),
        "one call": LeaseKey(owner="call-1", principal=me),
        "everybody": SHARED,
    }

    assert [who for who, key in keys.items() if key.of_session] == ["one session"]
    assert [who for who, key in keys.items() if key.of_sessions] == ["sessions"]
    assert [who for who, key in keys.items() if key.of_one_call] == ["one call"]


def test_a_server_is_asked_for_a_handshake_for_those_who_begin_with_one_or_may_be_asked() -> None:
    assert not SHARED.wants_session
    for key in (LeaseKey(legacy=True), LeaseKey(interactive=True), LeaseKey(revision="2025-11-25")):
        assert key.wants_session


def test_a_key_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        SHARED.owner = "me"  # type: ignore[misc]
