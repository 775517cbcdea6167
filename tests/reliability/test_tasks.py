"""A task is of no use to anybody but whose it is, whatever they know of its id."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from random import Random
from typing import Any, Final

import pytest

from tests.harness import DEMO, Message
from tests.journeys.http_gateway import HttpGateway, serving
from tests.rig.raw_http_client import (
    Fields,
    RawConnection,
    RawHttpClient,
    modern,
    request,
    tool_call,
)

ALICE: Final = {"Authorization": "Bearer alice-4f1b9c0d2e7a8653"}
BOB: Final = {"Authorization": "Bearer bob-90c1d2e3f4a5b697"}
PEOPLE: Final = {
    "listSeconds": 30,
    "tokens": {
        "alice": ALICE["Authorization"].removeprefix("Bearer "),
        "bob": BOB["Authorization"].removeprefix("Bearer "),
    },
}
PROFILES: Final[Message] = {"default": {}, "other": {}}
SERVERS: Final = {
    "old": [*DEMO, "--tasks", "--legacy-only"],
    "new": [*DEMO, "--tasks", "--modern-only"],
}
FORM: Final[Message] = {"form": {}}
TASKS: Final = "io.modelcontextprotocol/tasks"
ABLE: Final[Message] = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": FORM,
        "extensions": {TASKS: {}},
    }
}
SWEET: Final[Message] = {"action": "accept", "content": {"sugar": True}}
NOT_FOUND: Final = (-32602, "Task not found: it has expired, or there is none of this id")
MUTANTS: Final = 300


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    path = tmp_path_factory.mktemp("tasks")
    with serving(path, SERVERS, gateway=PEOPLE, profiles=PROFILES) as there:
        yield there


class Person:
    """Somebody with clients of either era, in one profile."""

    def __init__(self, site: HttpGateway, fields: Fields, path: str = "/mcp") -> None:
        self.port = int(site.netloc.rpartition(":")[2])
        self.fields = fields
        self.path = path
        self.session = (
            RawHttpClient(self.port, fields, elicitation=FORM) if path == "/mcp" else None
        )

    def ask(self, method: str, **params: Any) -> Message:
        """A request without a session."""
        named = {"Mcp-Name": params["taskId"]} if "taskId" in params else {}
        message = request(method, {**params, "_meta": ABLE})
        with RawConnection(self.port) as wire:
            return wire.ask(modern(message, {**self.fields, **named}, self.path)).message

    def ask_in_session(self, method: str, **params: Any) -> Message:
        assert self.session is not None
        message = request(method, params, next(self.session.ids))
        return self.session.send(message).message

    def uses(self, id: str) -> Iterator[Message]:
        """Every way to ask about a task."""
        answers = dict.fromkeys(("q1", "sugar"), SWEET)
        yield self.ask("tasks/get", taskId=id)
        yield self.ask("tasks/update", taskId=id, inputResponses=answers)
        yield self.ask("tasks/cancel", taskId=id)
        if self.session is not None:
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                yield self.ask_in_session(method, taskId=id)

    def listed(self) -> list[str]:
        answer = self.ask_in_session("tasks/list")
        return [task["taskId"] for task in answer["result"]["tasks"]]

    def listen(self, ids: list[str]) -> tuple[RawConnection, Iterator[Message]]:
        """A stream that tells of these tasks, as far as it does; the first thing on it."""
        wire = RawConnection(self.port)
        wishes = {"notifications": {"taskIds": ids}, "_meta": ABLE}
        wire.send(modern(request("subscriptions/listen", wishes), self.fields, self.path))
        assert wire.head()[1] == 200
        return wire, wire.events()

    def close(self) -> None:
        if self.session is not None:
            self.session.close()


def tasks_of(person: Person) -> dict[str, str]:
    """A task of either front on a server of either era: those that go on, and those that ask."""
    assert person.session is not None
    made = {}
    for server in SERVERS:
        for kind, arguments in (("hold", {"hold": True}), ("ask", {"cups": 2, "ask": True})):
            call = {"name": f"{server}__brew_only", "arguments": arguments}
            created = person.ask("tools/call", **call)["result"]
            made[f"modern {server} {kind}"] = created["taskId"]
            wanted = tool_call(f"{server}__brew", arguments, next(person.session.ids))
            wanted["params"]["task"] = {}
            created = person.session.send(wanted).message["result"]["task"]
            made[f"legacy {server} {kind}"] = created["taskId"]
    return made


def is_refused(answer: Message) -> bool:
    error = answer.get("error", {})
    return (error.get("code"), error.get("message")) == NOT_FOUND and "data" not in error


def mutants(id: str, random: Random) -> set[str]:
    """Ids that are nearly this one."""
    found = {id[:at] for at in range(1, len(id), 29)} | {id + "A", id[::-1], id.swapcase()}
    while len(found) < MUTANTS:
        at = random.randrange(len(id))
        found.add(id[:at] + random.choice("ABCxyz019-_") + id[at + 1 :])
    return found - {id}


@pytest.mark.slow
def test_a_task_is_of_no_use_to_anybody_else(site: HttpGateway) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(closing(Person(site, ALICE)))
        bob = stack.enter_context(closing(Person(site, BOB)))
        elsewhere = Person(site, ALICE, "/mcp/other")
        made = tasks_of(alice)
        theirs = set(tasks_of(bob).values())
        ids = list(made.values())
        assert len({*ids, *theirs}) == 2 * len(made)

        streams = [person.listen([*ids, "made-up"]) for person in (bob, elsewhere)]
        for wire, told in streams:
            stack.enter_context(wire)
            assert next(told)["params"]["notifications"]["taskIds"] == []
        wire, heard = alice.listen(ids)
        stack.enter_context(wire)
        assert next(heard)["params"]["notifications"]["taskIds"] == ids
        attempts = 0
        for kind, id in made.items():
            for person in (bob, elsewhere):
                for answer in person.uses(id):
                    attempts += 1
                    assert is_refused(answer), (kind, answer)
        assert attempts == len(made) * 9
        assert theirs <= set(bob.listed()) and not set(ids) & set(bob.listed())
        assert set(ids) <= set(alice.listed()) and not theirs & set(alice.listed())

        # She has lost nothing by it, and nobody has answered or cancelled anything in her name.
        for kind, id in made.items():
            task = alice.ask("tasks/get", taskId=id)["result"]
            assert task["status"] in ("working", "input_required"), (kind, task)
        for id in ids:
            assert "result" in alice.ask("tasks/cancel", taskId=id)
        cancelled = {next(heard)["params"]["taskId"] for _ in range(len(ids))}
        assert cancelled <= set(ids)
        for wire, _ in streams:
            assert b"notifications/tasks" not in wire.arrived()
        for id in theirs:
            assert "result" in bob.ask("tasks/cancel", taskId=id)


@pytest.mark.slow
def test_an_id_that_was_tampered_with_is_nobodys(site: HttpGateway) -> None:
    with closing(Person(site, ALICE)) as alice, RawConnection(alice.port) as wire:
        made, random = tasks_of(alice), Random(1)
        for id in (made["modern new hold"], made["modern old hold"]):
            for mutant in mutants(id, random):
                message = request("tasks/get", {"taskId": mutant, "_meta": ABLE})
                answer = wire.ask(modern(message, {**ALICE, "Mcp-Name": mutant})).message
                assert is_refused(answer), mutant
        for id in made.values():
            assert "result" in alice.ask("tasks/cancel", taskId=id)
