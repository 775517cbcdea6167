"""`_meta` is restamped at every hop; what vendors keep there passes untouched."""

import pytest

from anyport.protocol.meta import PREFIX, PROTOCOL_VERSION, REQUEST_KEYS, restamp
from anyport.wire.members import Ambiguous


def test_every_key_of_the_protocol_has_its_prefix() -> None:
    assert PROTOCOL_VERSION == "io.modelcontextprotocol/protocolVersion"
    assert all(key.startswith(PREFIX) for key in REQUEST_KEYS)


@pytest.mark.parametrize(
    ("payload", "changes", "stamped"),
    [
        (b'{"a":1}', {"k": b"2"}, b'{"a":1,"_meta":{"k":2}}'),
        (b"{}", {"k": b"2", "gone": None}, b'{"_meta":{"k":2}}'),
        (b'{"a": 1}', {"k": None}, b'{"a": 1}'),
        (b'{"_meta":{"v":1}}', {"k": b"2"}, b'{"_meta":{"v":1,"k":2}}'),
        (b'{"_meta": {"v": 1, "k": 1} }', {"k": b"2"}, b'{"_meta": {"v": 1, "k": 2} }'),
        (b'{"_meta":{"k":1},"a":1}', {"k": None}, b'{"a":1}'),
        (b'{"_meta":{"k":1,"v":1.0}}', {"k": None}, b'{"_meta":{"v":1.0}}'),
        (b'{"_meta": {}}', {"k": None}, b'{"_meta": {}}'),
        (b'{"_meta":{"k":1}}', {"k": b"1"}, b'{"_meta":{"k":1}}'),
        (b'{"_meta":{"k":1}}', {}, b'{"_meta":{"k":1}}'),
        (b'{"_meta":null,"a":1}', {"k": b"2"}, b'{"_meta":{"k":2},"a":1}'),
        (b'{"_meta":null}', {"k": None}, b'{"_meta":null}'),
    ],
)
def test_keys_are_set_and_left_out_and_nothing_else_moves(
    payload: bytes, changes: dict[str, bytes | None], stamped: bytes
) -> None:
    assert restamp(payload, changes) == stamped


def test_slashes_that_a_peer_escapes_are_slashes() -> None:
    payload = rb'{"_meta":{"io.modelcontextprotocol\/logLevel":"debug","v":1}}'

    assert restamp(payload, dict.fromkeys(REQUEST_KEYS)) == b'{"_meta":{"v":1}}'


def test_a_key_that_stands_twice_is_not_guessed_at() -> None:
    with pytest.raises(Ambiguous):
        restamp(b'{"_meta":{"k":1,"k":2}}', {"k": b"3"})
