"""`_meta` is rewritten at every hop; vendor keys pass."""

import json

import pytest

from anyport.protocol.meta import PREFIX, PROTOCOL_VERSION, REQUEST_KEYS, edit_meta
from anyport.wire.raw_json import AmbiguousObject


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
    assert edit_meta(payload, changes) == stamped


def test_slashes_that_a_peer_escapes_are_slashes() -> None:
    payload = rb'{"_meta":{"io.modelcontextprotocol\/logLevel":"debug","v":1}}'

    assert edit_meta(payload, dict.fromkeys(REQUEST_KEYS)) == b'{"_meta":{"v":1}}'


@pytest.mark.parametrize("variant", ["ProgressToken", "PROGRESSTOKEN", "progre\u017fstoken"])
def test_a_variant_of_a_key_that_is_set_is_left_out(variant: str) -> None:
    payload = json.dumps({"_meta": {variant: 7, "v": 1}, "a": 1}, separators=(",", ":")).encode()

    assert (
        edit_meta(payload, {"progressToken": b"2"}) == b'{"_meta":{"v":1,"progressToken":2},"a":1}'
    )
    assert edit_meta(payload, {"progressToken": None}) == b'{"_meta":{"v":1},"a":1}'


def test_a_duplicate_key_is_refused() -> None:
    with pytest.raises(AmbiguousObject):
        edit_meta(b'{"_meta":{"k":1,"k":2}}', {"k": b"3"})
