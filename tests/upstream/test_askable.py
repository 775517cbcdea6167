"""A server behind a gateway of many clients, and what it has for those whom it may ask."""

from dataclasses import replace
from typing import Any

from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import LOCAL
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.server import INTERACTIVE_LISTING_ATTEMPTS_MAX
from anyport.upstream.supervisor import NotReady, ServerState
from tests.upstream.fakes import Script, legacy, modern, offers, until
from tests.upstream.server_scene import Scene, play

ASKABLE = LeaseKey(owner="asked", capabilities=b'{"sampling":{}}', interactive=True)
QUESTIONS = frozenset({"sampling"})
DEAF = LeaseKey(owner="deaf")


def choosy(everyones: tuple[str, ...], askables: tuple[str, ...]) -> Script:
    """A legacy server with more tools for a client that can sample."""
    able: list[bool] = []

    def script(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["method"] == "initialize":
            able.append("sampling" in message["params"]["capabilities"])
        shown = askables if able and able[-1] else everyones
        return legacy(tools__list=offers(*shown))(message)

    return script


def gateway_of_many(*scripts: Script | str) -> Scene:
    return Scene(*scripts, sole=False)


def seen(at: Scene) -> list[tuple[str, bool]]:
    return [
        (offer.native, offer.needs_input) for offer in at.server.listings[OfferKind.TOOLS].offers
    ]


def test_the_first_connection_is_nobodys_own() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        given: list[Connection | NotReady] = []

        at.server.lease(ASKABLE, given.append)
        assert list(at.server.supervisors) == [SHARED]
        await until(lambda: len(given) == 1)

        assert list(at.server.supervisors) == [SHARED, ASKABLE]
        assert at.server.key_of("asked", LOCAL) == ASKABLE
        assert at.server.key_of("another", LOCAL) == SHARED
        assert given == [at.server.supervisors[ASKABLE].connection]
        at.server.drop("asked")
        assert at.server.state is ServerState.READY
        return at

    play(scene)


def test_a_sole_client_shares_its_connection_with_nobody() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.lease(ASKABLE, lambda _: None)
        await at.listed()

        assert list(at.server.supervisors) == [ASKABLE]
        return at

    play(scene)


def test_a_session_has_its_own_connection_also_where_the_first_failed() -> None:
    async def scene() -> Scene:
        at = gateway_of_many("no such program", legacy())
        given: list[Connection | NotReady] = []

        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)

        assert isinstance(given[0], Connection)
        return at

    play(scene)


def test_a_sessions_own_connection_changes_no_list_but_its_own() -> None:
    async def scene() -> Scene:
        script = ("a", "c"), ("a", "b", "c")
        at = gateway_of_many(choosy(*script), choosy(*script))
        at.server.lease(SHARED, lambda _: None)
        await at.listed()

        at.server.lease(ASKABLE, lambda _: None)
        assert at.server.lists_settled
        await until(lambda: at.count("listed apart") == 1)

        assert seen(at) == [("a", False), ("c", False)]
        assert at.count("listed") == 1
        return at

    play(scene)


def test_what_there_is_for_those_whom_it_may_ask_is_seen_over_a_connection_of_no_session() -> None:
    async def scene() -> Scene:
        script = ("a", "c"), ("a", "b", "c")
        at = gateway_of_many(choosy(*script), choosy(*script))
        at.server.prepare(SHARED)
        assert at.server.lacks_interactive_lists(QUESTIONS)
        at.server.read_interactive_lists(QUESTIONS, b'{"sampling":{}}')
        assert not at.server.lists_settled
        await until(lambda: at.server.lists.complete)

        assert at.server.lists_settled
        assert seen(at) == [("a", False), ("b", True), ("c", False)]
        assert not at.server.lacks_interactive_lists(QUESTIONS)
        await until(lambda: at.spawner.servers[1].child.stopped)
        assert list(at.server.supervisors) == [SHARED]
        assert (at.count("started"), at.count("stopped")) == (1, 0), "no client has to know"
        return at

    play(scene)


def test_a_connection_to_look_that_fails_is_tried_again_but_not_for_ever() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), *["no such program"] * INTERACTIVE_LISTING_ATTEMPTS_MAX)
        at.server.prepare(SHARED)
        await at.listed()
        for count in range(INTERACTIVE_LISTING_ATTEMPTS_MAX):
            assert at.server.lacks_interactive_lists(QUESTIONS)
            at.server.read_interactive_lists(QUESTIONS, b'{"sampling":{}}')
            await at.listed(2 + count)
            assert at.server.lists_settled

        assert not at.server.lacks_interactive_lists(QUESTIONS)
        assert (at.server.state, at.count("failed")) == (ServerState.READY, 0)
        return at

    play(scene)


def test_what_was_seen_by_one_who_has_left_is_remembered_for_the_next() -> None:
    async def scene() -> Scene:
        script = ("a",), ("a", "b")
        at = gateway_of_many(choosy(*script), choosy(*script), choosy(*script))
        at.server.prepare(SHARED)
        at.server.read_interactive_lists(QUESTIONS, b'{"sampling":{}}')
        await until(lambda: at.server.lists.complete)

        at.server.mark_stale((OfferKind.TOOLS,))
        listed = at.count("listed")
        at.clock.timers[-1][1]()
        await at.listed(listed + 1)

        assert seen(at) == [("a", False), ("b", True)]
        at.server.lease(replace(ASKABLE, owner="next"), lambda _: None)
        assert at.server.lists_settled
        return at

    play(scene)


def test_a_connection_that_breaks_leaves_the_lists_of_the_others_alone() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        at.server.lease(ASKABLE, lambda _: None)
        await until(lambda: at.count("listed apart") == 1)

        at.spawner.servers[1].die(1)
        await until(lambda: at.count("failed") == 1)

        assert at.server.lists_ready
        assert at.server.lists_settled
        return at

    play(scene)


def test_nothing_more_is_expected_of_a_client_that_can_be_asked_nothing() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        at.server.lease(SHARED, lambda _: None)
        await at.listed()

        at.server.lease(DEAF, lambda _: None)

        assert at.server.lists_settled
        return at

    play(scene)


def test_a_modern_server_is_read_once() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(modern(), modern())
        given: list[Connection | NotReady] = []
        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)
        await at.listed()

        assert at.server.lists_settled
        assert at.count("listed") == 1
        return at

    play(scene)
