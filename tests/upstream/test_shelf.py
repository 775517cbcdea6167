"""What servers have said and allow to be said again."""

import json
from typing import Any

import pytest

from anyport.protocol.principal import LOCAL, Principal
from anyport.upstream import shelf as shelves
from anyport.upstream.shelf import Reading, Shelf
from anyport.wire import members

ALICE, BOB = Principal("token", "alice"), Principal("token", "bob")


def answer(ttl: Any = 1000, scope: str = "private", **more: Any) -> bytes:
    hints = {"ttlMs": ttl, "cacheScope": scope}
    result = {"resultType": "complete", "contents": [{"n": 1}], **hints, **more}
    return json.dumps(result).encode()


def asking(
    shelf: Shelf, uri: str = "x:1", who: Principal = ALICE, slug: str = "s", **params: Any
) -> Reading:
    raw = json.dumps({"uri": uri, **params}).encode()
    reading = shelf.reading(slug, uri, raw, who)
    assert reading is not None
    return reading


def found(shelf: Shelf, now: float = 0.0, **of: Any) -> Any:
    result = shelf.find(asking(shelf, **of), now)
    return None if result is None else json.loads(result.result)


def keep(shelf: Shelf, result: bytes | None = None, now: float = 0.0, **of: Any) -> None:
    shelf.keep(asking(shelf, **of), answer() if result is None else result, now)


def test_an_answer_is_given_again_with_the_time_that_is_left_and_not_longer() -> None:
    shelf = Shelf()
    keep(shelf, now=10.0)

    assert found(shelf, 10.25) == {**json.loads(answer()), "ttlMs": 750}
    assert found(shelf, 10.9995) is None
    assert len(shelf) == shelf.size_bytes == 0


def test_a_private_answer_is_for_its_principal_alone() -> None:
    shelf = Shelf()
    keep(shelf, who=ALICE)

    assert found(shelf, who=ALICE) is not None
    others = (BOB, LOCAL, ALICE._replace(client="other"), ALICE._replace(issuer="x"))
    assert [found(shelf, who=who) for who in others] == [None] * 4


def test_a_public_answer_is_for_everybody() -> None:
    shelf = Shelf()
    keep(shelf, answer(scope="public"), who=ALICE)

    assert found(shelf, who=BOB) == found(shelf, who=ALICE) == json.loads(answer(scope="public"))


def test_each_has_their_own_private_answer() -> None:
    shelf = Shelf()
    keep(shelf, answer(of="alice"), who=ALICE)
    keep(shelf, answer(of="bob"), who=BOB)

    assert (found(shelf, who=ALICE)["of"], found(shelf, who=BOB)["of"]) == ("alice", "bob")


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
    shelf = Shelf()
    keep(shelf, result)

    assert len(shelf) == 0


def test_an_answer_that_says_its_time_twice_is_not_kept() -> None:
    shelf = Shelf()
    with pytest.raises(members.Ambiguous):
        keep(shelf, b'{"resultType":"complete","ttlMs":1,"ttlMs":900}')

    assert len(shelf) == 0


@pytest.mark.parametrize("member", ["inputResponses", "requestState"])
def test_what_depends_on_answers_of_a_client_is_neither_kept_nor_looked_for(member: str) -> None:
    params = json.dumps({"uri": "x:1", member: {}}).encode()

    assert Shelf().reading("s", "x:1", params, ALICE) is None


def test_only_the_very_same_question_has_the_same_answer() -> None:
    shelf = Shelf()
    capable: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    keep(shelf, answer(scope="public"), _meta=capable)

    assert found(shelf, _meta=capable) is not None
    assert found(shelf, _meta={}) is None
    assert found(shelf, _meta={**capable, "com.example/tenant": 2}) is None
    assert found(shelf, _meta={**capable, "baggage": "user=2"}) is None
    assert found(shelf, _meta=capable, range=[0, 1]) is None
    assert found(shelf, uri="x:2", _meta=capable) is None
    assert found(shelf, slug="t", _meta=capable) is None


def test_how_a_request_is_accompanied_makes_no_difference() -> None:
    shelf = Shelf()
    keep(shelf, _meta={"progressToken": 1, "traceparent": "00-a-b-01", "k": 1})
    level = {"io.modelcontextprotocol/logLevel": "debug"}

    assert found(shelf, _meta={"k": 1, "progressToken": 2, "tracestate": "c=d", **level})
    assert found(shelf, _meta={"k": 1})


def test_the_order_in_which_a_question_is_put_makes_no_difference() -> None:
    shelf = Shelf()
    shelf.keep(asking(shelf, _meta={"a": 1, "b": 2}), answer(), 0.0)
    raw = b'{"_meta" : {"b":2 , "a": 1}, "uri": "x:1"}'
    reading = shelf.reading("s", "x:1", raw, ALICE)

    assert reading is not None
    assert shelf.find(reading, 0.0) is not None


@pytest.mark.parametrize("told", ["x://a/b", "x://a/b/", "x://a", "x://a/b/c/d", "x://a/b/c"])
def test_a_change_of_a_resource_or_of_a_part_or_the_whole_of_it_ends_its_answer(told: str) -> None:
    shelf = Shelf()
    keep(shelf, uri="x://a/b/c")
    keep(shelf, uri="x://a/bb")
    keep(shelf, uri="x://a/b/c", slug="t")

    shelf.changed("s", json.dumps({"uri": told}).encode())

    assert found(shelf, uri="x://a/b/c") is None
    assert (found(shelf, uri="x://a/bb") is None) == (told == "x://a")
    assert found(shelf, uri="x://a/b/c", slug="t") is not None


@pytest.mark.parametrize("params", [None, b"{}", b"[]", b'{"uri":7}'])
def test_a_change_of_nobody_knows_what_ends_all_answers_of_that_server(
    params: bytes | None,
) -> None:
    shelf = Shelf()
    keep(shelf)
    keep(shelf, slug="t")

    shelf.changed("s", params)

    assert (found(shelf), found(shelf, slug="t") is None) == (None, False)


def test_a_server_can_be_forgotten() -> None:
    shelf = Shelf()
    keep(shelf)
    keep(shelf, slug="t")

    shelf.clear("s")

    assert (found(shelf), found(shelf, slug="t") is None) == (None, False)


def test_an_answer_that_may_be_older_than_a_change_is_not_kept() -> None:
    shelf = Shelf()
    before, elsewhere = asking(shelf), asking(shelf, slug="t")
    shelf.changed("s", b'{"uri":"y:"}')

    shelf.keep(before, answer(), 0.0)
    shelf.keep(elsewhere, answer(), 0.0)

    assert (found(shelf), found(shelf, slug="t") is None) == (None, False)


def test_what_was_not_used_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "KEPT_RESULTS_MAX", 2)
    shelf = Shelf()
    keep(shelf, uri="x:1")
    keep(shelf, uri="x:2")
    found(shelf, uri="x:1")
    keep(shelf, uri="x:3")

    assert [found(shelf, uri=f"x:{n}") is not None for n in (1, 2, 3)] == [True, False, True]


def test_bytes_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    large = answer(text="x" * 300)
    monkeypatch.setattr(shelves, "KEPT_BYTES_MAX", 1000)
    monkeypatch.setattr(shelves, "KEPT_RESULT_BYTES_MAX", 500)
    shelf = Shelf()
    for number in range(9):
        keep(shelf, large, uri=f"x:{number}")
        keep(shelf, large, uri=f"x:{number}")
    keep(shelf, answer(text="x" * 500), uri="x:9")

    assert len(shelf) == 2
    assert 0 < shelf.size_bytes <= 1000
    assert found(shelf, uri="x:8") is not None
    assert found(shelf, uri="x:9") is None
    shelf.clear("s")
    assert shelf.size_bytes == 0
