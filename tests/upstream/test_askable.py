"""A server behind a gateway of many clients, and what it has for those whom it may ask."""

from dataclasses import replace
from typing import Any

from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.tender import State
from tests.upstream.fakes import Script, legacy, modern, offers, until
from tests.upstream.recorded import Scene, play

ASKABLE = LeaseKey(owner="asked", capabilities=b'{"sampling":{}}', interactive=True)
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
    return [(offer.native, offer.asks) for offer in at.server.listings[Kind.TOOLS].offers]


def test_the_first_connection_is_nobodys_own() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        given: list[Connection | str] = []

        at.server.lease(ASKABLE, given.append)
        assert list(at.server.tenders) == [SHARED]
        await until(lambda: len(given) == 1)

        assert list(at.server.tenders) == [SHARED, ASKABLE]
        assert (at.server.key_of("asked"), at.server.key_of("another")) == (ASKABLE, SHARED)
        assert given == [at.server.tenders[ASKABLE].connection]
        at.server.drop("asked")
        assert at.server.state is State.READY
        return at

    play(scene)


def test_a_sole_client_shares_its_connection_with_nobody() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.lease(ASKABLE, lambda _: None)
        await at.listed()

        assert list(at.server.tenders) == [ASKABLE]
        return at

    play(scene)


def test_a_session_has_its_own_connection_also_where_the_first_failed() -> None:
    async def scene() -> Scene:
        at = gateway_of_many("no such program", legacy())
        given: list[Connection | str] = []

        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)

        assert isinstance(given[0], Connection)
        return at

    play(scene)


def test_lists_take_in_what_only_those_see_whom_the_server_may_ask() -> None:
    async def scene() -> Scene:
        script = ("a", "c"), ("a", "b", "c")
        at = gateway_of_many(choosy(*script), choosy(*script))
        at.server.lease(SHARED, lambda _: None)
        await at.listed()
        assert seen(at) == [("a", False), ("c", False)]
        assert at.server.settled

        at.server.lease(ASKABLE, lambda _: None)
        assert not at.server.settled
        await at.listed(2)

        assert at.server.settled
        assert seen(at) == [("a", False), ("b", True), ("c", False)]
        return at

    play(scene)


def test_what_was_seen_by_one_who_has_left_is_remembered_for_the_next() -> None:
    async def scene() -> Scene:
        script = ("a",), ("a", "b")
        at = gateway_of_many(choosy(*script), choosy(*script), choosy(*script))
        at.server.lease(ASKABLE, lambda _: None)
        await until(lambda: "b" in at.tools if Kind.TOOLS in at.server.listings else False)
        at.server.drop("asked")

        at.server.mark_stale((Kind.TOOLS,))
        listed = at.count("listed")
        at.later[-1][1]()
        await at.listed(listed + 1)

        assert seen(at) == [("a", False), ("b", True)]
        at.server.lease(replace(ASKABLE, owner="next"), lambda _: None)
        assert at.server.settled
        return at

    play(scene)


def test_a_connection_that_breaks_leaves_the_lists_of_the_others_alone() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        at.server.lease(ASKABLE, lambda _: None)
        await at.listed(2)

        at.warden.servers[1].die(1)
        await until(lambda: at.count("failed") == 1)

        assert at.server.listed
        assert at.server.settled
        return at

    play(scene)


def test_nothing_more_is_expected_of_a_client_that_can_be_asked_nothing() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(legacy(), legacy())
        at.server.lease(SHARED, lambda _: None)
        await at.listed()

        at.server.lease(DEAF, lambda _: None)

        assert at.server.settled
        return at

    play(scene)


def test_a_modern_server_is_read_once() -> None:
    async def scene() -> Scene:
        at = gateway_of_many(modern(), modern())
        given: list[Connection | str] = []
        at.server.lease(ASKABLE, given.append)
        await until(lambda: len(given) == 1)
        await at.listed()

        assert at.server.settled
        assert at.count("listed") == 1
        return at

    play(scene)
