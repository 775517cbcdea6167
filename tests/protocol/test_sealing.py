"""A seal opens what was sealed, and nothing else."""

import random
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.protocol.sealing import KEY_BYTES, TAG_BYTES, Seal, digest_of

OLD, NEW, FOREIGN = (bytes([number]) * KEY_BYTES for number in (1, 2, 3))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

SEAL = Seal([NEW])
CLAIMS = bytes(range(100, 116))
SEALED = SEAL.seal("session", CLAIMS)


@given(st.binary(max_size=200), st.text(max_size=20))
def test_what_was_sealed_opens(claims: bytes, kind: str) -> None:
    assert SEAL.open(kind, SEAL.seal(kind, claims)) == claims


@given(st.binary(max_size=64))
def test_a_seal_is_short_and_fits_into_a_url_and_a_header(claims: bytes) -> None:
    sealed = SEAL.seal("session", claims)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", sealed)
    assert len(sealed) <= 24 + len(claims) * 4 / 3 + 1


def test_a_session_id_has_46_characters() -> None:
    assert len(SEALED) == 46


def test_a_seal_never_changes_so_that_a_restart_does_not_void_it() -> None:
    assert SEAL.seal("session", CLAIMS) == SEALED == Seal([NEW]).seal("session", CLAIMS)


def test_no_flipped_bit_opens() -> None:
    raw = urlsafe_b64decode(SEALED + "==")
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert SEAL.open("session", urlsafe_b64encode(flipped).decode().rstrip("=")) is None


def test_no_other_character_opens() -> None:
    for at in range(len(SEALED)):
        for other in set(printable + "é\u212a\0\ud800") - {SEALED[at]}:
            assert SEAL.open("session", SEALED[:at] + other + SEALED[at + 1 :]) is None


def test_no_shorter_and_no_longer_one_opens() -> None:
    for length in range(len(SEALED)):
        assert SEAL.open("session", SEALED[:length]) is None
        assert SEAL.open("session", SEALED[length + 1 :]) is None
        assert SEAL.open("session", SEALED[:length] + SEALED[length + 1 :]) is None
    for extra in (*ALPHABET, "=", "==", " ", "\n", "\0", ".", "AAAA", SEALED):
        assert SEAL.open("session", SEALED + extra) is None
        assert SEAL.open("session", extra + SEALED) is None
        assert SEAL.open("session", SEALED[:20] + extra + SEALED[20:]) is None


def test_many_random_changes_do_not_open() -> None:
    chance = random.Random(43)
    for _ in range(5_000):
        changed = list(SEALED)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(changed))] = chance.choice(ALPHABET)
        text = "".join(changed)
        assert text == SEALED or SEAL.open("session", text) is None


def test_only_one_spelling_opens() -> None:
    """The last character has spare bits, and base64 has a second alphabet."""
    for end in ALPHABET:
        other = SEALED[:-1] + end
        assert (SEAL.open("session", other) is not None) == (other == SEALED)
    claims = next(
        claims for claims in (bytes([one]) for one in range(256))
        if re.search("[-_]", SEAL.seal("x", claims))
    )  # fmt: skip
    sealed = SEAL.seal("x", claims)
    assert SEAL.open("x", sealed.replace("-", "+").replace("_", "/")) is None


def test_a_seal_is_good_for_one_use_only() -> None:
    for kind in ("", "cursor", "Session", "session ", "sessio", "sessionn", "session\0"):
        assert SEAL.open(kind, SEALED) is None


def test_the_end_of_a_kind_does_not_pass_for_the_beginning_of_the_claims() -> None:
    sealed = SEAL.seal("ab", b"c")
    head = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))[: 2 + TAG_BYTES]
    shifted = urlsafe_b64encode(head + b"bc").decode().rstrip("=")
    assert SEAL.open("a", shifted) is None


def test_a_foreign_key_opens_nothing_even_under_our_id() -> None:
    foreign = Seal([FOREIGN]).seal("session", CLAIMS)
    assert SEAL.open("session", foreign) is None
    ours, theirs = (urlsafe_b64decode(text + "==") for text in (SEALED, foreign))
    for swapped in (ours[:2] + theirs[2:], theirs[:2] + ours[2:]):
        assert SEAL.open("session", urlsafe_b64encode(swapped).decode().rstrip("=")) is None


def test_after_a_rotation_the_old_ones_open_and_new_ones_have_the_new_key() -> None:
    rotated, before = Seal([NEW, OLD]), Seal([OLD])
    old = before.seal("session", CLAIMS)
    assert rotated.open("session", old) == CLAIMS
    assert rotated.seal("session", CLAIMS) == SEALED
    assert before.open("session", SEALED) is None
    raw_old, raw_new = (urlsafe_b64decode(text + "==") for text in (old, SEALED))
    for swapped in (raw_old[:2] + raw_new[2:], raw_new[:2] + raw_old[2:]):
        assert rotated.open("session", urlsafe_b64encode(swapped).decode().rstrip("=")) is None


def test_no_seal_is_lost_while_keys_rotate_again_and_again() -> None:
    keys = [number.to_bytes(KEY_BYTES) for number in range(300)]
    sealed = [Seal([key]).seal("session", CLAIMS) for key in keys]
    # Among 300 keys two-byte ids may collide; every seal must open all the same.
    everything = Seal(keys)
    assert [everything.open("session", each) for each in sealed] == [CLAIMS] * len(keys)


def test_a_key_that_was_dropped_opens_nothing_any_more() -> None:
    assert Seal([NEW]).open("session", Seal([OLD]).seal("session", CLAIMS)) is None


def test_two_keys_with_one_id_are_distinguished_by_the_tag() -> None:
    first, second = keys_with_one_id()
    both = Seal([first, second])
    assert both.open("x", Seal([first]).seal("x", b"1")) == b"1"
    assert both.open("x", Seal([second]).seal("x", b"2")) == b"2"


def keys_with_one_id() -> tuple[bytes, bytes]:
    seen: dict[bytes, bytes] = {}
    for number in range(2**16 + 1):
        key = number.to_bytes(KEY_BYTES)
        twin = seen.setdefault(urlsafe_b64decode(Seal([key]).seal("x", b""))[:2], key)
        if twin != key:
            return twin, key
    raise AssertionError("more keys than ids, and no two alike")


def test_ids_of_sessions_do_not_repeat() -> None:
    chance = random.Random(10)
    assert len({SEAL.seal("session", chance.randbytes(16)) for _ in range(20_000)}) == 20_000


@pytest.mark.parametrize("keys", [[], [b""], [NEW, b"short"], [bytes(KEY_BYTES + 1)]])
def test_a_seal_needs_good_keys(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Seal(keys)


@given(st.text())
def test_nothing_that_is_thrown_at_it_raises(text: str) -> None:
    assert SEAL.open("session", text) is None


def test_a_digest_of_several_texts_keeps_them_apart() -> None:
    assert digest_of([b"ab", b"c"], 16) == digest_of(iter([b"ab", b"c"]), 16)
    assert digest_of([b"ab", b"c"], 16) != digest_of([b"a", b"bc"], 16)
    assert digest_of([b"ab", b"c"], 16) != digest_of([b"abc"], 16)
    assert len(digest_of([], 12)) == 12
