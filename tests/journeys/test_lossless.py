"""What goes in comes out, byte for byte, in both directions, whatever it is.

Messages are made up as text, never from parsed values: every spelling JSON has for a number or
a character, white space in every place, unknown members at every level below the envelope. The
server tells what reached it. Only the id and the progress token may have changed on the way, and
a raw carriage return, which is a line end to some readers, is a space after it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import LineClient, gateway, transparent
from tests.rig.scale import scaled

SERVER: Final = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("verbatim_server.py"))],
    "protocol": "legacy",
}
EXAMPLES: Final = scaled(60, full=1_000)
"""Messages that are made up for a test; where it has fewer, a third of them."""
TOKEN: Final = '"the client\'s token"'
PLACE: Final = '"$TOKEN"'
"""Where the server is to put the token it got."""

DEPTH_MAX: Final = 127
"""One less than a message may have: in the answer all of it lies one level deeper."""

SPACES: Final = ("", "", "", " ", "\t", "\r", " \t \r ")
NUMBERS: Final = (
    "0", "-0", "0.0", "-0.0", "1", "1.0", "1E5", "1e+5", "1.0e-7", "-0e0", "0.1", "1e400",
    "9007199254740993", "18446744073709551616", "1" + "0" * 40, "-1" + "0" * 40, "9" * 1000,
    "3.141592653589793238462643383279", "4.9e-324", "1E-1000",
)  # fmt: skip
RESERVED: Final = frozenset(
    {
        "name", "uri", "arguments", "argument", "ref", "type", "_meta", "reply", "fail", "notices",
        "code", "message", "level", "data", "progress", "progresstoken", "traceparent",
    }
)  # fmt: skip
"""Members that somebody reads; compared as a person would, in any case."""


def _spelled(character: str, form: int) -> str:
    """One character of a string: as it is, or with one of its escapes."""
    if form == 0 and character >= " " and character not in '"\\':
        return character
    short = dict(zip('"\\/\b\f\n\r\t', '"\\/bfnrt', strict=True))
    if form == 1 and character in short:
        return "\\" + short[character]
    units = character.encode("utf-16-be", "surrogatepass").hex()
    if form == 2:
        units = units.upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _object(members: list[tuple[str, str]], space: str) -> str:
    inside = f"{space},{space}".join(f"{name}{space}:{space}{value}" for name, value in members)
    return f"{{{space}{inside}{space}}}"


def _array(items: list[str], space: str) -> str:
    return f"[{space}{f'{space},{space}'.join(items)}{space}]"


def _nested(inner: str, depth: int, brackets: tuple[str, str]) -> str:
    return brackets[0] * depth + inner + brackets[1] * depth


spaces = st.sampled_from(SPACES)
characters = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.builds(lambda plane, low: chr(plane << 16 | low), st.integers(0, 16), st.integers(0, 0x7FF)),
    st.sampled_from('"\\/\b\f\n\r\t\0\x1f\x7f\x85\u2028\u2029\ufeff\ufffe\U0010ffff'),
)
strings = st.lists(st.builds(_spelled, characters, st.integers(0, 3)), max_size=5).map(
    lambda spelled: f'"{"".join(spelled)}"'
)
unknown_names = st.text(characters, max_size=3).filter(
    lambda name: name.partition("\0")[0].casefold() not in RESERVED
)
scalars = st.one_of(
    st.sampled_from((*NUMBERS, "true", "false", "null")),
    st.integers(-(10**40), 10**40).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    strings,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(_array, st.lists(inner, max_size=3), spaces),
        st.builds(_object, st.lists(st.tuples(strings, inner), max_size=3), spaces),
    ),
    max_leaves=6,
)
objects = st.builds(_object, st.lists(st.tuples(strings, values), max_size=4), spaces)
deep = st.builds(
    _nested,
    scalars,
    st.sampled_from((1, 2, 10, DEPTH_MAX - 3)),
    st.sampled_from([("[", "]"), ('{"":', "}"), ("[ ", "\r]")]),
)
"""Inside the envelope, the params and the arguments."""


unknown_values = st.one_of(values, deep)


@st.composite
def holding(
    draw: st.DrawFn,
    known: Mapping[str, st.SearchStrategy[str]],
    unknown: st.SearchStrategy[str] = unknown_values,
) -> str:
    """An object with these members and unknown ones, in any order."""
    members = [(f'"{name}"', draw(text)) for name, text in known.items()]
    for name, text in draw(st.dictionaries(unknown_names, unknown, max_size=2)).items():
        form = draw(st.integers(0, 3))
        members.append((f'"{"".join(_spelled(one, form) for one in name)}"', text))
    return _object(draw(st.permutations(members)), draw(spaces))


arguments = st.one_of(objects, deep.map(lambda inner: f'{{"deep":{inner}}}'))
references = holding({"type": st.just('"ref/prompt"'), "name": strings})
METHODS: Final[Mapping[str, Mapping[str, st.SearchStrategy[str]]]] = {
    "tools/call": {"name": strings, "arguments": arguments, "_meta": holding({})},
    "prompts/get": {"name": strings, "arguments": arguments},
    "resources/read": {"uri": strings},
    "completion/complete": {"ref": references, "argument": objects},
}
ids = st.one_of(st.integers(-(10**40), 10**40).map(str), strings)


@st.composite
def requests(draw: st.DrawFn, /, **told: str) -> tuple[str, str]:
    """A method and params; `told` is for the server."""
    method = draw(st.sampled_from(sorted(METHODS)))
    words = {name: st.just(text) for name, text in told.items()}
    return method, draw(holding({**METHODS[method], **words}))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A client of a gateway that shows the server as it is."""
    place = tmp_path_factory.mktemp("transparent")
    with gateway(place, {"verbatim": SERVER}, profiles=transparent("verbatim")) as client:
        client.initialize()
        client.request("tools/list")
        yield client


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A client of a gateway where the server's name stands before those of its tools."""
    with gateway(tmp_path_factory.mktemp("prefixed"), {"verbatim": SERVER}) as client:
        client.initialize()
        client.request("tools/list")
        yield client


@settings(max_examples=EXAMPLES)
@given(drawing=st.data(), id=ids, reply=objects, space=spaces)
def test_requests_and_results_pass_untouched(
    client: LineClient, drawing: st.DataObject, id: str, reply: str, space: str
) -> None:
    method, params = drawing.draw(requests(reply=reply))

    answer = _exchange(client, _request(id, method, params, space))

    params, reply = _on_one_line(params), _on_one_line(reply)
    digest = hashlib.sha256(params.encode()).hexdigest()
    more = "," + reply[1:-1] if ":" in reply else reply[1:-1]
    result = f'{{"digest":"{digest}","received":{params}{more}}}'
    assert answer == [f'{{"jsonrpc":"2.0","id":{id},"result":{result}}}']


@settings(max_examples=EXAMPLES // 3)
@given(
    drawing=st.data(),
    id=ids,
    error=holding(
        {"code": st.integers(-(2**31), 2**31).map(str), "message": strings, "data": values}
    ),
)
def test_errors_pass_untouched(
    client: LineClient, drawing: st.DataObject, id: str, error: str
) -> None:
    method, params = drawing.draw(requests(fail=error))

    answer = _exchange(client, _request(id, method, params))

    assert answer == [f'{{"jsonrpc":"2.0","id":{id},"error":{_on_one_line(error)}}}']


@settings(max_examples=EXAMPLES // 3)
@given(
    drawing=st.data(),
    log=holding({"level": st.just('"info"'), "data": values}, values),
    progress=holding({"progressToken": st.just('"$TOKEN"'), "progress": st.just("1.0")}, values),
    unheard_of=objects,
)
def test_notifications_pass_untouched_but_for_the_token(
    client: LineClient, drawing: st.DataObject, log: str, progress: str, unheard_of: str
) -> None:
    notices = [
        ("notifications/message", log),
        ("notifications/progress", progress),
        ("notifications/unheard_of", unheard_of),
    ]
    told = ",".join(f'["{method}",{params}]' for method, params in notices)
    meta = drawing.draw(holding({"progressToken": st.just(TOKEN)}))
    params = drawing.draw(
        holding({"name": strings, "_meta": st.just(meta), "notices": st.just(f"[{told}]")})
    )

    *noticed, answer = _exchange(client, _request("1", "tools/call", params))

    told_back = [(method, about.replace(PLACE, TOKEN)) for method, about in notices]
    assert noticed == [
        f'{{"jsonrpc":"2.0","method":"{method}","params":{_on_one_line(about)}}}'
        for method, about in told_back
    ]
    # The server got a token of the gateway's in the place of the client's.
    before, after = _on_one_line(params).split(TOKEN)
    head = f'"received":{before}'
    received = answer[answer.index(head) + len(head) :]
    assert received.lstrip("0123456789") == f"{after}}}}}"


@settings(max_examples=EXAMPLES // 3)
@given(drawing=st.data(), id=ids, form=st.integers(0, 3))
def test_a_public_name_is_all_that_changes(
    prefixed: LineClient, drawing: st.DataObject, id: str, form: int
) -> None:
    public = f'"{"".join(_spelled(one, form) for one in "verbatim__tool")}"'
    params = drawing.draw(holding({"arguments": arguments, "name": st.just(public)}))

    [answer] = _exchange(prefixed, _request(id, "tools/call", params))

    before, after = _on_one_line(params).split(public)
    assert answer.endswith(f'"received":{before}"tool"{after}}}}}')


def _on_one_line(text: str) -> str:
    return text.replace("\r", " ")


def _request(id: str, method: str, params: str, space: str = "") -> str:
    envelope = (("jsonrpc", '"2.0"'), ("params", params), ("id", id), ("method", f'"{method}"'))
    return _object([(f'"{name}"', value) for name, value in envelope], space)


def _exchange(client: LineClient, line: str) -> list[str]:
    """Send a request; all that comes back, the answer last."""
    client.send(f"{line}\n".encode())
    came: list[str] = []
    while not came or '"method"' in came[-1].partition('"params"')[0]:
        client.next()
        came.append(client.lines[-1].decode().removesuffix("\n"))
    return came
