"""Requests in files, and the answers that are expected to them.

A file is one message, or `{"request": ..., "response" | "expect": ...}`; `02_call.json` may have
`02_call.expected.json` beside it; JSON Lines hold several. A directory is played in the order of
the numbers that its files begin with. Knows files; not who is asked.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.record.compare import ABSENT, Mode
from anyport.wire import members

EXPECTED: Final = ".expected.json"
SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
FIXTURES_MAX: Final = 10_000
"""Of one run: more is no test, but a load."""

_NUMBER: Final = re.compile(r"\d{1,18}")


class BadFixture(ValueError):
    """A file that cannot be played; the text says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One message to send, and what should come back."""

    name: str
    """Of its file; with its line, where it is one of several."""
    method: str
    params: bytes | None = None
    id: bytes | None = None
    """None for a notification."""
    expected: Any = ABSENT
    """An object with `result` or `error`."""
    mode: Mode = Mode.EXACT


def read_fixtures(path: Path) -> list[Fixture]:
    """The fixtures in a file or in a directory, in the order in which they are played.

    Raises:
        BadFixture: one of them is none, or there are none.
    """
    files = _files(path) if path.is_dir() else [path]
    fixtures = [fixture for file in files for fixture in _of_file(file)]
    if not fixtures:
        kinds = " or ".join(SUFFIXES[:2])
        raise BadFixture(f"{path} holds no requests: a fixture is a {kinds} file with a message")
    if len(fixtures) > FIXTURES_MAX:
        raise BadFixture(f"{path} holds {len(fixtures)} requests; at most {FIXTURES_MAX} are sent")
    return fixtures


def _files(folder: Path) -> list[Path]:
    found = [
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix in SUFFIXES and not file.name.endswith(EXPECTED)
    ]
    return sorted(found, key=_place)


def _place(file: Path) -> tuple[int, int, str]:
    """Numbered files first, by their numbers: 10 comes after 9."""
    number = _NUMBER.match(file.name)
    return (1, 0, file.name) if number is None else (0, int(number[0]), file.name)


def _of_file(file: Path) -> list[Fixture]:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise BadFixture(f"{file} cannot be read: {error.strerror}") from None
    fixtures = _of_document(raw, file) if file.suffix == SUFFIXES[0] else _of_lines(raw, file)
    beside = file.with_name(file.name.removesuffix(file.suffix) + EXPECTED)
    return _with_expected(fixtures, beside) if beside.is_file() else fixtures


def _of_document(raw: bytes, file: Path) -> list[Fixture]:
    if raw.lstrip()[:1] != b"[":
        return [_fixture(raw, file.name)]
    items = _decoded(raw, file.name, list[Raw])
    return [_fixture(bytes(item), f"{file.name}:{at}") for at, item in enumerate(items, start=1)]


def _of_lines(raw: bytes, file: Path) -> list[Fixture]:
    """Lines in their order; an answer among them is what is expected for its request."""
    fixtures: list[Fixture] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        name = f"{file.name}:{number}"
        found = _object(line, name)
        if "method" in found or "request" in found:
            fixtures.append(_fixture(line, name))
            continue
        answer = _answer(line, name)
        for at in reversed(range(len(fixtures))):
            if fixtures[at].id is not None and fixtures[at].id == _raw(found.get("id")):
                fixtures[at] = replace(fixtures[at], expected=answer)
                break
        else:
            raise BadFixture(f"{name} answers no request before it")
    return fixtures


def _with_expected(fixtures: list[Fixture], beside: Path) -> list[Fixture]:
    asked = [at for at, fixture in enumerate(fixtures) if fixture.id is not None]
    if len(asked) != 1:
        raise BadFixture(f"{beside} stands beside {len(asked)} requests; it can only be for one")
    raw = beside.read_bytes()
    found = _object(raw, beside.name)
    mode = Mode.SUBSET if "expect" in found else Mode.EXACT
    told = bytes(found["expect"]) if mode is Mode.SUBSET else raw
    expected = _answer(told, beside.name)
    fixtures[asked[0]] = replace(fixtures[asked[0]], expected=expected, mode=mode)
    return fixtures


def _fixture(raw: bytes, name: str) -> Fixture:
    found = _object(raw, name)
    if "request" not in found:
        return _message(found, name)
    fixture = _message(_object(bytes(found["request"]), name), name)
    told = [member for member in ("response", "expect") if member in found]
    if len(told) > 1:
        raise BadFixture(f"{name} has a response and an expect; one of them is enough")
    if not told:
        return fixture
    if fixture.id is None:
        raise BadFixture(f"{name} expects an answer to a notification: a request has an id")
    mode = Mode.SUBSET if told == ["expect"] else Mode.EXACT
    return replace(fixture, expected=_answer(bytes(found[told[0]]), name), mode=mode)


def _message(found: dict[str, Raw], name: str) -> Fixture:
    method = members.string(found.get("method"))
    if method is None:
        raise BadFixture(f"{name} is no request: it has no method that is a string")
    params = _raw(found.get("params"))
    if params is not None and params[:1] != b"{":
        raise BadFixture(f"{name}: params must be an object")
    return Fixture(name=name, method=method, params=params, id=_raw(found.get("id")))


def _answer(raw: bytes, name: str) -> dict[str, Any]:
    """What of an answer counts: its result or its error."""
    told = _decoded(raw, name, dict[str, Any])
    kept = {key: told[key] for key in ("result", "error") if key in told}
    if len(kept) != 1:
        raise BadFixture(f"{name}: an answer has a result or an error")
    return kept


def _object(raw: bytes, name: str) -> dict[str, Raw]:
    found: dict[str, Raw] = _decoded(raw, name, dict[str, Raw])
    return found


def _decoded(raw: bytes, name: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise BadFixture(f"{name} is no message: a JSON object was expected") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFixture(f"{name} is not JSON: {error}") from None


def _raw(value: Raw | None) -> bytes | None:
    return None if value is None else bytes(value)
