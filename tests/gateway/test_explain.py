"""Why something is there for a profile, or is not: the first step that fails is the reason."""

from typing import Any

import pytest

from anyport.catalog.names import Naming, assign_names
from anyport.catalog.offers import Listing
from anyport.gateway.explain import (
    NAME_CHARS_MAX,
    NAME_PENDING,
    SUGGESTIONS_MAX,
    Step,
    Story,
    Why,
    explain_name,
    explain_public_name,
)
from anyport.gateway.profile import Profile
from anyport.protocol.methods import OfferKind
from anyport.upstream.supervisor import NOT_STARTED_YET, ServerState
from tests.gateway.fakes import FakeServer, profile_of
from tests.gateway.test_status import server


def running(slug: str = "s", **config: Any) -> FakeServer:
    made = FakeServer(slug, **config)
    made.shown_main = server(ServerState.READY).shown_main
    return made


def asked(name: str, profile: Profile, *others: FakeServer) -> Why:
    servers = {**profile.servers, **{other.slug: other for other in others}}
    return explain_name(name, profile, servers)


def only(answer: Why) -> Story:
    [story] = answer.stories
    return story


def stages(story: Story) -> list[str]:
    return [f"{'' if step.good else '-'}{step.stage}" for step in story.steps]


def reason(story: Story) -> str:
    """The words of the first step that fails."""
    return next(step.words for step in story.steps if not step.good)


@pytest.mark.parametrize("name", ["s__echo", "echo", "s/echo"])
def test_a_tool_that_is_there_is_told_step_by_step_under_any_of_its_names(name: str) -> None:
    here = running()
    here.offer(OfferKind.TOOLS, "echo")

    answer = asked(name, profile_of(here))

    assert answer.there
    assert answer.suggestions == ()
    story = only(answer)
    assert (story.kind, story.server, story.native, story.public) == (
        *("tool", "s", "echo", "s__echo"),
    )
    assert stages(story) == ["configured", "profile", "started", "listed", "rules", "name"]
    assert story.steps[4].words == "it is allowed by '*' (tools of the profile 'default')"
    assert "'s__echo': the server, then its own name" in story.steps[5].words


def test_a_tool_that_a_rule_denies_names_the_rule() -> None:
    here = running()
    here.offer(OfferKind.TOOLS, "echo", "add")

    story = only(asked("s__add", profile_of(here, deny=("a*",))))

    assert not story.there
    assert asked("s__add", profile_of(here, deny=("a*",))).suggestions == ()
    assert stages(story)[-1] == "-rules"
    assert reason(story) == "it is denied by 'a*' (tools of the profile 'default')"


def test_a_tool_that_no_rule_allows_says_so() -> None:
    here = running()
    here.offer(OfferKind.TOOLS, "echo")

    story = only(asked("echo", profile_of(here, allow=("x",))))

    assert reason(story) == "it is not in the allow list (tools of the profile 'default')"


def test_a_tool_of_a_server_that_the_profile_does_not_have() -> None:
    here, other = running(), running("o")
    other.offer(OfferKind.TOOLS, "echo")

    story = only(asked("echo", profile_of(here), other))

    assert not story.there
    assert reason(story) == "the profile 'default' has only: s; add it to servers"


def test_a_tool_of_a_server_that_is_down_and_whose_list_is_known_is_there_with_a_warning() -> None:
    down = server(ServerState.BROKEN, "exit code 1")
    down.offer(OfferKind.TOOLS, "echo")
    down.lists_ready = False

    answer = asked("s__echo", profile_of(down))

    assert (answer.trouble or "").startswith("exit code 1; ")
    story = only(answer)
    assert story.there
    assert stages(story) == ["configured", "profile", "-started", "listed", "rules", "name"]
    assert reason(story).startswith("it is not running: exit code 1")
    assert "when the server last ran" in story.steps[3].words


def test_calls_of_what_is_there_wait_for_a_server_that_is_only_starting() -> None:
    starting = server(ServerState.STARTING)
    starting.offer(OfferKind.TOOLS, "echo")

    answer = asked("s__echo", profile_of(starting))

    assert (answer.there, answer.trouble) == (True, None)


def test_one_of_several_that_works_is_enough() -> None:
    down, here = server(ServerState.BROKEN, "exit code 1"), running("o")
    down.offer(OfferKind.TOOLS, "echo")
    here.offer(OfferKind.TOOLS, "echo")

    assert asked("echo", profile_of(down, here)).trouble is None
    assert asked("s__echo", profile_of(down, here)).trouble is not None


def test_equal_names_of_several_servers_are_all_offered_within_bounds() -> None:
    servers = [running(slug) for slug in ("one", "two", "six")]
    for each in servers:
        each.offer(OfferKind.TOOLS, "add")

    assert asked("ad", profile_of(*servers)).suggestions == (*("one__add", "two__add", "six__add"),)

    many = [running(f"s{at}") for at in range(SUGGESTIONS_MAX + 3)]
    for each in many:
        each.offer(OfferKind.TOOLS, "add")
    assert len(asked("ad", profile_of(*many)).suggestions) == SUGGESTIONS_MAX


def test_a_tool_of_a_server_that_never_told_what_it_offers() -> None:
    story = only(asked("s__echo", profile_of(server(ServerState.BROKEN, "exit code 1"))))

    assert not story.there
    assert stages(story) == ["configured", "profile", "-started", "-listed"]
    assert story.steps[-1].words == "it has not listed its tools yet"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"disabled": True}, "it is disabled in the configuration"),
        ({"unresolved": ("env.A needs A, which is not set",)}, "env.A needs A"),
    ],
)
def test_a_server_that_is_not_to_run_says_why(config: dict[str, Any], words: str) -> None:
    off = FakeServer("s", None, **config)

    for name in ("s", "s__x", "s/x"):
        story = only(asked(name, profile_of(off)))
        assert not story.there
        assert reason(story).startswith(words)


def test_a_name_that_a_server_does_not_list_gets_its_near_misses() -> None:
    here, other = running(), running("o")
    here.offer(OfferKind.TOOLS, "create_issue", "delete_issue")
    other.offer(OfferKind.TOOLS, "create_issues")

    answer = asked("s/create_isue", profile_of(here, other))

    assert reason(only(answer)) == "it lists 2 tools, but not this one"
    assert answer.suggestions[0] == "s__create_issue"
    assert "o__create_issues" not in answer.suggestions


def test_what_was_left_out_of_a_list_is_told() -> None:
    here = running()
    here.listings[OfferKind.TOOLS] = Listing(
        warning="1 of its tools cannot be used: the tool 'x' has an invalid x-mcp-header"
    )

    story = only(asked("s__x", profile_of(here)))

    assert reason(story) == (
        "it lists 0 tools, but not this one; "
        "1 of its tools cannot be used: the tool 'x' has an invalid x-mcp-header"
    )


def test_a_native_name_of_several_servers_is_told_for_each() -> None:
    one, two = running("one"), running("two")
    one.offer(OfferKind.TOOLS, "echo")
    two.offer(OfferKind.TOOLS, "echo")

    answer = asked("echo", profile_of(one, two, deny=("two/*",)))

    assert [(story.server, story.there) for story in answer.stories] == [
        *(("one", True), ("two", False)),
    ]
    answer = asked("echo", profile_of(one, two))
    assert [(story.server, story.public) for story in answer.stories] == [
        *(("one", "one__echo"), ("two", "two__echo")),
    ]


def test_a_name_that_waits_for_an_earlier_server_says_so() -> None:
    slow, quick = server(ServerState.STARTING), running("quick")
    quick.offer(OfferKind.TOOLS, "echo")

    answer = asked("echo", profile_of(slow, quick, prefix="on-conflict"))

    [story] = answer.stories
    assert (story.there, story.steps[-1]) == (False, Step("name", False, NAME_PENDING))


def test_a_name_of_nobody_tells_who_has_not_said_what_it_offers() -> None:
    here, silent = running(), server(ServerState.BROKEN, "exit code 1")
    here.offer(OfferKind.TOOLS, "echo")
    silent.slug = "silent"
    profile = profile_of(here)
    profile.servers["silent"] = silent

    answer = asked("echos", profile)

    words = [step.words for step in only(answer).steps]
    assert words[0] == "no server lists anything with this name"
    assert words[1].startswith("'silent' has not listed its offers: exit code 1")
    assert answer.suggestions == ("s__echo",)


def test_a_server_alone_can_be_asked_for() -> None:
    here = running()

    story = only(asked("s", profile_of(here)))

    assert story.kind == "server"
    assert story.there
    assert stages(story) == ["configured", "profile", "started"]
    assert story.steps[2].words == "it is running and speaks 2025-11-25 over stdio"


def test_a_server_can_be_asked_for_by_the_name_in_the_file() -> None:
    here = running()
    object.__setattr__(here.config, "name", "My Server")
    object.__setattr__(here.config, "origin", "/etc/anyport/anyport.toml:7")

    story = only(asked("My Server", profile_of(here)))

    assert story.steps[0].words == (
        "the server 's' is defined in anyport.toml:7, under the name 'My Server'"
    )
    profile = profile_of(here)
    told = explain_name("s", profile, profile.servers, paths=True)
    assert "/etc/anyport/anyport.toml:7" in only(told).steps[0].words


def test_a_tool_of_the_gateway_is_its_own() -> None:
    story = only(asked("get_events", profile_of(running())))

    assert story.there
    assert story.server is None
    answer = asked("get_events", profile_of(running(), gateway_tools=False))
    assert not answer.there


def test_prompts_and_resources_can_be_asked_for_too() -> None:
    here = running()
    here.offer(OfferKind.PROMPTS, "greet")
    here.offer(OfferKind.RESOURCES, "file:///a")
    here.offer(OfferKind.TEMPLATES, "db://{table}")
    profile = profile_of(here)

    assert only(asked("s__greet", profile)).kind == "prompt"
    resource = only(asked("file:///a", profile))
    assert (resource.kind, resource.there) == ("resource", True)
    assert resource.steps[-1].words == "its public name is 'file:///a': its own URI"
    covered = only(asked("db://users", profile))
    assert (covered.kind, covered.there) == ("resource", True)
    assert "one of its templates or skills covers" in covered.steps[-1].words
    assert not asked("file:///b", profile).there


def test_a_very_long_name_is_cut() -> None:
    assert len(asked("x" * 10_000, profile_of()).name) == NAME_CHARS_MAX


@pytest.mark.parametrize(
    ("naming", "offered", "of", "words"),
    [
        (("always", "__"), [("s", ["a"])], ("s", "a"), "the server, then its own name"),
        (("never", "__"), [("s", ["a"])], ("s", "a"), 'its own name (prefix = "never")'),
        (
            ("on-conflict", "__"),
            [("s", ["a"])],
            ("s", "a"),
            'its own name (prefix = "on-conflict")',
        ),
        (
            ("on-conflict", "__"),
            [("s", ["a"]), ("t", ["a"])],
            ("t", "a"),
            "its own name is already taken",
        ),
        (("always", "__"), [("s", ["a.b"])], ("s", "a.b"), "does not fit into 64"),
        (("always", "__"), [("s", ["x" * 80])], ("s", "x" * 80), "does not fit into 64"),
        (("always", "__"), [("s", ["a", "A"])], ("s", "a"), "a hash makes it unique"),
    ],
)
def test_why_a_name_is_what_it_is(
    naming: tuple[Any, str], offered: Any, of: tuple[str, str], words: str
) -> None:
    prefix, separator = naming
    rule = Naming(prefix=prefix, separator=separator)

    assert words in explain_public_name(rule, *of, assign_names(rule, offered)[of])


def test_a_tool_of_a_server_that_waits_to_be_used_is_there() -> None:
    resting = server(ServerState.IDLE, NOT_STARTED_YET, asleep=True)
    resting.offer(OfferKind.TOOLS, "echo")

    answer = asked("s__echo", profile_of(resting))

    assert answer.there
    story = only(answer)
    assert stages(story) == ["configured", "profile", "started", "listed", "rules", "name"]
    assert story.steps[2].words == f"it is idle: {NOT_STARTED_YET}"
