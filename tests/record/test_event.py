import json
from pathlib import Path
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from anyport.record.event import (
    EVENT_BYTES_MAX,
    EVENT_DESCRIPTIONS,
    FINAL_STATUSES,
    METADATA_ENTRIES_MAX,
    SCHEMA_VERSION,
    TEXT_CHARS_MAX,
    EventRecord,
    EventType,
    Metadata,
    Status,
    encode_event,
    format_timestamp,
)
from anyport.record.redact.escape import cut

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"

any_text = st.text(st.characters() | st.sampled_from("\n\r\0\x1b\x7f\x85\u2028\u2029\ud800\udfff"))


def event(metadata: Metadata, **others: Any) -> EventRecord:
    fields: dict[str, Any] = {
        "timestamp": "2026-07-28T12:00:00.250000+00:00",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "status": "success",
        "schema_version": SCHEMA_VERSION,
        "event_type": "gateway.tool_call",
        "source": "anyport",
        "metadata": metadata,
    }
    return EventRecord(**fields | others)


def test_an_event_has_exactly_this_form() -> None:
    assert encode_event(event({"server": "github", "tool": "search"}, duration_ms=12.5)) == (
        b'{"timestamp":"2026-07-28T12:00:00.250000+00:00",'
        b'"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","status":"success",'
        b'"schema_version":"1.0","event_type":"gateway.tool_call","source":"anyport",'
        b'"metadata":{"server":"github","tool":"search"},"duration_ms":12.5}'
    )


def test_fields_that_do_not_apply_are_absent_and_those_that_do_are_there() -> None:
    plain = json.loads(encode_event(event({})))
    assert not plain.keys() & {"duration_ms", "error_code", "error_message"}

    failed = event({}, status="failure", duration_ms=0.0, error_code=-32602, error_message="no")
    told = json.loads(encode_event(failed))
    assert (told["duration_ms"], told["error_code"], told["error_message"]) == (0.0, -32602, "no")


def test_a_timestamp_is_utc_with_microseconds() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00.000000+00:00"
    assert format_timestamp(1785240000.25) == "2026-07-28T12:00:00.250000+00:00"


@given(any_text, any_text, any_text, any_text)
def test_any_text_in_any_field_is_one_line_and_comes_back(
    name: str, value: str, message: str, source: str
) -> None:
    line = encode_event(
        event({name: value, "list": [value]}, error_message=message, error_code=name, source=source)
    )

    assert len(line.splitlines()) == len(line.decode().splitlines()) == 1
    assert b"\x1b" not in line
    assert b"\0" not in line
    told = json.loads(line)
    assert told["metadata"] == {clean(name): clean(value), "list": [clean(value)]}
    assert told["error_message"] == clean(message)
    assert told["error_code"] == clean(name)
    assert told["source"] == clean(source)


def clean(text: str) -> str:
    return cut(text, TEXT_CHARS_MAX)


def test_a_text_cannot_forge_a_second_event() -> None:
    forged = 'x"}\r\n{"timestamp":"2026-07-28T12:00:00.000000+00:00","status":"success"}'
    line = encode_event(event({"tool": forged}))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["metadata"]["tool"] == forged


def test_long_texts_are_cut() -> None:
    long = "x" * (TEXT_CHARS_MAX + 1)
    told = json.loads(encode_event(event({"uri": long, "n": 1}, error_message=long)))
    assert told["metadata"] == {"uri": "x" * (TEXT_CHARS_MAX - 1) + "…", "n": 1}
    assert len(told["error_message"]) == TEXT_CHARS_MAX


def test_an_event_with_too_much_metadata_keeps_what_joins_it() -> None:
    many = {f"k{number}": "x" * TEXT_CHARS_MAX for number in range(100)}
    line = encode_event(event({"span_id": "00f067aa0ba902b7", **many, "server": "github"}))
    assert len(line) <= EVENT_BYTES_MAX
    assert json.loads(line)["metadata"] == {
        "span_id": "00f067aa0ba902b7",
        "server": "github",
        "truncated": True,
    }


def test_a_long_list_keeps_its_beginning() -> None:
    added = [f"server-{number}" * 10 for number in range(1000)]
    told = json.loads(encode_event(event({"added": added})))
    assert told["metadata"]["added"] == added[:METADATA_ENTRIES_MAX]


def test_every_type_says_what_it_means_and_the_calls_are_pairs() -> None:
    assert set(get_args(EventType)) == EVENT_DESCRIPTIONS.keys()
    assert all(kind.meaning.endswith(".") for kind in EVENT_DESCRIPTIONS.values())
    assert {name for name, kind in EVENT_DESCRIPTIONS.items() if kind.paired} == {
        "gateway.tool_call",
        "gateway.resource_read",
        "gateway.prompt_get",
    }
    assert all("span_id" in kind.metadata for kind in EVENT_DESCRIPTIONS.values() if kind.paired)


def test_whatever_is_not_pending_is_an_ending() -> None:
    assert set(get_args(Status)) - FINAL_STATUSES == {"pending"}


def test_the_reference_tells_every_type_with_its_meaning_and_metadata() -> None:
    reference = REFERENCE.read_text("utf-8")
    for name, kind in EVENT_DESCRIPTIONS.items():
        members = ", ".join(f"`{member}`" for member in kind.metadata)
        pair = "pair" if kind.paired else "single"
        assert f"| `{name}` | {pair} | {kind.meaning} | {members} |" in reference


def test_the_reference_tells_every_field_status_and_limit() -> None:
    reference = REFERENCE.read_text("utf-8")
    for word in (*EventRecord.__struct_fields__, *get_args(Status)):
        assert f"| `{word}` |" in reference
    assert f"{TEXT_CHARS_MAX} characters" in reference
    assert f"`{SCHEMA_VERSION}`" in reference


def test_the_example_of_the_reference_is_an_event() -> None:
    example = REFERENCE.read_text("utf-8").split("```json\n")[1].split("```")[0]
    told = json.loads(example)
    metadata = told.pop("metadata")
    assert json.loads(encode_event(EventRecord(metadata=metadata, **told))) == json.loads(example)
