"""All pages together are the list, and only our own cursors lead from one to the next."""

import base64
import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.paging import render_page
from anyport.protocol.errors import Fault
from anyport.protocol.methods import OfferKind

KEY = b"k" * 32


def entries(count: int) -> list[CatalogEntry]:
    return [
        CatalogEntry(f"t{n}", "a", f"t{n}", b'{"name":"t%d","n":1.0}' % n) for n in range(count)
    ]


def read(
    cursor: str | None,
    size: int = 2,
    count: int = 5,
    kind: OfferKind = OfferKind.TOOLS,
    key: bytes = KEY,
) -> Any:
    raw = None if cursor is None else json.dumps(cursor).encode()
    outcome = render_page(kind, entries(count), raw, size=size, key=key)
    return None if isinstance(outcome, Fault) else json.loads(outcome)


def first_cursor() -> str:
    cursor = read(None)["nextCursor"]
    assert isinstance(cursor, str)
    return cursor


@given(st.integers(0, 30), st.integers(1, 12), st.sampled_from(list(OfferKind)))
@settings(max_examples=50)
def test_all_pages_together_are_the_list(count: int, size: int, kind: OfferKind) -> None:
    names: list[str] = []
    cursor = None
    for _ in range(count // size + 1):
        result = read(cursor, size, count, kind)
        names += [item["name"] for item in result[kind.value]]
        cursor = result.get("nextCursor")
        if cursor is None:
            break

    assert cursor is None
    assert names == [f"t{n}" for n in range(count)]


def test_a_list_that_fits_is_one_page_with_the_bytes_of_its_items_and_the_servers_own_members() -> (
    None
):
    outcome = render_page(OfferKind.TOOLS, entries(2), None, size=2, key=KEY, extras=b'{"ttlMs":5}')

    assert outcome == (b'{"ttlMs":5,"tools":[{"name":"t0","n":1.0},{"name":"t1","n":1.0}]}')


def test_an_empty_list_is_an_empty_page() -> None:
    assert render_page(OfferKind.PROMPTS, [], None, size=2, key=KEY) == b'{"prompts":[]}'


def test_a_cursor_with_any_bit_flipped_is_refused() -> None:
    cursor = first_cursor()
    sealed = base64.urlsafe_b64decode(cursor)

    for place in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[place // 8] ^= 1 << place % 8
        assert read(base64.urlsafe_b64encode(bytes(flipped)).decode()) is None


def test_a_cursor_with_any_character_changed_is_refused() -> None:
    cursor = first_cursor()

    for place, old in enumerate(cursor):
        for new in "Aa0-_+/=.é":
            if new != old:
                assert read(cursor[:place] + new + cursor[place + 1 :]) is None


def test_a_cursor_written_in_another_way_is_refused() -> None:
    cursor = read(None, kind=OfferKind.PROMPTS)["nextCursor"]
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    bare = cursor.rstrip("=")
    # Most decoders ignore the bits that the last digit has too many.
    spare = bare[:-1] + digits[digits.index(bare[-1]) ^ 1] + "=" * (len(cursor) - len(bare))
    assert base64.urlsafe_b64decode(spare) == base64.urlsafe_b64decode(cursor)

    for other in (spare, bare, cursor + "=", cursor + "\n", " " + cursor, cursor + cursor):
        assert read(other, kind=OfferKind.PROMPTS) is None
    assert read(cursor, kind=OfferKind.PROMPTS) is not None


def test_a_cursor_leads_nowhere_in_another_list_a_changed_list_or_under_another_key() -> None:
    cursor = first_cursor()

    assert read(cursor) is not None
    assert read(cursor, kind=OfferKind.PROMPTS) is None
    assert read(cursor, count=6) is None
    assert read(cursor, count=1) is None
    assert read(cursor, key=b"other") is None


@pytest.mark.parametrize(
    "raw",
    [
        b'""',
        b"1",
        b"null",
        b"{}",
        b'"x"',
        b'"AAAA"',
        b'"\\u00e9"',
        b'"%b"' % (b"A" * 300),
        b'"===="',
    ],
)
def test_what_is_no_cursor_of_ours_is_refused_with_a_reason(raw: bytes) -> None:
    outcome = render_page(OfferKind.TOOLS, entries(5), raw, size=2, key=KEY)

    assert isinstance(outcome, Fault)
    assert "Invalid cursor" in outcome.message
