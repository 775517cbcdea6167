"""Test fixtures for `anyport replay`: requests in files, and the answers expected to them.

A file is one message, or `{"request": ..., "response" | "expect": ...}`; `02_call.json` may have
`02_call.expected.json` beside it; JSON Lines hold several. A directory is sent in the order of the
numbers that its file names begin with.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from anyport.record.compare import ABSENT, CompareMode
from anyport.wire import raw_json

EXPECTED_SUFFIX: Final = ".expected.json"
SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
FIXTURES_MAX: Final = 10_000
"""Of one run: more is a load test."""

_NUMBER: Final = re.compile(r"\d{1,18}")


class BadFixture(ValueError):
    """A file that cannot be sent; the text says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A message to send, and the expected answer."""

    name: str
    """Name of the file, with the line where it holds several."""
    method: str
    params: bytes | None = None
    id: bytes | None = None
    """None for a notification."""
    expected: Any = ABSENT
    """An object with `result` or `error`."""
    mode: CompareMode = CompareMode.EXACT


def read_fixtures(path: Path) -> list[Fixture]:
    """The fixtures in a file or a directory, in the order in which they are sent.

    Raises:
        BadFixture: a file is not a fixture, or there are none.
    """
    files = _fixture_files(path) if path.is_dir() else [path]
    fixtures = [fixture for file in files for fixture in _read_file(file)]
    if not fixtures:
        kinds = " or ".join(SUFFIXES[:2])
        raise BadFixture(f"{path} holds no requests: a fixture is a {kinds} file with a message")
    if len(fixtures) > FIXTURES_MAX:
        raise BadFixture(f"{path} holds {len(fixtures)} requests; at most {FIXTURES_MAX} are sent")
    return fixtures


def _fixture_files(folder: Path) -> list[Path]:
    found = [
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix in SUFFIXES and not file.name.endswith(EXPECTED_SUFFIX)
    ]
    return sorted(found, key=_sort_key)


def _sort_key(file: Path) -> tuple[int, int, str]:
    """Numbered files first, by number: 10 comes after 9."""
    number = _NUMBER.match(file.name)
    return (1, 0, file.name) if number is None else (0, int(number[0]), file.name)


def _read_file(file: Path) -> list[Fixture]:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise BadFixture(f"{file} cannot be read: {error.strerror}") from None
    fixtures = _read_document(raw, file) if file.suffix == SUFFIXES[0] else _read_lines(raw, file)
    expected_file = file.with_name(file.name.removesuffix(file.suffix) + EXPECTED_SUFFIX)
    return _attach_expected(fixtures, expected_file) if expected_file.is_file() else fixtures


def _read_document(raw: bytes, file: Path) -> list[Fixture]:
    if raw.lstrip()[:1] != b"[":
        return [_fixture(raw, file.name)]
    items = _decode(raw, file.name, list[Raw])
    return [_fixture(bytes(item), f"{file.name}:{at}") for at, item in enumerate(items, start=1)]


def _read_lines(raw: bytes, file: Path) -> list[Fixture]:
    """Lines in order; a response line is the expected answer to the request with its id before
    it."""
    fixtures: list[Fixture] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        name = f"{file.name}:{number}"
        found = _decode_object(line, name)
        if "method" in found or "request" in found:
            fixtures.append(_fixture(line, name))
            continue
        answer = _answer(line, name)
        for at in reversed(range(len(fixtures))):
            if fixtures[at].id is not None and fixtures[at].id == _raw_bytes(found.get("id")):
                fixtures[at] = replace(fixtures[at], expected=answer)
                break
        else:
            raise BadFixture(f"{name} answers no request before it")
    return fixtures


def _attach_expected(fixtures: list[Fixture], expected_file: Path) -> list[Fixture]:
    request_indices = [at for at, fixture in enumerate(fixtures) if fixture.id is not None]
    if len(request_indices) != 1:
        raise BadFixture(
            f"{expected_file} answers {len(request_indices)} requests; it can only answer one"
        )
    raw = expected_file.read_bytes()
    found = _decode_object(raw, expected_file.name)
    mode = CompareMode.SUBSET if "expect" in found else CompareMode.EXACT
    raw_answer = bytes(found["expect"]) if mode is CompareMode.SUBSET else raw
    expected = _answer(raw_answer, expected_file.name)
    fixtures[request_indices[0]] = replace(
        fixtures[request_indices[0]], expected=expected, mode=mode
    )
    return fixtures


def _fixture(raw: bytes, name: str) -> Fixture:
    found = _decode_object(raw, name)
    if "request" not in found:
        return _message(found, name)
    fixture = _message(_decode_object(bytes(found["request"]), name), name)
    answer_members = [member for member in ("response", "expect") if member in found]
    if len(answer_members) > 1:
        raise BadFixture(f"{name} has a response and an expect; one of them is enough")
    if not answer_members:
        return fixture
    if fixture.id is None:
        raise BadFixture(f"{name} expects an answer to a notification: a request has an id")
    mode = CompareMode.SUBSET if answer_members == ["expect"] else CompareMode.EXACT
    return replace(fixture, expected=_answer(bytes(found[answer_members[0]]), name), mode=mode)


def _message(found: dict[str, Raw], name: str) -> Fixture:
    method = raw_json.decode_string(found.get("method"))
    if method is None:
        raise BadFixture(f"{name} is not a request: it has no method that is a string")
    params = _raw_bytes(found.get("params"))
    if params is not None and params[:1] != b"{":
        raise BadFixture(f"{name}: params must be an object")
    return Fixture(name=name, method=method, params=params, id=_raw_bytes(found.get("id")))


def _answer(raw: bytes, name: str) -> dict[str, Any]:
    """The `result` or `error` of an answer; nothing else is compared."""
    decoded = _decode(raw, name, dict[str, Any])
    kept = {key: decoded[key] for key in ("result", "error") if key in decoded}
    if len(kept) != 1:
        raise BadFixture(f"{name}: an answer has a result or an error")
    return kept


def _decode_object(raw: bytes, name: str) -> dict[str, Raw]:
    found: dict[str, Raw] = _decode(raw, name, dict[str, Raw])
    return found


def _decode(raw: bytes, name: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise BadFixture(f"{name} is not a message: a JSON object was expected") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFixture(f"{name} is not JSON: {error}") from None


def _raw_bytes(value: Raw | None) -> bytes | None:
    return None if value is None else bytes(value)
