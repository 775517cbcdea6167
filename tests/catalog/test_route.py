"""A request finds the one server that answers it, under that server's own names."""

import json
from typing import Any

import pytest

from anyport.catalog.catalog import Catalog
from anyport.catalog.route import LocalRoute, Route, Unroutable, owner_of_uri, resolve_route
from anyport.protocol.extensions import APPS, SKILLS
from anyport.protocol.methods import METHODS
from anyport.protocol.revisions import REVISIONS, Revision
from anyport.wire import raw_json
from tests.catalog.fakes import LOCAL_TOOLS, catalog, server, with_skill

TWO = catalog(
    server("a", tools=["x", "shared"], prompts=["p"], resources=["file:///x", "only:///a"]),
    server("b", tools=["shared"], templates=["b:///{n}"], resources=["file:///x"]),
    local_tools=LOCAL_TOOLS,
)
TRANSPARENT = catalog(server("a", tools=["x"]), prefix="never")


def route(method: str, params: Any, where: Catalog = TWO) -> Route | LocalRoute | Unroutable:
    raw = params if isinstance(params, bytes) else json.dumps(params).encode()
    return resolve_route(METHODS[method], raw, raw_json.members(raw), where)


def refusal(method: str, params: Any, where: Catalog = TWO) -> Unroutable:
    found = route(method, params, where)
    assert isinstance(found, Unroutable)
    return found


def test_a_tool_goes_to_its_server_under_its_native_name() -> None:
    params = b'{ "arguments": {"n": 1.0}, "name": "b__shared" }'

    assert route("tools/call", params) == Route(
        slug="b",
        params=b'{ "arguments": {"n": 1.0}, "name": "shared" }',
        native="shared",
        public="b__shared",
    )


def test_params_that_need_no_change_keep_every_byte() -> None:
    params = b'{ "name" : "x" }'

    found = route("tools/call", params, catalog(server("a", tools=["x"]), prefix="on-conflict"))

    assert isinstance(found, Route)
    assert (found.slug, found.params) == ("a", params)


def test_the_gateways_own_tools_are_its_own() -> None:
    assert route("tools/call", {"name": "gateway_status"}) == LocalRoute(tool="gateway_status")


def test_a_prompt_and_a_resource_go_to_their_servers() -> None:
    prompt = route("prompts/get", {"name": "a__p"})
    resource = route("resources/read", {"uri": "b+file:///x"})

    assert isinstance(prompt, Route)
    assert (prompt.slug, json.loads(prompt.params)) == ("a", {"name": "p"})
    assert isinstance(resource, Route)
    assert (resource.slug, json.loads(resource.params)) == ("b", {"uri": "file:///x"})
    assert (resource.native, resource.public) == ("file:///x", "b+file:///x")


@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe"])
def test_a_uri_that_is_public_as_it_is_passes_untouched(method: str) -> None:
    found = route(method, b'{"uri":"only:///a"}')

    assert isinstance(found, Route)
    assert found.params == b'{"uri":"only:///a"}'


def test_what_nobody_offers_is_unknown_for_now_in_the_words_of_its_kind() -> None:
    tool = refusal("tools/call", {"name": "nope"})
    prompt = refusal("prompts/get", {"name": "nope"})
    resource = refusal("resources/read", {"uri": "nope:///"})

    modern, legacy = REVISIONS["2026-07-28"], REVISIONS["2025-06-18"]
    assert tool.fault.message_for(modern) == "Unknown tool: nope"
    assert prompt.fault.message_for(modern) == "Unknown prompt: nope"
    assert json.loads(resource.fault.render(legacy)) == {
        "code": -32002,
        "message": "Resource not found: nope:///",
        "data": {"uri": "nope:///"},
    }
    assert resource.fault.code(modern) == -32602
    assert [found.final for found in (tool, prompt, resource)] == [False] * 3
    assert [found.public for found in (tool, prompt, resource)] == ["nope", "nope", "nope:///"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 1}),
        ("tools/call", {"name": None}),
        ("prompts/get", {"name": ["a__p"]}),
        ("resources/read", {}),
        ("resources/read", {"uri": {}}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": "a__p"}),
        ("completion/complete", {"ref": {}}),
        ("completion/complete", {"ref": {"type": "ref/tool", "name": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "uri": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/resource", "name": "x"}}),
    ],
)
def test_params_without_what_is_needed_are_refused_for_good(method: str, params: Any) -> None:
    found = refusal(method, params)

    assert found.final
    assert found.fault.code(REVISIONS["2025-06-18"]) == -32602


@pytest.mark.parametrize(
    ("ref", "slug", "native"),
    [
        ({"type": "ref/prompt", "name": "a__p"}, "a", {"type": "ref/prompt", "name": "p"}),
        ({"type": "ref/resource", "uri": "b:///{n}"}, "b", {"uri": "b:///{n}"}),
        ({"type": "ref/resource", "uri": "b+file:///x"}, "b", {"uri": "file:///x"}),
        ({"type": "ref/resource", "uri": "b:///7"}, "b", {"uri": "b:///7"}),
    ],
)
def test_a_completion_goes_to_the_owner_of_what_it_refers_to(
    ref: dict[str, str], slug: str, native: dict[str, str]
) -> None:
    argument = {"name": "n", "value": "v"}

    found = route("completion/complete", {"ref": ref, "argument": argument})

    assert isinstance(found, Route)
    assert found.slug == slug
    assert json.loads(found.params) == {"ref": {**ref, **native}, "argument": argument}


def test_a_completion_for_nothing_known_is_unknown_for_now() -> None:
    found = refusal("completion/complete", {"ref": {"type": "ref/prompt", "name": "nope"}})

    assert not found.final
    assert found.fault.message == "Nothing to complete for: nope"


def test_a_transparent_profile_lets_its_server_answer_for_names_it_does_not_list() -> None:
    for method in ("tools/call", "prompts/get"):
        found = route(method, {"name": "hidden"}, TRANSPARENT)

        assert isinstance(found, Route)
        assert (found.slug, found.native) == ("a", "hidden")


def test_even_a_transparent_profile_calls_no_tool_that_is_not_allowed() -> None:
    strict = catalog(
        server("a", tools=["x"]), prefix="never", allows=lambda slug, native: native != "x"
    )

    assert isinstance(route("tools/call", {"name": "x"}, strict), Unroutable)
    assert isinstance(route("prompts/get", {"name": "x"}, strict), Route)


def test_a_profile_with_one_server_reads_any_uri_there() -> None:
    lone = catalog(server("a"))

    assert owner_of_uri("unlisted:///x", lone) == ("a", "unlisted:///x")
    assert owner_of_uri("a+unlisted:///x", lone) == ("a", "a+unlisted:///x")
    assert owner_of_uri("unlisted:///x", TWO) is None


READS, LISTS = b'{"directoryRead":true}', b"{}"
SKILLFUL = catalog(
    with_skill("a", "skill://tea"),
    with_skill("b", "skill://coffee"),
    server("c", resources=["x:1"]),
    extensions={"a": {SKILLS: READS}, "b": {SKILLS: LISTS}, "c": {APPS: b"{}"}},
)


def test_a_skill_goes_to_its_server() -> None:
    found = route("skills/get", {"uri": "skill://coffee/SKILL.md"}, SKILLFUL)

    assert isinstance(found, Route)
    assert (found.slug, found.native) == ("b", "skill://coffee/SKILL.md")


def test_a_directory_is_read_only_where_that_is_offered() -> None:
    found = route("resources/directory/read", {"uri": "skill://tea/x"}, SKILLFUL)
    assert isinstance(found, Route)
    assert found.slug == "a"

    refused = refusal("resources/directory/read", {"uri": "skill://coffee"}, SKILLFUL)
    assert refused.final
    assert refused.fault.code(REVISIONS["2026-07-28"]) == -32601


@pytest.mark.parametrize("uri", ["x:1", "skill://nowhere/SKILL.md"])
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_a_skill_that_nobody_has_makes_the_params_invalid(uri: str, revision: Revision) -> None:
    refused = refusal("skills/get", {"uri": uri}, SKILLFUL)

    assert not refused.final
    assert refused.fault.code(revision) == -32602


def test_what_is_not_listed_goes_to_the_only_server_that_can_have_it() -> None:
    one = catalog(server("a"), server("b"), extensions={"b": {SKILLS: READS, APPS: b"{}"}})

    for method, uri in (
        ("skills/get", "github://o/r/tea/SKILL.md"),
        ("resources/directory/read", "skill://tea"),
        ("resources/read", "skill://tea/x.md"),
        ("resources/read", "ui://view"),
    ):
        found = route(method, {"uri": uri}, one)
        assert isinstance(found, Route), method
        assert (found.slug, found.native) == ("b", uri)
    assert owner_of_uri("file:///x", one) is None
    assert owner_of_uri("skill://tea/x.md", SKILLFUL) == ("a", "skill://tea/x.md")
    assert owner_of_uri("skill://other/x.md", SKILLFUL) is None, "two servers have skills"


def test_what_two_servers_claim_does_not_go_to_the_one_that_offers_an_extension() -> None:
    lists = (server("a", resources=["ui://view"]), server("b", resources=["ui://view"]))
    one = catalog(*lists, extensions={"b": {APPS: b"{}"}})

    assert owner_of_uri("ui://view", one) is None
    assert owner_of_uri("ui://a/view", one) == ("a", "ui://view")
