"""What servers have said and allow to be said again."""

import json
from typing import Any

import pytest

from anyport.protocol.principal import LOCAL, Principal
from anyport.upstream import read_cache as shelves
from anyport.upstream.read_cache import ReadCache, ReadRequest
from anyport.wire import raw_json

ALICE, BOB = Principal("token", "alice"), Principal("token", "bob")


def answer(ttl: Any = 1000, scope: str = "private", **more: Any) -> bytes:
    hints = {"ttlMs": ttl, "cacheScope": scope}
    result = {"resultType": "complete", "contents": [{"n": 1}], **hints, **more}
    return json.dumps(result).encode()


def asking(
    cache: ReadCache, uri: str = "x:1", who: Principal = ALICE, slug: str = "s", **params: Any
) -> ReadRequest:
    raw = json.dumps({"uri": uri, **params}).encode()
    reading = cache.prepare(slug, uri, raw, who)
    assert reading is not None
    return reading


def found(cache: ReadCache, now: float = 0.0, **of: Any) -> Any:
    result = cache.find(asking(cache, **of), now)
    return None if result is None else json.loads(result.result)


def keep(cache: ReadCache, result: bytes | None = None, now: float = 0.0, **of: Any) -> None:
    cache.store(asking(cache, **of), answer() if result is None else result, now)


def test_an_answer_is_given_again_with_the_time_that_is_left_and_not_longer() -> None:
    cache = ReadCache()
    keep(cache, now=10.0)

    assert found(cache, 10.25) == {**json.loads(answer()), "ttlMs": 750}
    assert found(cache, 10.9995) is None
    assert len(cache) == cache._bytes == 0


def test_a_private_answer_is_for_its_principal_alone() -> None:
    cache = ReadCache()
    keep(cache, who=ALICE)

    assert found(cache, who=ALICE) is not None
    others = (BOB, LOCAL, ALICE._replace(client="other"), ALICE._replace(issuer="x"))
    assert [found(cache, who=who) for who in others] == [None] * 4


def test_a_public_answer_is_for_everybody() -> None:
    cache = ReadCache()
    keep(cache, answer(scope="public"), who=ALICE)

    assert found(cache, who=BOB) == found(cache, who=ALICE) == json.loads(answer(scope="public"))


def test_each_has_their_own_private_answer() -> None:
    cache = ReadCache()
    keep(cache, answer(of="alice"), who=ALICE)
    keep(cache, answer(of="bob"), who=BOB)

    assert (found(cache, who=ALICE)["of"], found(cache, who=BOB)["of"]) == ("alice", "bob")


@pytest.mark.parametrize(
    "result",
    [
        answer(ttl=0),
        answer(ttl=-5),
        answer(ttl="soon"),
        answer(resultType="input_required"),
        answer(resultType="task"),
        b'{"resultType":"complete","contents":[]}',
    ],
)
def test_what_says_no_time_or_is_no_answer_is_not_kept(result: bytes) -> None:
    cache = ReadCache()
    keep(cache, result)

    assert len(cache) == 0


def test_an_answer_that_says_its_time_twice_is_not_kept() -> None:
    cache = ReadCache()
    with pytest.raises(raw_json.AmbiguousObject):
        keep(cache, b'{"resultType":"complete","ttlMs":1,"ttlMs":900}')

    assert len(cache) == 0


@pytest.mark.parametrize("member", ["inputResponses", "requestState"])
def test_what_depends_on_answers_of_a_client_is_neither_kept_nor_looked_for(member: str) -> None:
    params = json.dumps({"uri": "x:1", member: {}}).encode()

    assert ReadCache().prepare("s", "x:1", params, ALICE) is None


def test_only_the_very_same_question_has_the_same_answer() -> None:
    cache = ReadCache()
    capable: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    keep(cache, answer(scope="public"), _meta=capable)

    assert found(cache, _meta=capable) is not None
    assert found(cache, _meta={}) is None
    assert found(cache, _meta={**capable, "com.example/tenant": 2}) is None
    assert found(cache, _meta={**capable, "baggage": "user=2"}) is None
    assert found(cache, _meta=capable, range=[0, 1]) is None
    assert found(cache, uri="x:2", _meta=capable) is None
    assert found(cache, slug="t", _meta=capable) is None


def test_how_a_request_is_accompanied_makes_no_difference() -> None:
    cache = ReadCache()
    keep(cache, _meta={"progressToken": 1, "traceparent": "00-a-b-01", "k": 1})
    level = {"io.modelcontextprotocol/logLevel": "debug"}

    assert found(cache, _meta={"k": 1, "progressToken": 2, "tracestate": "c=d", **level})
    assert found(cache, _meta={"k": 1})


def test_the_order_in_which_a_question_is_put_makes_no_difference() -> None:
    cache = ReadCache()
    cache.store(asking(cache, _meta={"a": 1, "b": 2}), answer(), 0.0)
    raw = b'{"_meta" : {"b":2 , "a": 1}, "uri": "x:1"}'
    reading = cache.prepare("s", "x:1", raw, ALICE)

    assert reading is not None
    assert cache.find(reading, 0.0) is not None


@pytest.mark.parametrize("told", ["x://a/b", "x://a/b/", "x://a", "x://a/b/c/d", "x://a/b/c"])
def test_a_change_of_a_resource_or_of_a_part_or_the_whole_of_it_ends_its_answer(told: str) -> None:
    cache = ReadCache()
    keep(cache, uri="x://a/b/c")
    keep(cache, uri="x://a/bb")
    keep(cache, uri="x://a/b/c", slug="t")

    cache.on_resource_changed("s", json.dumps({"uri": told}).encode())

    assert found(cache, uri="x://a/b/c") is None
    assert (found(cache, uri="x://a/bb") is None) == (told == "x://a")
    assert found(cache, uri="x://a/b/c", slug="t") is not None


@pytest.mark.parametrize("params", [None, b"{}", b"[]", b'{"uri":7}'])
def test_a_change_of_nobody_knows_what_ends_all_answers_of_that_server(
    params: bytes | None,
) -> None:
    cache = ReadCache()
    keep(cache)
    keep(cache, slug="t")

    cache.on_resource_changed("s", params)

    assert (found(cache), found(cache, slug="t") is None) == (None, False)


def test_a_server_can_be_forgotten() -> None:
    cache = ReadCache()
    keep(cache)
    keep(cache, slug="t")

    cache.clear("s")

    assert (found(cache), found(cache, slug="t") is None) == (None, False)


def test_an_answer_that_may_be_older_than_a_change_is_not_kept() -> None:
    cache = ReadCache()
    before, elsewhere = asking(cache), asking(cache, slug="t")
    cache.on_resource_changed("s", b'{"uri":"y:"}')

    cache.store(before, answer(), 0.0)
    cache.store(elsewhere, answer(), 0.0)

    assert (found(cache), found(cache, slug="t") is None) == (None, False)


def test_what_was_not_used_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "KEPT_RESULTS_MAX", 2)
    cache = ReadCache()
    keep(cache, uri="x:1")
    keep(cache, uri="x:2")
    found(cache, uri="x:1")
    keep(cache, uri="x:3")

    assert [found(cache, uri=f"x:{n}") is not None for n in (1, 2, 3)] == [True, False, True]


def test_bytes_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    large = answer(text="x" * 300)
    monkeypatch.setattr(shelves, "KEPT_BYTES_MAX", 1000)
    monkeypatch.setattr(shelves, "KEPT_RESULT_BYTES_MAX", 500)
    cache = ReadCache()
    for number in range(9):
        keep(cache, large, uri=f"x:{number}")
        keep(cache, large, uri=f"x:{number}")
    keep(cache, answer(text="x" * 500), uri="x:9")

    assert len(cache) == 2
    assert 0 < cache._bytes <= 1000
    assert found(cache, uri="x:8") is not None
    assert found(cache, uri="x:9") is None
    cache.clear("s")
    assert cache._bytes == 0


def test_what_each_principal_has_a_process_for_is_public_to_nobody_else() -> None:
    cache = ReadCache()
    reading = cache.prepare("s", "x:1", b"{}", ALICE, alone=True)
    assert reading is not None
    cache.store(reading, answer(scope="public"), 0.0)

    theirs = cache.prepare("s", "x:1", b"{}", BOB, alone=True)
    assert theirs is not None
    assert cache.find(theirs, 0.0) is None
    assert cache.find(reading, 0.0) is not None
