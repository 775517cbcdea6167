"""Session store: private files, valid or absent."""

import json
import os
import random
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anyport.ingress.http.session_store import (
    ENTRY_BYTES_MAX,
    FILES_PER_SWEEP_MAX,
    FOLDER,
    NO_CLIENT_INFO,
    SessionStore,
    StoredSession,
    apply_stored_session,
    lost_answer_error,
    restore_session,
    to_stored_session,
)
from anyport.protocol.exchange import Answered, NeedInput, Question, Session
from anyport.protocol.principal import Principal
from anyport.protocol.session import SessionState
from tests.ingress.http.stage import (
    HttpClient,
    Stage,
    advance_clock,
    delete,
    get,
    initialize_request,
    play,
    post,
    settle,
)
from tests.protocol.fakes import request

IDLE = 600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> SessionStore:
    return SessionStore(tmp_path / "state", clock, clock)


def entry(**members: object) -> StoredSession:
    known = {
        "record_id": "w",
        "revision": "2025-11-25",
        "capabilities": msgspec.Raw(b'{"roots":{}}'),
    }
    return StoredSession(**{**known, **members})  # type: ignore[arg-type]


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / FOLDER).iterdir())


def test_what_was_written_is_read_again(store: SessionStore) -> None:
    whole = entry(
        client=msgspec.Raw(b'{"name":"c"}'), log_level="debug", subscriptions=("a:1", "b:\u2028")
    )
    store.write("id", whole)
    store.write("other", entry())

    assert store.read("id", IDLE) == whole
    assert store.read("other", IDLE) == entry(client=NO_CLIENT_INFO)
    assert store.read("nobody's", IDLE) is None


def test_an_entry_keeps_the_names_that_earlier_versions_wrote() -> None:
    raw = msgspec.json.encode(entry(log_level="debug"))

    assert msgspec.json.decode(raw) == {
        "word": "w",
        "revision": "2025-11-25",
        "capabilities": {"roots": {}},
        "level": "debug",
    }


def test_the_last_write_counts(store: SessionStore, tmp_path: Path) -> None:
    store.write("id", entry())
    store.write("id", entry(log_level="error"))

    assert store.read("id", IDLE) == entry(log_level="error")
    assert len(files(tmp_path)) == 1


def test_files_are_private_and_their_names_open_nothing(
    store: SessionStore, tmp_path: Path
) -> None:
    store.write("secret-id", entry())

    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "secret-id" not in file.name
    assert b"secret-id" not in file.read_bytes()


def test_a_session_that_ended_is_not_known_any_more(store: SessionStore, tmp_path: Path) -> None:
    store.write("id", entry())
    store.delete("id")
    store.delete("id")

    assert store.read("id", IDLE) is None
    assert files(tmp_path) == []


def test_an_idle_session_expires(store: SessionStore, clock: Clock, tmp_path: Path) -> None:
    store.write("id", entry())
    clock.now += IDLE
    assert store.read("id", IDLE) is not None
    clock.now += 1

    assert store.read("id", IDLE) is None
    assert files(tmp_path) == []


def test_a_session_that_is_used_stays(store: SessionStore, clock: Clock) -> None:
    store.write("id", entry())
    clock.now += IDLE
    store.touch("id")
    store.touch("nobody's")
    clock.now += IDLE

    assert store.read("id", IDLE) is not None


def test_a_session_that_another_process_uses_does_not_lapse(
    store: SessionStore, clock: Clock, tmp_path: Path
) -> None:
    store.write("id", entry())
    clock.now += 2 * IDLE
    SessionStore(tmp_path / "state", clock).touch("id")
    store.delete_if_idle("id", IDLE)
    assert store.read("id", IDLE) is not None

    clock.now += 2 * IDLE
    store.delete_if_idle("id", IDLE)

    assert files(tmp_path) == []


def test_what_is_too_much_is_not_remembered_and_neither_is_what_it_was(
    store: SessionStore,
) -> None:
    store.write("id", entry())
    store.write("id", entry(subscriptions=("x" * ENTRY_BYTES_MAX,)))

    assert store.read("id", IDLE) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"word":1}', b"\xff"])
def test_a_damaged_file_is_no_session(store: SessionStore, tmp_path: Path, raw: bytes) -> None:
    store.write("id", entry())
    (file,) = files(tmp_path)
    held = file.stat().st_mtime
    file.write_bytes(raw)
    os.utime(file, (held, held))

    assert store.read("id", IDLE) is None


def test_a_store_that_cannot_be_written_fails_no_request(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "state").write_text("a file")
    store = SessionStore(tmp_path / "state", clock)

    store.write("id", entry())
    store.touch("id")
    store.delete("id")
    store.sweep(IDLE)

    assert store.read("id", IDLE) is None


def test_a_sweep_removes_some_expired_files_at_a_time(
    store: SessionStore, clock: Clock, tmp_path: Path
) -> None:
    for number in range(FILES_PER_SWEEP_MAX + 10):
        store.write(f"old-{number}", entry())
    clock.now += IDLE + 1
    store.write("new", entry())

    store.sweep(IDLE)  # The directory is opened first.
    store.sweep(IDLE)
    left = len(files(tmp_path))
    for _ in range(3):
        store.sweep(IDLE)

    assert left in (11, 12)
    assert store.read("new", IDLE) is not None
    assert len(files(tmp_path)) == 1


def test_a_file_cannot_be_read_without_the_session_id(store: SessionStore, tmp_path: Path) -> None:
    received = entry(client=msgspec.Raw(b'{"name":"a-name-of-its-own"}'))
    store.write("one", received)
    store.write("two", received)
    raws = [file.read_bytes() for file in files(tmp_path)]
    assert all(b"a-name-of-its-own" not in raw and b"revision" not in raw for raw in raws)
    assert raws[0][:64] != raws[1][:64]
    assert store.read("one", IDLE) == received


@pytest.mark.parametrize("size", [0, 1, 16, 17, 500])
def test_any_bytes_at_all_are_no_session(store: SessionStore, tmp_path: Path, size: int) -> None:
    store.write("one", entry())
    [file] = files(tmp_path)
    for seed in range(20):
        file.write_bytes(random.Random(seed).randbytes(size))
        assert store.read("one", IDLE) is None


DAY = 86400.0


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_is_set_ends_no_session_and_prolongs_none(
    tmp_path: Path, clock: Clock, jump: float, restarted: bool
) -> None:
    runs = Clock()
    store = SessionStore(tmp_path / "state", clock, runs)
    store.write("used", entry())
    store.write("forgotten", entry())
    if not restarted:
        store.sweep(IDLE)

    clock.now += jump
    if restarted:
        store = SessionStore(tmp_path / "state", clock, runs)
    for _ in range(3):
        store.sweep(IDLE)
    assert store.read("used", IDLE) == entry()
    store.touch("used")
    clock.now += IDLE + 1
    runs.now += IDLE + 1
    store.touch("used")
    for _ in range(3):
        store.sweep(IDLE)

    assert store.read("used", IDLE) == entry()
    assert len(files(tmp_path)) == 1


def test_two_processes_that_see_the_clock_jump_do_not_date_a_session_twice(
    tmp_path: Path, clock: Clock
) -> None:
    runs = Clock()
    both = [SessionStore(tmp_path / "state", clock, runs) for _ in range(2)]
    both[0].write("id", entry())
    both[1].sweep(IDLE)
    clock.now += DAY
    for store in both:
        store.sweep(IDLE)

    clock.now += IDLE + 1
    runs.now += IDLE + 1
    assert both[0].read("id", IDLE) is None


def test_after_a_restart_of_the_machine_a_session_is_as_old_as_it_was(
    tmp_path: Path, clock: Clock
) -> None:
    SessionStore(tmp_path / "state", clock, lambda: 5 * DAY).write("id", entry())
    clock.now += IDLE - 1
    assert SessionStore(tmp_path / "state", clock, lambda: 10.0).read("id", IDLE) == entry()
    clock.now += 2
    assert SessionStore(tmp_path / "state", clock, lambda: 12.0).read("id", IDLE) is None


# Resumed sessions.

REVISION = "2025-11-25"
MINUTE = 60.0


class Before:
    """A process that ends: its state directory, and the id of its session."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.id = ""

    def play(self, scene: Any = None, **settings: Any) -> None:
        """Run a process that opens a session and is killed."""

        async def whole(stage: Stage) -> None:
            self.id = await stage.open_session(REVISION)
            if scene is not None:
                await scene(stage, self.id)
            stage.sessions.by_id.clear()  # A killed process writes nothing more.

        play(whole, state=self.state, **settings)

    def then(self, scene: Any, **settings: Any) -> None:
        """Run the next process."""

        async def whole(stage: Stage) -> None:
            await scene(stage, self.id)

        play(whole, state=self.state, **settings)


@pytest.fixture
def before(tmp_path: Path) -> Before:
    return Before(tmp_path)


def ask(id: str, method: str = "ping", params: Any = None, **fields: str) -> bytes:
    return post(request(method, params, 7), mcp_session_id=id, **fields)


def session_at(stage: Stage) -> Session:
    return next(session for what, session in stage.handler.sessions if what == "opened")


def test_a_session_goes_on_in_another_process(before: Before) -> None:
    before.play()

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        resumed: list[Session] = []
        stage.sessions.on_resumed = resumed.append

        response = await stage.client().ask(ask(id))
        again = await stage.client().ask(ask(id))

        assert (response.status, again.status) == (200, 200)
        session = session_at(stage)
        assert resumed == [session]
        assert session.resumed
        assert session.revision.name == REVISION
        assert [what for what, _ in stage.handler.sessions] == ["opened"]

    before.then(scene)


def test_what_the_record_calls_it_stays_the_same(before: Before) -> None:
    words = []

    async def first(stage: Stage, id: str) -> None:
        words.append(session_at(stage).id)

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        await stage.client().ask(ask(id))
        assert [session_at(stage).id] == words

    before.play(first)
    before.then(scene)


@pytest.mark.parametrize(
    ("who", "where", "status"),
    [("alice", "/mcp/default", 404), ("bob", "/mcp/dev", 404), ("bob", "/mcp/default", 200)],
)
def test_it_goes_on_for_its_own_principal_in_its_own_profile(
    tmp_path: Path, who: str, where: str, status: int
) -> None:
    ids = []

    async def first(stage: Stage) -> None:
        bob = Principal("token", "bob")
        session = stage.sessions.create("default", bob, 0.0)
        session.conversation.receive(json.dumps(initialize_request(REVISION)).encode())
        stage.sessions.add(session)
        ids.append(session.id)
        stage.sessions.by_id.clear()

    async def second(stage: Stage) -> None:
        found = stage.sessions.resume(
            ids[0], where.rpartition("/")[2], Principal("token", who), 0.0
        )
        assert (found is not None) == (status == 200)

    play(first, state=tmp_path)
    play(second, state=tmp_path)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_ended_session_stays_ended(before: Before, method: str) -> None:
    async def end(stage: Stage, id: str) -> None:
        assert (await stage.client().ask(delete(mcp_session_id=id))).status == 200

    async def scene(stage: Stage, id: str) -> None:
        asked = {
            "GET": get(mcp_session_id=id),
            "POST": ask(id),
            "DELETE": delete(mcp_session_id=id),
        }
        assert (await stage.client().ask(asked[method])).status == 404
        assert stage.handler.sessions == []

    before.play(end)
    before.then(scene)


def test_a_session_that_was_idle_for_too_long_stays_over(before: Before) -> None:
    async def wait(stage: Stage, id: str) -> None:
        await advance_clock(6 * MINUTE)
        assert list(stage.sessions) == []

    async def scene(stage: Stage, id: str) -> None:
        assert (await stage.client().ask(ask(id))).status == 404

    before.play(wait, idle_seconds=5 * MINUTE)
    before.then(scene, idle_seconds=5 * MINUTE)
    assert list((before.state / FOLDER).iterdir()) == []


def test_sessions_in_use_are_touched_in_the_store(before: Before) -> None:
    async def stay(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        for _ in range(4):
            await advance_clock(3 * MINUTE)
            assert (await stage.client().ask(ask(id))).status == 200
        stage.client().send(get(mcp_session_id=id))
        await advance_clock(12 * MINUTE)
        (file,) = (before.state / FOLDER).iterdir()
        assert stage.ingress.now - file.stat().st_mtime < 2 * MINUTE

    before.play(stay, idle_seconds=5 * MINUTE)


def test_a_gateway_that_stops_leaves_its_sessions_to_the_next(before: Before) -> None:
    async def stop(stage: Stage, id: str) -> None:
        await stage.ingress.drain(0, 0)
        assert [what for what, _ in stage.handler.sessions] == ["opened", "closed"]

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        assert (await stage.client().ask(ask(id))).status == 200

    before.play(stop)
    before.then(scene)


def test_what_it_wished_for_is_known_before_the_answer_goes_out(before: Before) -> None:
    async def follow(stage: Stage, id: str) -> None:
        client = stage.client()
        for method, params in (
            ("resources/subscribe", {"uri": "a:1"}),
            ("logging/setLevel", {"level": "error"}),
        ):
            client.send(ask(id, method, params))
            session = session_at(stage)
            session.subscriptions.add("a:1")
            session.log_level = "error"
            stage.last.end(Answered(b"{}"))
        await settle()
        assert [response.status for response in client.responses] == [200, 200]

    async def scene(stage: Stage, id: str) -> None:
        stage.answer_at_once()
        await stage.client().ask(ask(id))
        session = session_at(stage)
        assert (session.subscriptions, session.log_level) == ({"a:1"}, "error")

    before.play(follow)
    before.then(scene)


def test_wishes_in_a_batch_count_too(tmp_path: Path) -> None:
    ids = []

    async def first(stage: Stage) -> None:
        ids.append(await stage.open_session("2025-03-26"))
        batch = [request("resources/subscribe", {"uri": "a:1"}, 1), request("ping", None, 2)]
        stage.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))
        session_at(stage).subscriptions.add("a:1")
        body = json.dumps(batch).encode()
        assert (await stage.client().ask(post(body, mcp_session_id=ids[0]))).status == 200
        stage.sessions.by_id.clear()

    async def second(stage: Stage) -> None:
        stage.answer_at_once()
        await stage.client().ask(ask(ids[0]))
        assert session_at(stage).subscriptions == {"a:1"}

    play(first, state=tmp_path)
    play(second, state=tmp_path)


# Requests in flight.


def streaming(stage: Stage, id: str, request_id: Any) -> HttpClient:
    """Send a call that becomes a stream."""
    client = stage.client()
    client.send(post(request("tools/list", None, request_id), mcp_session_id=id))
    stage.last.writer.send_frames(b'{"jsonrpc":"2.0","method":"x"}')
    return client


@pytest.mark.parametrize("request_id", [17, "c-1", 'a"b\u00e9', -3])
def test_a_client_that_resumes_for_a_lost_answer_gets_an_error(
    before: Before, request_id: Any
) -> None:
    seen: list[str] = []

    async def call(stage: Stage, id: str) -> None:
        client = streaming(stage, id, request_id)
        await settle()
        seen.extend(at for at, _ in client.response.events if at)

    async def scene(stage: Stage, id: str) -> None:
        for last in seen:
            assert re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+-\d+", last)
            client = stage.client()
            response = await client.ask(get(mcp_session_id=id, last_event_id=last))
            (lost,) = response.messages
            assert lost["id"] == request_id
            assert lost["error"]["code"] == -32000
            assert response.whole
        assert stage.handler.exchanges == []

    before.play(call)
    assert len(seen) == 2
    before.then(scene)


def test_another_process_s_stream_is_never_taken_for_one_of_ours(before: Before) -> None:
    seen: list[str] = []

    async def listen(stage: Stage, id: str) -> None:
        client = stage.client()
        client.send(get(mcp_session_id=id))
        await settle()
        seen.extend(at for at, _ in client.response.events if at)

    async def scene(stage: Stage, id: str) -> None:
        first, second = stage.client(), stage.client()
        first.send(post(request("tools/list", None, 1), mcp_session_id=id))
        stage.last.writer.send_frames(b'{"secret":1}')
        second.send(get(mcp_session_id=id, last_event_id=seen[0]))
        await settle()
        assert second.response.messages == []
        assert not second.response.whole

    before.play(listen)
    before.then(scene)


def test_an_answer_to_the_process_before_is_no_answer_here(before: Before) -> None:
    async def scene(stage: Stage, id: str) -> None:
        answers: list[Any] = []
        client = stage.client()
        client.send(post(request("tools/call", {"name": "t"}, 1), mcp_session_id=id))
        question = Question("roots/list", None, answers.append)
        stage.last.deliver(stage.last, NeedInput(question))
        for number in range(1, 50):
            stale = {"jsonrpc": "2.0", "id": number, "result": {}}
            assert (await stage.client().ask(post(stale, mcp_session_id=id))).status == 202
        assert answers == []
        asked = next(message for message in client.response.messages if "method" in message)
        real = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
        await stage.client().ask(post(real, mcp_session_id=id))
        assert len(answers) == 1

    before.play()
    before.then(scene)


# Stored and restored sessions.


def test_an_entry_that_makes_no_sense_is_no_session(before: Before) -> None:
    async def scene(stage: Stage) -> None:
        await stage.open_session()
        opened = next(iter(stage.sessions)).conversation.session
        assert opened is not None
        good = to_stored_session(opened)
        client = next(iter(stage.sessions))
        again = restore_session(good, client, "streamable-http", iter([1]))
        assert again is not None
        assert again.state is SessionState.READY
        assert to_stored_session(again) == good

        for change in ({"revision": "2026-07-28"}, {"revision": "x"}):
            bad = msgspec.structs.replace(good, **change)
            assert restore_session(bad, client, "streamable-http", iter([1])) is None
        bad = msgspec.structs.replace(good, capabilities=msgspec.Raw(b"1"))
        assert restore_session(bad, client, "streamable-http", iter([1])) is None
        apply_stored_session(
            again, msgspec.structs.replace(good, log_level="shrill", subscriptions=("x:1",))
        )
        assert (again.log_level, again.subscriptions) == (None, {"x:1"})

    play(scene)


def test_a_lost_answer_names_its_request() -> None:
    assert json.loads(lost_answer_error(b'"a"'))["id"] == "a"
