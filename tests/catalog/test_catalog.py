"""A catalog shows every offer under its public name and finds it again."""

import json
import time

import pytest

from anyport.catalog.catalog import NAMED_KINDS, Catalog, CatalogEntry
from anyport.catalog.names import NameOwners, Prefix
from anyport.catalog.offers import Listing, Offer
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import LEGACY, NEWEST_LEGACY, NEWEST_MODERN, UNNEGOTIATED, Revision
from tests.catalog.fakes import LOCAL_TOOLS, catalog, listed, listing, server, with_skill, with_view


def found(where: Catalog, kind: OfferKind, name: str) -> tuple[str, str] | None:
    entry = where.find_named(kind, name)
    return None if entry is None else (entry.slug, entry.native)


def test_offers_stand_in_the_order_of_the_servers_and_of_their_lists() -> None:
    made = catalog(server("b", tools=["z", "a"], prompts=["p"]), server("a", tools=["m"]))

    assert listed(made, OfferKind.TOOLS) == ["b__z", "b__a", "a__m"]
    assert listed(made, OfferKind.PROMPTS) == ["b__p"]
    assert listed(made, OfferKind.RESOURCES) == []


def test_the_gateways_own_tools_come_first_and_belong_to_no_server() -> None:
    made = catalog(server("a", tools=["get_events"]), prefix="on-conflict", local_tools=LOCAL_TOOLS)

    assert listed(made, OfferKind.TOOLS) == ["gateway_status", "get_events", "a__get_events"]
    assert found(made, OfferKind.TOOLS, "get_events") == ("", "get_events")
    assert found(made, OfferKind.TOOLS, "a__get_events") == ("a", "get_events")


def test_only_the_name_of_an_item_changes() -> None:
    raw = b'{ "title": "T", "name": "x", "n": 1.0, "_meta": {"big": 10000000000000000000000} }'
    made = catalog(("a", {OfferKind.TOOLS: Listing(offers=(Offer("x", raw),))}))

    (entry,) = made.entries(OfferKind.TOOLS)

    assert entry == CatalogEntry("a__x", "a", "x", raw.replace(b'"x"', b'"a__x"'))


def test_a_native_name_is_found_when_one_server_alone_has_it() -> None:
    made = catalog(
        server("a", tools=["x.y", "sha.red"], prompts=["p.q"]),
        server("b", tools=["sha.red", "z"]),
        prefix="on-conflict",
    )

    assert found(made, OfferKind.TOOLS, "x.y") == ("a", "x.y")
    assert found(made, OfferKind.TOOLS, "sha.red") is None
    assert found(made, OfferKind.TOOLS, "z") == ("b", "z")
    assert found(made, OfferKind.PROMPTS, "p.q") == ("a", "p.q")
    assert found(made, OfferKind.PROMPTS, "x.y") is None
    assert found(made, OfferKind.TOOLS, "nothing") is None


def test_where_every_name_is_prefixed_a_native_one_leads_nowhere() -> None:
    made = catalog(server("a", tools=["x"], prompts=["p"]), server("b", tools=["gone__x"]))

    assert found(made, OfferKind.TOOLS, "x") is None
    assert found(made, OfferKind.PROMPTS, "p") is None
    assert found(made, OfferKind.TOOLS, "gone__x") is None


@pytest.mark.parametrize("prefix", ["always", "on-conflict", "never"])
def test_a_name_that_begins_like_a_server_is_nobody_elses(prefix: Prefix) -> None:
    lists = {"tools": ["a__x", "a__x.y", "A__z"], "prompts": ["a__x"]}
    made = catalog(server("b", **lists), server("a"), prefix=prefix)

    for native in ("a__x", "a__x.y"):
        assert found(made, OfferKind.TOOLS, native) is None
    assert found(made, OfferKind.PROMPTS, "a__x") is None
    assert all(entry.public.startswith("b__") for entry in made.entries(OfferKind.TOOLS))


def test_a_native_name_that_was_one_servers_is_never_anothers() -> None:
    owners = {kind: NameOwners() for kind in NAMED_KINDS}
    view = catalog(server("a"), server("b"), prefix="on-conflict").view
    first, second = server("a", tools=["x.y"]), server("b", tools=["x.y"])

    made = Catalog(view, (first, server("b")), owners)
    assert found(made, OfferKind.TOOLS, "x.y") == ("a", "x.y")
    made = Catalog(view, (server("a"), second), owners)
    assert found(made, OfferKind.TOOLS, "x.y") is None
    made = Catalog(view, (first, server("b")), owners)
    assert found(made, OfferKind.TOOLS, "x.y") == ("a", "x.y")


def test_a_public_name_comes_before_a_native_one() -> None:
    made = catalog(server("a", tools=["x"]), server("b", tools=["a__x"]))

    assert found(made, OfferKind.TOOLS, "a__x") == ("a", "x")
    assert found(made, OfferKind.TOOLS, "b__a__x") == ("b", "a__x")


def test_a_tool_that_is_not_allowed_is_neither_seen_nor_found() -> None:
    made = catalog(
        server("a", tools=["x", "y"], prompts=["x"]), allows=lambda slug, native: native != "x"
    )

    assert listed(made, OfferKind.TOOLS) == ["a__y"]
    assert found(made, OfferKind.TOOLS, "x") is None
    assert found(made, OfferKind.TOOLS, "a__x") is None
    assert listed(made, OfferKind.PROMPTS) == ["a__x"]


def test_a_resource_of_one_server_keeps_its_uri() -> None:
    made = catalog(server("a", resources=["file:///x"]), server("b", templates=["b:///{y}"]))

    assert listed(made, OfferKind.RESOURCES) == ["file:///x"]
    assert made.owner_of_uri("file:///x") == ("a", "file:///x")
    assert made.owner_of_uri("b:///1") == ("b", "b:///1")
    assert made.owner_of_uri("c:///1") is None
    assert made.public_uris == {}
    assert made.public_uri("a", "file:///x") == "file:///x"


def test_a_contested_resource_is_shown_and_found_for_each_server() -> None:
    made = catalog(server("a", resources=["file:///x"]), server("b", resources=["file:///x"]))

    assert listed(made, OfferKind.RESOURCES) == ["a+file:///x", "b+file:///x"]
    assert made.owner_of_uri("b+file:///x") == ("b", "file:///x")
    assert made.public_uri("b", "file:///x") == "b+file:///x"
    assert made.owner_of_uri("file:///x") is None


def test_a_web_page_that_two_servers_offer_is_read_from_the_first() -> None:
    pages = ["https://example.com/x"]
    made = catalog(
        server("a", resources=pages, templates=["https://e.com/{x}"]),
        server("b", resources=pages, templates=["https://e.com/{x}"]),
    )

    assert made.owner_of_uri(pages[0]) == ("a", pages[0])
    assert made.owner_of_uri("https://e.com/y") == ("a", "https://e.com/y")


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

    assert made.owner_of_uri(uri) == ("b", native)


def test_a_listed_resource_comes_before_a_template_and_that_before_a_slug() -> None:
    made = catalog(
        server("a", resources=["x:///1"], templates=["a+y:///{n}"]),
        server("b", templates=["x:///{n}"]),
    )

    assert made.owner_of_uri("x:///1") == ("a", "x:///1")
    assert made.owner_of_uri("x:///2") == ("b", "x:///2")
    assert made.owner_of_uri("a+y:///1") == ("a", "a+y:///1")
    assert made.owner_of_uri("a+z:///1") == ("a", "z:///1")


@pytest.mark.parametrize("template", ["{+all}", "a+{+all}", "a+x:///{n}", "ui://a/{+all}"])
def test_a_template_never_answers_for_a_uri_that_names_another_server(template: str) -> None:
    made = catalog(server("b", templates=[template]), server("a", resources=["x:///1"]))

    assert made.owner_of_uri("a+x:///2") == ("a", "x:///2")
    assert made.owner_of_uri("ui://a/view") == ("a", "ui://view")
    assert made.owner_of_uri(made.public_uri("b", template)) is not None


def test_what_two_servers_claim_is_not_what_a_wider_template_of_one_of_them_answers_for() -> None:
    lists = {"resources": ["x:///1"], "templates": ["y:///{n}"]}
    made = catalog(
        server("a", **lists),
        server("b", resources=["x:///1"], templates=["y:///{n}", "y:///{+n}", "{+all}"]),
    )

    assert made.owner_of_uri("x:///1") is None
    assert made.owner_of_uri("y:///1") is None
    assert made.owner_of_uri("a+x:///1") == ("a", "x:///1")
    assert made.owner_of_uri("b+y:///1") == ("b", "y:///1")
    assert made.owner_of_uri("x:///2") == ("b", "x:///2")


def test_a_uri_that_begins_like_another_servers_is_renamed_though_no_two_are_equal() -> None:
    made = catalog(server("b", resources=["a+x:///1", "y:///1"]), server("a"))

    assert listed(made, OfferKind.RESOURCES) == ["b+a+x:///1", "y:///1"]
    assert made.owner_of_uri("a+x:///1") == ("a", "x:///1")
    assert made.owner_of_uri("b+a+x:///1") == ("b", "a+x:///1")


def test_while_a_server_has_not_told_what_it_has_no_template_is_taken_for_it() -> None:
    offered = (server("b", templates=["{+all}"]), server("a"))
    made = catalog(*offered)

    assert made.owner_of_uri("x:///1") == ("b", "x:///1")
    assert Catalog(made.view, offered, unsettled=("a",)).owner_of_uri("x:///1") is None


def test_with_one_server_a_uri_that_begins_like_its_slug_is_its_own() -> None:
    assert catalog(server("git")).owner_of_uri("git+ssh://host/x") is None


def test_a_lone_server_without_a_prefix_is_shown_as_it_is_with_what_else_it_says() -> None:
    lists = {OfferKind.TOOLS: listing(OfferKind.TOOLS, ["get.x", "y"], b'{"ttlMs":5}')}
    made = catalog(("a", lists), prefix="never")

    assert made.view.transparent
    assert listed(made, OfferKind.TOOLS) == ["get.x", "y"]
    assert json.loads(made.extras(OfferKind.TOOLS)) == {"ttlMs": 5}
    assert made.extras(OfferKind.PROMPTS) == b"{}"


def test_what_one_server_says_of_its_list_is_not_said_of_a_merged_one() -> None:
    lists = {OfferKind.TOOLS: listing(OfferKind.TOOLS, ["x"], b'{"ttlMs":5}')}

    assert catalog(("a", lists)).extras(OfferKind.TOOLS) == b"{}"
    assert catalog(("a", lists), server("b"), prefix="never").extras(OfferKind.TOOLS) == b"{}"
    lone = catalog(("a", lists), prefix="never", local_tools=LOCAL_TOOLS)
    assert lone.extras(OfferKind.TOOLS) == b"{}"


def test_what_is_made_from_a_template_of_two_servers_is_public_under_the_name_of_its_own() -> None:
    both = {OfferKind.TEMPLATES: listing(OfferKind.TEMPLATES, ["x:/{id}"])}
    listed = {**both, OfferKind.RESOURCES: listing(OfferKind.RESOURCES, ["x:/alone"])}
    made = catalog(("a", listed), ("b", both))

    assert made.public_uri("a", "x:/1") == "a+x:/1"
    assert made.public_uri("b", "x:/1") == "b+x:/1"
    assert made.public_uri("b", "y:/1") == "y:/1"
    # A alone lists it, so it stays as it is; to B it is one among those of its template.
    assert made.public_uri("a", "x:/alone") == "x:/alone"
    assert made.public_uri("b", "x:/alone") == "b+x:/alone"
    for slug in ("a", "b"):
        assert made.owner_of_uri(made.public_uri(slug, "x:/1")) == (slug, "x:/1")


def test_a_profile_whose_servers_have_not_told_yet_is_empty() -> None:
    made = catalog(prefix="never", slugs=("a",))

    assert all(made.entries(kind) == () for kind in OfferKind)
    assert made.extras(OfferKind.TOOLS) == b"{}"


def test_legacy_clients_see_odd_schemas_repaired_and_modern_ones_nothing_of_sessions() -> None:
    raw = b'{"name":"x","execution":{"taskSupport":"optional"},"outputSchema":{"type":"array"}}'
    odd = Listing(offers=(Offer("x", raw),))
    made = catalog(("a", {OfferKind.TOOLS: odd}))
    alone = catalog(("a", {OfferKind.TOOLS: odd}), prefix="never")

    def raws(shown: Catalog, revision: Revision) -> list[bytes]:
        return [entry.raw for entry in shown.entries_for(OfferKind.TOOLS, revision, askable=False)]

    task = b',"execution":{"taskSupport":"optional"}'
    repaired = b',"inputSchema":{"type":"object"}}'
    assert raws(made, NEWEST_LEGACY) == [b'{"name":"a__x"' + task + repaired]
    assert raws(made, NEWEST_MODERN) == [b'{"name":"a__x","outputSchema":{"type":"array"}}']
    # A server that is shown as it is keeps the faults that are its own.
    assert raws(alone, NEWEST_LEGACY) == [b'{"name":"x"' + task + b"}"]
    assert raws(alone, NEWEST_MODERN) == [b'{"name":"x","outputSchema":{"type":"array"}}']
    # Older revisions know nothing of tasks.
    for revision in LEGACY[:-1]:
        assert raws(made, revision) == [b'{"name":"a__x"' + repaired]


@pytest.mark.parametrize("revision", [*LEGACY, NEWEST_MODERN, UNNEGOTIATED])
def test_an_output_schema_is_shown_to_those_who_get_structured_content(revision: Revision) -> None:
    tool = b'{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}'
    made = catalog(("s", {OfferKind.TOOLS: Listing(offers=(Offer("a", tool),))}))

    [shown] = made.entries_for(OfferKind.TOOLS, revision, askable=False)

    assert ("outputSchema" in json.loads(shown.raw)) == revision.structured


def test_of_a_server_that_makes_tasks_of_any_call_sessions_may_ask_for_one() -> None:
    """The tasks of a modern server are for it to decide, so its tools say nothing of them."""
    plain = Offer("x", b'{"name":"x","inputSchema":{"type":"object"}}')
    odd = Offer("y", b'{"name":"y","execution":5,"inputSchema":{"type":"object"}}')
    tools = {OfferKind.TOOLS: Listing(offers=(plain, odd), tasks=True)}
    made = catalog(("a", tools), ("b", {OfferKind.TOOLS: Listing(offers=(plain,))}))

    def supports(revision: Revision) -> list[object]:
        tools = made.entries_for(OfferKind.TOOLS, revision, askable=False)
        return [json.loads(entry.raw).get("execution") for entry in tools]

    optional = {"taskSupport": "optional"}
    assert supports(NEWEST_LEGACY) == [optional, optional, None]
    for revision in (*LEGACY[:-1], NEWEST_MODERN):
        assert supports(revision) == [None, None, None]


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, NEWEST_MODERN], ids=lambda each: each.name)
def test_what_asks_its_client_is_shown_to_those_who_can_be_asked(revision: Revision) -> None:
    offers = (Offer("x", b'{"name":"x"}', needs_input=True), Offer("y", b'{"name":"y"}'))
    made = catalog(("a", {OfferKind.TOOLS: Listing(offers=offers)}))

    def shown(*, askable: bool) -> list[str]:
        return [
            entry.public for entry in made.entries_for(OfferKind.TOOLS, revision, askable=askable)
        ]

    assert shown(askable=True) == ["a__x", "a__y"]
    assert shown(askable=False) == ["a__y"]
    # Whoever knows the name may try: the server says what it thinks of it.
    assert made.find_named(OfferKind.TOOLS, "a__x") is not None


VIEW = "ui://dice/view"


def shown_views(made: Catalog) -> list[str]:
    tools = [json.loads(entry.raw) for entry in made.entries(OfferKind.TOOLS)]
    return [tool["_meta"]["ui"]["resourceUri"] for tool in tools]


def test_a_view_that_one_server_has_keeps_its_uri_and_need_not_be_listed() -> None:
    made = catalog(with_view("a", "dice", VIEW), server("b", resources=["x:1"]))

    assert made.has_app_views
    assert shown_views(made) == [VIEW]
    assert made.owner_of_uri(VIEW) == ("a", VIEW)
    assert made.public_uris == {}
    assert not catalog(server("b", tools=["x"])).has_app_views


@pytest.mark.parametrize("more", [{}, {"resources": [VIEW]}])
def test_of_a_view_that_two_servers_have_each_tool_names_its_own(
    more: dict[str, list[str]],
) -> None:
    made = catalog(with_view("a", "dice", VIEW, **more), with_view("b", "dice", VIEW))

    assert shown_views(made) == ["ui://a/dice/view", "ui://b/dice/view"]
    for slug, public in zip("ab", shown_views(made), strict=True):
        assert made.owner_of_uri(public) == (slug, VIEW)
        assert made.public_uri(slug, VIEW) == public


def test_a_view_of_a_tool_that_is_denied_is_nobodys() -> None:
    made = catalog(
        with_view("a", "dice", VIEW),
        with_view("b", "dice", VIEW),
        allows=lambda slug, _: slug == "a",
    )

    assert shown_views(made) == [VIEW]
    assert made.owner_of_uri(VIEW) == ("a", VIEW)


def test_no_server_can_take_the_place_of_what_another_ones_view_is_renamed_to() -> None:
    made = catalog(
        with_view("a", "dice", VIEW, resources=["ui://b/dice/view", "b+x:1"]),
        with_view("b", "dice", VIEW),
    )

    assert made.owner_of_uri("ui://b/dice/view") == ("b", VIEW)
    assert made.owner_of_uri("b+x:1") == ("b", "x:1")
    assert listed(made, OfferKind.RESOURCES) == ["ui://a/b/dice/view", "a+b+x:1"]


TEA = "skill://tea"


def skill_uris(made: Catalog) -> list[list[str]]:
    """Of each skill its own URI, and those of its files."""
    found = [json.loads(entry.raw) for entry in made.entries(OfferKind.SKILLS)]
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
        assert made.owner_of_uri(uri) == ("a", uri)
    assert made.owner_of_uri("skill://teapot") == ("b", "skill://teapot")


def test_a_directory_that_two_servers_have_is_renamed_as_a_whole() -> None:
    made = catalog(
        with_skill("a", TEA, "x.md", resources=[f"{TEA}/listed.md"]), with_skill("b", TEA)
    )

    assert skill_uris(made) == [
        [f"a+{TEA}/SKILL.md", f"a+{TEA}/SKILL.md", f"a+{TEA}/x.md"],
        [f"b+{TEA}/SKILL.md", f"b+{TEA}/SKILL.md"],
    ]
    assert listed(made, OfferKind.RESOURCES) == [f"a+{TEA}/listed.md"]
    for slug in "ab":
        for uri in (TEA, f"{TEA}/SKILL.md", f"{TEA}/deep/er.md"):
            assert made.public_uri(slug, uri) == f"{slug}+{uri}"
            assert made.owner_of_uri(f"{slug}+{uri}") == (slug, uri)
    assert made.owner_of_uri(f"{TEA}/SKILL.md") is None


def test_a_file_of_another_server_in_the_directory_of_a_skill_renames_both() -> None:
    made = catalog(with_skill("a", TEA, "x.md"), server("b", resources=[f"{TEA}/y.md"]))

    assert skill_uris(made)[0][0] == f"a+{TEA}/SKILL.md"
    assert listed(made, OfferKind.RESOURCES) == [f"b+{TEA}/y.md"]


def test_skills_that_cannot_be_told_apart_are_listed_once() -> None:
    page = "https://example.com/tea"
    made = catalog(with_skill("a", page), with_skill("b", page))

    assert [uris[0] for uris in skill_uris(made)] == [f"{page}/SKILL.md"]
    assert made.owner_of_uri(f"{page}/x.md") == ("a", f"{page}/x.md")


def test_no_server_can_take_the_place_of_what_another_ones_skill_is_renamed_to() -> None:
    made = catalog(
        with_skill("a", TEA),
        with_skill("b", TEA),
        with_skill("c", f"b+{TEA}"),
        slugs=("a", "b", "c"),
    )

    assert made.owner_of_uri(f"b+{TEA}/SKILL.md") == ("b", f"{TEA}/SKILL.md")
    assert made.owner_of_uri(f"b+{TEA}/x.md") == ("b", f"{TEA}/x.md")
    assert skill_uris(made)[2] == [f"c+b+{TEA}/SKILL.md"] * 2


def test_the_servers_that_offer_an_extension_are_in_the_profiles_order() -> None:
    made = catalog(
        server("a"), server("b"), server("c"), extensions={"c": {"x": b"{}"}, "a": {"x": b"{}"}}
    )

    assert made.view.servers_offering("x") == ("a", "c")
    assert made.view.servers_offering("y") == made.view.servers_offering(None) == ()


def test_a_skill_that_kept_its_name_keeps_it_although_a_template_for_it_is_of_two_servers() -> None:
    template = ["skill://{+path}"]
    made = catalog(
        with_skill("a", TEA, templates=template),
        with_skill("b", "skill://coffee", templates=template),
    )

    for slug, root in (("a", TEA), ("b", "skill://coffee")):
        for uri in (root, f"{root}/SKILL.md", f"{root}/x.md"):
            assert made.public_uri(slug, uri) == uri
            assert made.owner_of_uri(uri) == (slug, uri)
    assert made.public_uri("b", f"{TEA}/x.md") == f"b+{TEA}/x.md"
    assert made.owner_of_uri("b+skill://cocoa/SKILL.md") == ("b", "skill://cocoa/SKILL.md")


def test_a_server_that_claims_much_of_anothers_makes_no_look_up_slow() -> None:
    alike = [f"good+x:{number}" for number in range(5_000)]
    templates = [f"x:{'{a}/' * 100}{number}" for number in range(5_000)]
    made = catalog(
        server("evil", resources=alike, templates=[*templates, "g:{x}"]),
        server("good", templates=["g:{x}", "h:{x}"]),
    )
    assert made.owner_of_uri("h:1") == ("good", "h:1")
    assert made.public_uri("evil", "g:1") == "evil+g:1"
    began = time.process_time()

    for number in range(1_000):
        assert made.owner_of_uri(f"h:{number}") == ("good", f"h:{number}")
        assert made.public_uri("evil", f"x:{number}") == f"x:{number}"

    assert time.process_time() - began < 1


def test_no_server_hides_anothers_template_behind_many_of_its_own() -> None:
    crowd = [f"g:{{x}}/{number}" for number in range(5_000)]
    made = catalog(server("evil", templates=crowd), server("good", templates=["g:{x}"]))

    assert made.owner_of_uri("g:1") == ("good", "g:1")
