"""A catalog shows every offer under its public name and finds it again."""

import json

import pytest

from anyport.protocol.method import Kind
from anyport.protocol.revision import LEGACY, NEWEST_LEGACY, NEWEST_MODERN, Revision
from anyport.routing.catalog import Catalog, Entry
from anyport.routing.offers import Listing, Offer
from tests.routing.fakes import (
    LOCAL_TOOLS,
    catalog,
    listed,
    listing,
    server,
    with_skill,
    with_view,
)


def found(where: Catalog, kind: Kind, name: str) -> tuple[str, str] | None:
    entry = where.named(kind, name)
    return None if entry is None else (entry.slug, entry.native)


def test_offers_stand_in_the_order_of_the_servers_and_of_their_lists() -> None:
    made = catalog(server("b", tools=["z", "a"], prompts=["p"]), server("a", tools=["m"]))

    assert listed(made, Kind.TOOLS) == ["b__z", "b__a", "a__m"]
    assert listed(made, Kind.PROMPTS) == ["b__p"]
    assert listed(made, Kind.RESOURCES) == []


def test_the_gateways_own_tools_come_first_and_belong_to_no_server() -> None:
    made = catalog(server("a", tools=["get_events"]), prefix="on-conflict", local_tools=LOCAL_TOOLS)

    assert listed(made, Kind.TOOLS) == ["gateway_status", "get_events", "a__get_events"]
    assert found(made, Kind.TOOLS, "get_events") == ("", "get_events")
    assert found(made, Kind.TOOLS, "a__get_events") == ("a", "get_events")


def test_only_the_name_of_an_item_changes() -> None:
    raw = b'{ "title": "T", "name": "x", "n": 1.0, "_meta": {"big": 10000000000000000000000} }'
    made = catalog(("a", {Kind.TOOLS: Listing(offers=(Offer("x", raw),))}))

    (entry,) = made.entries(Kind.TOOLS)

    assert entry == Entry("a__x", "a", "x", raw.replace(b'"x"', b'"a__x"'))


def test_a_native_name_is_found_when_one_server_alone_has_it() -> None:
    made = catalog(server("a", tools=["x", "shared"], prompts=["p"]), server("b", tools=["shared"]))

    assert found(made, Kind.TOOLS, "x") == ("a", "x")
    assert found(made, Kind.TOOLS, "shared") is None
    assert found(made, Kind.TOOLS, "b__shared") == ("b", "shared")
    assert found(made, Kind.PROMPTS, "p") == ("a", "p")
    assert found(made, Kind.PROMPTS, "x") is None
    assert found(made, Kind.TOOLS, "nothing") is None


def test_a_public_name_comes_before_a_native_one() -> None:
    made = catalog(server("a", tools=["x"]), server("b", tools=["a__x"]))

    assert found(made, Kind.TOOLS, "a__x") == ("a", "x")
    assert found(made, Kind.TOOLS, "b__a__x") == ("b", "a__x")


def test_a_tool_that_is_not_allowed_is_neither_seen_nor_found() -> None:
    made = catalog(
        server("a", tools=["x", "y"], prompts=["x"]), allows=lambda slug, native: native != "x"
    )

    assert listed(made, Kind.TOOLS) == ["a__y"]
    assert found(made, Kind.TOOLS, "x") is None
    assert found(made, Kind.TOOLS, "a__x") is None
    assert listed(made, Kind.PROMPTS) == ["a__x"]


def test_a_resource_of_one_server_keeps_its_uri() -> None:
    made = catalog(server("a", resources=["file:///x"]), server("b", templates=["b:///{y}"]))

    assert listed(made, Kind.RESOURCES) == ["file:///x"]
    assert made.owner("file:///x") == ("a", "file:///x")
    assert made.owner("b:///1") == ("b", "b:///1")
    assert made.owner("c:///1") is None
    assert made.public_uris == {}
    assert made.public_uri("a", "file:///x") == "file:///x"


def test_a_contested_resource_is_shown_and_found_for_each_server() -> None:
    made = catalog(server("a", resources=["file:///x"]), server("b", resources=["file:///x"]))

    assert listed(made, Kind.RESOURCES) == ["a+file:///x", "b+file:///x"]
    assert made.owner("b+file:///x") == ("b", "file:///x")
    assert made.public_uri("b", "file:///x") == "b+file:///x"
    assert made.owner("file:///x") is None


def test_a_web_page_that_two_servers_offer_is_read_from_the_first() -> None:
    pages = ["https://example.com/x"]
    made = catalog(
        server("a", resources=pages, templates=["https://e.com/{x}"]),
        server("b", resources=pages, templates=["https://e.com/{x}"]),
    )

    assert made.owner(pages[0]) == ("a", pages[0])
    assert made.owner("https://e.com/y") == ("a", "https://e.com/y")


@pytest.mark.parametrize(
    ("template", "uri", "native"),
    [
        ("file:///{x}", "b+file:///a", "file:///a"),
        ("ui://{x}", "ui://b/a.html", "ui://a.html"),
        ("{x}", "b+https://example.com/a", "https://example.com/a"),
    ],
)
def test_a_uri_made_from_a_contested_template_leads_to_its_server(
    template: str, uri: str, native: str
) -> None:
    made = catalog(server("a", templates=[template]), server("b", templates=[template]))

    assert made.owner(uri) == ("b", native)


def test_a_listed_resource_comes_before_a_template_and_that_before_a_slug() -> None:
    made = catalog(
        server("a", resources=["x:///1"]), server("b", templates=["x:///{n}", "a+y:///{n}"])
    )

    assert made.owner("x:///1") == ("a", "x:///1")
    assert made.owner("x:///2") == ("b", "x:///2")
    assert made.owner("a+y:///1") == ("b", "a+y:///1")
    assert made.owner("a+z:///1") == ("a", "z:///1")


def test_with_one_server_a_uri_that_begins_like_its_slug_is_its_own() -> None:
    assert catalog(server("git")).owner("git+ssh://host/x") is None


def test_a_lone_server_without_a_prefix_is_shown_as_it_is_with_what_else_it_says() -> None:
    lists = {Kind.TOOLS: listing(Kind.TOOLS, ["get.x", "y"], b'{"ttlMs":5}')}
    made = catalog(("a", lists), prefix="never")

    assert made.view.transparent
    assert listed(made, Kind.TOOLS) == ["get.x", "y"]
    assert json.loads(made.extras(Kind.TOOLS)) == {"ttlMs": 5}
    assert made.extras(Kind.PROMPTS) == b"{}"


def test_what_one_server_says_of_its_list_is_not_said_of_a_merged_one() -> None:
    lists = {Kind.TOOLS: listing(Kind.TOOLS, ["x"], b'{"ttlMs":5}')}

    assert catalog(("a", lists)).extras(Kind.TOOLS) == b"{}"
    assert catalog(("a", lists), server("b"), prefix="never").extras(Kind.TOOLS) == b"{}"
    lone = catalog(("a", lists), prefix="never", local_tools=LOCAL_TOOLS)
    assert lone.extras(Kind.TOOLS) == b"{}"


def test_what_is_made_from_a_template_of_two_servers_is_public_under_the_name_of_its_own() -> None:
    both = {Kind.TEMPLATES: listing(Kind.TEMPLATES, ["x:/{id}"])}
    listed = {**both, Kind.RESOURCES: listing(Kind.RESOURCES, ["x:/alone"])}
    made = catalog(("a", listed), ("b", both))

    assert made.public_uri("a", "x:/1") == "a+x:/1"
    assert made.public_uri("b", "x:/1") == "b+x:/1"
    assert made.public_uri("b", "y:/1") == "y:/1"
    # A alone lists it, so it stays as it is; to B it is one among those of its template.
    assert made.public_uri("a", "x:/alone") == "x:/alone"
    assert made.public_uri("b", "x:/alone") == "b+x:/alone"
    for slug in ("a", "b"):
        assert made.owner(made.public_uri(slug, "x:/1")) == (slug, "x:/1")


def test_a_profile_whose_servers_have_not_told_yet_is_empty() -> None:
    made = catalog(prefix="never", slugs=("a",))

    assert all(made.entries(kind) == () for kind in Kind)
    assert made.extras(Kind.TOOLS) == b"{}"


def test_legacy_clients_see_odd_schemas_mended_and_modern_ones_nothing_of_sessions() -> None:
    raw = b'{"name":"x","execution":{"taskSupport":"optional"},"outputSchema":{"type":"array"}}'
    odd = Listing(offers=(Offer("x", raw),))
    made = catalog(("a", {Kind.TOOLS: odd}))
    alone = catalog(("a", {Kind.TOOLS: odd}), prefix="never")

    def raws(shown: Catalog, revision: Revision) -> list[bytes]:
        return [entry.raw for entry in shown.entries_for(Kind.TOOLS, revision, askable=False)]

    task = b',"execution":{"taskSupport":"optional"}'
    mended = b',"inputSchema":{"type":"object"}}'
    assert raws(made, NEWEST_LEGACY) == [b'{"name":"a__x"' + task + mended]
    assert raws(made, NEWEST_MODERN) == [b'{"name":"a__x","outputSchema":{"type":"array"}}']
    # A server that is shown as it is keeps the faults that are its own.
    assert raws(alone, NEWEST_LEGACY) == [b'{"name":"x"' + task + b"}"]
    assert raws(alone, NEWEST_MODERN) == [b'{"name":"x","outputSchema":{"type":"array"}}']
    # Older revisions know nothing of tasks.
    for revision in LEGACY[:-1]:
        assert raws(made, revision) == [b'{"name":"a__x"' + mended]


def test_of_a_server_that_makes_tasks_of_any_call_sessions_may_ask_for_one() -> None:
    """The tasks of a modern server are for it to decide, so its tools say nothing of them."""
    plain = Offer("x", b'{"name":"x","inputSchema":{"type":"object"}}')
    odd = Offer("y", b'{"name":"y","execution":5,"inputSchema":{"type":"object"}}')
    tools = {Kind.TOOLS: Listing(offers=(plain, odd), tasks=True)}
    made = catalog(("a", tools), ("b", {Kind.TOOLS: Listing(offers=(plain,))}))

    def supports(revision: Revision) -> list[object]:
        tools = made.entries_for(Kind.TOOLS, revision, askable=False)
        return [json.loads(entry.raw).get("execution") for entry in tools]

    optional = {"taskSupport": "optional"}
    assert supports(NEWEST_LEGACY) == [optional, optional, None]
    for revision in (*LEGACY[:-1], NEWEST_MODERN):
        assert supports(revision) == [None, None, None]


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, NEWEST_MODERN], ids=lambda each: each.name)
def test_what_asks_its_client_is_shown_to_those_who_can_be_asked(revision: Revision) -> None:
    offers = (Offer("x", b'{"name":"x"}', asks=True), Offer("y", b'{"name":"y"}'))
    made = catalog(("a", {Kind.TOOLS: Listing(offers=offers)}))

    def shown(*, askable: bool) -> list[str]:
        return [entry.public for entry in made.entries_for(Kind.TOOLS, revision, askable=askable)]

    assert shown(askable=True) == ["a__x", "a__y"]
    assert shown(askable=False) == ["a__y"]
    # Whoever knows the name may try: the server says what it thinks of it.
    assert made.named(Kind.TOOLS, "a__x") is not None


VIEW = "ui://dice/view"


def shown_views(made: Catalog) -> list[str]:
    tools = [json.loads(entry.raw) for entry in made.entries(Kind.TOOLS)]
    return [tool["_meta"]["ui"]["resourceUri"] for tool in tools]


def test_a_view_that_one_server_has_keeps_its_uri_and_need_not_be_listed() -> None:
    made = catalog(with_view("a", "dice", VIEW), server("b", resources=["x:1"]))

    assert made.has_views
    assert shown_views(made) == [VIEW]
    assert made.owner(VIEW) == ("a", VIEW)
    assert made.public_uris == {}
    assert not catalog(server("b", tools=["x"])).has_views


@pytest.mark.parametrize("more", [{}, {"resources": [VIEW]}])
def test_of_a_view_that_two_servers_have_each_tool_names_its_own(
    more: dict[str, list[str]],
) -> None:
    made = catalog(with_view("a", "dice", VIEW, **more), with_view("b", "dice", VIEW))

    assert shown_views(made) == ["ui://a/dice/view", "ui://b/dice/view"]
    for slug, public in zip("ab", shown_views(made), strict=True):
        assert made.owner(public) == (slug, VIEW)
        assert made.public_uri(slug, VIEW) == public


def test_a_view_of_a_tool_that_is_denied_is_nobodys() -> None:
    made = catalog(
        with_view("a", "dice", VIEW),
        with_view("b", "dice", VIEW),
        allows=lambda slug, _: slug == "a",
    )

    assert shown_views(made) == [VIEW]
    assert made.owner(VIEW) == ("a", VIEW)


def test_no_server_can_take_the_place_of_what_another_ones_view_is_renamed_to() -> None:
    made = catalog(
        with_view("a", "dice", VIEW, resources=["ui://b/dice/view", "b+x:1"]),
        with_view("b", "dice", VIEW),
    )

    assert made.owner("ui://b/dice/view") == ("b", VIEW)
    assert made.owner("b+x:1") == ("b", "x:1")
    assert listed(made, Kind.RESOURCES) == ["ui://a/b/dice/view", "a+b+x:1"]


TEA = "skill://tea"


def skill_uris(made: Catalog) -> list[list[str]]:
    """Of each skill its own URI, and those of its files."""
    found = [json.loads(entry.raw) for entry in made.entries(Kind.SKILLS)]
    return [[skill["uri"], *(file["uri"] for file in skill["resources"])] for skill in found]


def test_the_skills_of_all_servers_are_listed_and_keep_their_uris() -> None:
    made = catalog(with_skill("a", TEA, "x.md"), with_skill("b", "skill://coffee"))

    assert skill_uris(made) == [
        [f"{TEA}/SKILL.md", f"{TEA}/SKILL.md", f"{TEA}/x.md"],
        ["skill://coffee/SKILL.md", "skill://coffee/SKILL.md"],
    ]


def test_all_that_lies_in_the_directory_of_a_skill_is_its_servers_listed_or_not() -> None:
    made = catalog(with_skill("a", TEA), server("b", templates=["skill://{+path}"]))

    for uri in (TEA, f"{TEA}/SKILL.md", f"{TEA}/made/on/demand.md"):
        assert made.owner(uri) == ("a", uri)
    assert made.owner("skill://teapot") == ("b", "skill://teapot")


def test_a_directory_that_two_servers_have_is_renamed_as_a_whole() -> None:
    made = catalog(
        with_skill("a", TEA, "x.md", resources=[f"{TEA}/listed.md"]), with_skill("b", TEA)
    )

    assert skill_uris(made) == [
        [f"a+{TEA}/SKILL.md", f"a+{TEA}/SKILL.md", f"a+{TEA}/x.md"],
        [f"b+{TEA}/SKILL.md", f"b+{TEA}/SKILL.md"],
    ]
    assert listed(made, Kind.RESOURCES) == [f"a+{TEA}/listed.md"]
    for slug in "ab":
        for uri in (TEA, f"{TEA}/SKILL.md", f"{TEA}/deep/er.md"):
            assert made.public_uri(slug, uri) == f"{slug}+{uri}"
            assert made.owner(f"{slug}+{uri}") == (slug, uri)
    assert made.owner(f"{TEA}/SKILL.md") is None


def test_a_file_of_another_server_in_the_directory_of_a_skill_renames_both() -> None:
    made = catalog(with_skill("a", TEA, "x.md"), server("b", resources=[f"{TEA}/y.md"]))

    assert skill_uris(made)[0][0] == f"a+{TEA}/SKILL.md"
    assert listed(made, Kind.RESOURCES) == [f"b+{TEA}/y.md"]


def test_skills_that_cannot_be_told_apart_are_listed_once() -> None:
    page = "https://example.com/tea"
    made = catalog(with_skill("a", page), with_skill("b", page))

    assert [uris[0] for uris in skill_uris(made)] == [f"{page}/SKILL.md"]
    assert made.owner(f"{page}/x.md") == ("a", f"{page}/x.md")


def test_no_server_can_take_the_place_of_what_another_ones_skill_is_renamed_to() -> None:
    made = catalog(
        with_skill("a", TEA),
        with_skill("b", TEA),
        with_skill("c", f"b+{TEA}"),
        slugs=("a", "b", "c"),
    )

    assert made.owner(f"b+{TEA}/SKILL.md") == ("b", f"{TEA}/SKILL.md")
    assert made.owner(f"b+{TEA}/x.md") == ("b", f"{TEA}/x.md")
    assert skill_uris(made)[2] == [f"c+b+{TEA}/SKILL.md"] * 2


def test_the_servers_that_offer_an_extension_are_in_the_profiles_order() -> None:
    made = catalog(
        server("a"), server("b"), server("c"), extensions={"c": {"x": b"{}"}, "a": {"x": b"{}"}}
    )

    assert made.view.offering("x") == ("a", "c")
    assert made.view.offering("y") == made.view.offering(None) == ()


def test_a_skill_that_kept_its_name_keeps_it_although_a_template_for_it_is_of_two_servers() -> None:
    template = ["skill://{+path}"]
    made = catalog(
        with_skill("a", TEA, templates=template),
        with_skill("b", "skill://coffee", templates=template),
    )

    for slug, root in (("a", TEA), ("b", "skill://coffee")):
        for uri in (root, f"{root}/SKILL.md", f"{root}/x.md"):
            assert made.public_uri(slug, uri) == uri
            assert made.owner(uri) == (slug, uri)
    assert made.public_uri("b", f"{TEA}/x.md") == f"b+{TEA}/x.md"
    assert made.owner("b+skill://cocoa/SKILL.md") == ("b", "skill://cocoa/SKILL.md")
