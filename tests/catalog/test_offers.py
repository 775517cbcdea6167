"""A server's lists are read page by page, within limits, and one bad item spoils nothing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.catalog import offers
from anyport.catalog.offers import (
    IDENTITY_MEMBERS,
    ListCollector,
    Listing,
    ListPage,
    Offer,
    is_repeatable,
    read_page,
    widen_listing,
)
from anyport.protocol.cache_hints import STALE, Freshness
from anyport.protocol.methods import OfferKind


def read(result: Any, kind: OfferKind = OfferKind.TOOLS) -> ListPage:
    found = read_page(kind, json.dumps(result).encode())
    assert found is not None
    return found


def tools(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names], **more}


@pytest.mark.parametrize("kind", OfferKind)
def test_items_of_every_kind_are_known_by_their_own_member(kind: OfferKind) -> None:
    page = read({kind.value: [{"title": "T", IDENTITY_MEMBERS[kind]: "x"}]}, kind)

    (offer,) = page.offers
    assert offer.native == "x"
    assert json.loads(offer.raw) == {"title": "T", IDENTITY_MEMBERS[kind]: "x"}


def test_an_item_keeps_the_bytes_its_server_sent() -> None:
    page = read_page(OfferKind.TOOLS, b'{"tools":[ {"name" : "\\u0061", "n": 1.0} ]}')

    assert page is not None
    (offer,) = page.offers
    assert (offer.native, offer.raw) == ("a", b'{"name" : "\\u0061", "n": 1.0}')


def test_an_item_has_no_second_name_that_some_client_could_take_for_the_first() -> None:
    item = b'{"Name":"other","name":"a","InputSchema":{},"Vendor":1,"vendor":2}'
    page = read_page(OfferKind.TOOLS, b'{"tools":[%b]}' % item)

    assert page is not None
    (offer,) = page.offers
    assert (offer.native, offer.raw) == ("a", b'{"name":"a","Vendor":1,"vendor":2}')


@pytest.mark.parametrize(
    "item",
    [b"1", b"null", b"[]", b"{}", b'{"name":1}', b'{"name":"a","name":"b"}', b'{"Name":"a"}'],
)
def test_an_item_that_cannot_be_used_is_left_out_and_counted(item: bytes) -> None:
    page = read_page(OfferKind.TOOLS, b'{"tools":[{"name":"good"},%b]}' % item)

    assert page is not None
    assert [offer.native for offer in page.offers] == ["good"]
    assert page.dropped == 1


@pytest.mark.parametrize("result", [{}, [], {"tools": {}}, {"tools": None}, {"prompts": []}, 1])
def test_a_result_without_its_list_is_no_page(result: Any) -> None:
    assert read_page(OfferKind.TOOLS, json.dumps(result).encode()) is None


@pytest.mark.parametrize(
    ("cursor", "raw"), [("x", b'"x"'), ("", b'""'), (None, None), (7, None), ({}, None)]
)
def test_a_cursor_is_any_text_even_an_empty_one(cursor: Any, raw: bytes | None) -> None:
    assert read(tools("a", nextCursor=cursor)).cursor == raw
    assert read(tools("a")).cursor is None


def test_what_else_a_result_says_is_kept() -> None:
    page = read(tools("a", nextCursor="x", note=5, _meta={"k": 1}))

    assert json.loads(page.extras) == {"note": 5, "_meta": {"k": 1}}


def test_what_a_result_says_of_its_kind_and_its_freshness_is_not_passed_on() -> None:
    page = read(tools("a", resultType="complete", ttlMs=5, cacheScope="public"))

    assert page.extras == b"{}"
    assert page.freshness == Freshness(5, public=True)


def test_of_several_pages_the_least_fresh_counts_and_one_that_is_private() -> None:
    gathering = ListCollector(OfferKind.TOOLS)
    gathering.add(read(tools("a", nextCursor="2", ttlMs=9, cacheScope="public")))
    gathering.add(read(tools("b", nextCursor="3", ttlMs=5, cacheScope="private")))
    gathering.add(read(tools("c", ttlMs=7, cacheScope="public")))

    assert gathering.listing().freshness == Freshness(5, public=False)
    assert ListCollector(OfferKind.TOOLS).listing().freshness == STALE


def test_how_fresh_a_list_is_makes_it_no_other_list() -> None:
    listing = Listing(offers=(Offer("a", b"{}"),))

    assert replace(listing, freshness=Freshness(5), read_at=7.0) == listing


def test_pages_are_gathered_until_no_cursor_follows() -> None:
    gathering = ListCollector(OfferKind.TOOLS)

    assert gathering.add(read(tools("a", nextCursor="2", note=1))) == b'"2"'
    assert gathering.add(read(tools("b", nextCursor="", note=2))) == b'""'
    assert gathering.add(read(tools("c"))) is None

    listing = gathering.listing()
    assert [offer.native for offer in listing.offers] == ["a", "b", "c"]
    assert json.loads(listing.extras) == {"note": 1}
    assert listing.warning is None


def test_a_cursor_that_comes_again_ends_the_list() -> None:
    gathering = ListCollector(OfferKind.TOOLS)

    assert gathering.add(read(tools("a", nextCursor="x"))) == b'"x"'
    assert gathering.add(read(tools("b", nextCursor="x"))) is None

    assert [offer.native for offer in gathering.listing().offers] == ["a", "b"]


def test_of_two_items_with_one_name_the_first_counts() -> None:
    gathering = ListCollector(OfferKind.TOOLS)

    gathering.add(read({"tools": [{"name": "a", "n": 1}, {"name": "a", "n": 2}]}))

    assert [json.loads(offer.raw)["n"] for offer in gathering.listing().offers] == [1]


def test_unusable_items_of_all_pages_are_counted_together() -> None:
    gathering = ListCollector(OfferKind.TOOLS)

    gathering.add(read({"tools": [1, 2], "nextCursor": "x"}))
    gathering.add(read({"tools": [3, {"name": "a"}]}))

    assert gathering.listing().warning == "3 of its tools cannot be used"


def test_a_list_that_never_ends_is_cut_after_so_many_pages() -> None:
    gathering = ListCollector(OfferKind.TOOLS)
    pages = 0
    cursor: bytes | None = b""
    while cursor is not None:
        pages += 1
        cursor = gathering.add(read(tools(f"t{pages}", nextCursor=f"c{pages}")))

    assert pages == offers.PAGES_MAX
    assert len(gathering.listing().offers) == offers.PAGES_MAX
    assert gathering.listing().warning == "its tools were cut after 100 pages"


def test_a_list_with_too_many_items_is_cut() -> None:
    gathering = ListCollector(OfferKind.TOOLS)

    names = [f"t{number}" for number in range(offers.OFFERS_MAX + 1)]
    assert gathering.add(read(tools(*names, nextCursor="x"))) is None

    assert len(gathering.listing().offers) == offers.OFFERS_MAX
    assert gathering.listing().warning == f"its tools were cut at {offers.OFFERS_MAX}"


def test_a_list_with_too_many_bytes_is_cut() -> None:
    gathering = ListCollector(OfferKind.TOOLS)
    third = "x" * (offers.OFFERS_BYTES_MAX // 3)

    for name in ("a", "b", "c"):
        gathering.add(read({"tools": [{"name": name, "description": third}]}))

    assert [offer.native for offer in gathering.listing().offers] == ["a", "b"]
    assert gathering.listing().warning == "its tools were cut at 2"


def test_an_empty_gathering_is_an_empty_list() -> None:
    listing = ListCollector(OfferKind.TOOLS).listing()

    assert (listing.offers, listing.extras, listing.warning) == ((), b"{}", None)


ANNOTATED = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
MISTAKEN = {"properties": {"region": {"type": "number", "x-mcp-header": "Region"}}}


def test_a_tool_knows_which_of_its_arguments_become_header_fields() -> None:
    (plain, annotated) = read(
        {"tools": [{"name": "a"}, {"name": "b", "inputSchema": ANNOTATED}]}
    ).offers

    assert plain.annotations == {}
    assert annotated.annotations == {"Region": ("region",)}


def test_an_invalid_annotation_costs_one_tool_over_http_and_is_told() -> None:
    tools = [{"name": "a"}, {"name": "b", "inputSchema": MISTAKEN}, {"name": "c"}]
    raw = json.dumps({"tools": tools}).encode()
    page = read_page(OfferKind.TOOLS, raw, over_http=True)
    assert page is not None

    gathering = ListCollector(OfferKind.TOOLS)
    gathering.add(page)
    listing = gathering.listing()

    assert [offer.native for offer in listing.offers] == ["a", "c"]
    assert listing.warning is not None
    assert listing.warning.startswith("1 of its tools cannot be used: the tool 'b' has an invalid")


def test_an_invalid_annotation_costs_nothing_where_there_are_no_headers() -> None:
    page = read({"tools": [{"name": "b", "inputSchema": MISTAKEN}]})

    assert [(offer.native, offer.annotations) for offer in page.offers] == [("b", {})]
    assert page.dropped == 0


def test_a_list_takes_in_what_only_some_see_where_they_see_it() -> None:
    everyones = Listing(offers=(Offer("a", b"new"), Offer("c", b"new")), extras=b'{"x":1}')
    wider = [Offer("a", b"old"), Offer("b", b"own", needs_input=True), Offer("c", b"old")]

    found = widen_listing(everyones, wider)

    assert [(offer.native, offer.raw, offer.needs_input) for offer in found.offers] == [
        ("a", b"new", False),
        ("b", b"own", True),
        ("c", b"new", False),
    ]
    assert found.extras == b'{"x":1}'


def test_what_nobody_is_shown_any_more_leaves_a_wider_list_too() -> None:
    everyones = Listing(offers=(Offer("new", b"new"),))
    wider = [Offer("gone", b"old"), Offer("b", b"own", needs_input=True)]

    assert [offer.native for offer in widen_listing(everyones, wider).offers] == ["b", "new"]


def test_what_everyone_is_shown_by_now_asks_nobody() -> None:
    [offer] = widen_listing(
        Listing(offers=(Offer("b", b"b"),)), [Offer("b", b"b", needs_input=True)]
    ).offers

    assert not offer.needs_input


# Annotations.


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"title": "destructiveHint"}, None),
        ({"readOnlyHint": False, "destructiveHint": False}, None),
        ({"destructiveHint": "true"}, None),
        ({"destructiveHint": True}, False),
        ({"idempotentHint": False}, False),
        ({"destructiveHint": True, "readOnlyHint": True}, False),
        ({"readOnlyHint": True}, True),
        ({"readOnlyHint": True, "idempotentHint": False}, True),
        ({"destructiveHint": True, "idempotentHint": True}, True),
    ],
)
def test_only_what_a_server_writes_of_a_tool_says_something(
    annotations: dict[str, Any], expected: bool | None
) -> None:
    raw = json.dumps({"name": "t", "annotations": annotations}).encode()

    assert is_repeatable(Listing(offers=(Offer("o", b"{}"), Offer("t", raw))), "t") is expected


def test_nothing_is_said_of_a_tool_that_is_not_listed() -> None:
    assert is_repeatable(Listing(), "t") is None
    assert is_repeatable(None, "t") is None
