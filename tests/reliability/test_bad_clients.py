"""Clients that send what no client should: the gateway answers, stays small, and lives on."""

import json
import time
from typing import Final

import pytest

from tests.reliability.conftest import Watch
from tests.rig.client import Client, key_of
from tests.rig.encodings import ENCODINGS
from tests.rig.expensive_messages import LINE_BYTES_MAX, call_line, expensive_messages
from tests.rig.fuzz import frames
from tests.rig.probe import HOSTILE, MIB, answered_before, text_of
from tests.rig.scale import measured, scaled

FUZZED_FRAMES: Final = scaled(2_000, full=10_000)
FUZZ_SEEDS: Final = (1, 2)
ID_PAIRS: Final = scaled(200, full=1_000)
BOMBS: Final = scaled(5, full=50)  # Of each kind.
PEAK_BYTES_MAX: Final = 12 * LINE_BYTES_MAX
"""Ten for a table of as many members as may be, each a name and a value of the interpreter's, and
two for the lines that wait meanwhile."""
STRAY_CANCELS: Final = scaled(1_000, full=10_000)
OVERSIZE_LINE_BYTES: Final = 64 * MIB

CALL_DEPTH: Final = 3
"""Brackets around the value of an argument: the message, its params, its arguments."""


def line_with(client: Client, id: str) -> bytes:
    """The line that answers a request."""
    return next(line for line in client.lines if b'"id":"%b"' % id.encode() in line)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FUZZ_SEEDS)
def test_malformed_frames_are_answered_once_or_not_at_all(watch: Watch, seed: int) -> None:
    with watch({}) as probe:
        client = probe.client
        made = list(frames(seed, FUZZED_FRAMES // len(FUZZ_SEEDS)))
        for at in range(0, len(made), 50):
            client.send(*made[at : at + 50])
            client.request("ping")
        client.wait_settled()
        assert client.idless, "no frame was beyond recognition"
        measured(frames=len(made), beyond_recognition=len(client.idless))


ILLEGAL_IDS: Final = (
    "1.5", "1.0", "1e2", "-0.0", "true", "false", "null", "{}", '{"id":1}', "[]", "[1]", "1E400",
)  # fmt: skip
LEGAL_IDS: Final = (
    "0", "-1", f"{2**53 + 1}", f"{2**63}", f"{2**64}", f"{10**40}", "9" * 1000, '""', '"1"', '"é"',
    '"\\u00e9\\n\\""', '"\\u0000"', '" "', f'"{"x" * 10_000}"',
)  # fmt: skip


@pytest.mark.slow
def test_ids_that_are_no_ids_are_refused_and_all_others_come_back_as_they_were(
    watch: Watch,
) -> None:
    with watch({}) as probe:
        client = probe.client
        for number, id in enumerate(ILLEGAL_IDS, 1):
            client.send(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode())
            client.wait(lambda number=number: len(client.idless) == number, f"refusal of {id}")  # type: ignore[misc]
            assert client.idless[-1]["error"]["code"] == -32600
        for id in LEGAL_IDS:
            raw = id.encode()
            client.send(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % raw)
            assert client.answer(json.loads(raw))["result"] == {}
            assert any(b'"id":%b,' % raw in line for line in client.lines), id


@pytest.mark.slow
def test_an_id_that_is_a_number_is_not_the_string_of_its_digits(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        for first in range(0, ID_PAIRS, 100):
            ids: list[str | int] = []
            for number in range(first, first + 100):
                ids += (number, str(number))
            echoes = [{"name": "bad__echo", "arguments": {"text": repr(id)}} for id in ids]
            client.start_all([("tools/call", params) for params in echoes], ids=ids)
            for id in ids:
                assert text_of(client.answer(id)) == repr(id)


@pytest.mark.slow
def test_an_id_that_is_still_in_use_is_refused_and_the_first_request_is_unharmed(
    watch: Watch,
) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        hold = {"name": "bad__hold", "arguments": {"text": "first"}}
        client.start("tools/call", hold, id="twin")
        client.start("ping", id="twin")
        assert client.answer("twin")["error"]["code"] == -32600
        assert text_of(client.call("bad__release")) == "1"
        assert text_of(client.answer("twin", nth=1)) == "first"


NUMBERS: Final = (
    "0", "-0", "1", "-1", "10", "1.0", "-1.0", "1.10", "0.1", "1e2", "1E2", "1e+2", "1E-2", "-0.0",
    "0e0", "0.0e-0", "1.5e300", "1e400", "-1e400", "1e-400", f"{2**31}", f"{2**53}", f"{2**53 + 1}",
    f"{2**63 - 1}", f"{2**63}", f"{-(2**63)}", f"{2**64 - 1}", f"{2**64}", f"{10**40}",
    "0.30000000000000004", "0.1000000000000000055511151231257827", "123456789012345678901234567890",
    "3.141592653589793238462643383279502884197", "9" * 999, "9" * 1000, "0." + "1" * 1000, "1e0001",
    "100000000000000000000000.5", "-9007199254740993", "2.50",
)  # fmt: skip
TOO_LONG_NUMBERS: Final = ("9" * 1001, "-" + "9" * 5000, "0." + "3" * 1001)
NO_NUMBERS: Final = (
    "NaN", "-NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "1e", "1e+", "--1", "0x10",
    "1_000", "1,5", "1f", "inf", "nan", "٣",
)  # fmt: skip


@pytest.mark.slow
def test_numbers_pass_as_they_are_written_or_not_at_all(watch: Watch) -> None:
    assert len(NUMBERS) == 40
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        for number, literal in enumerate(NUMBERS):
            raw = literal.encode()
            client.send(call_line(f"to-{number}", "bad__mirror", b'{"value":%b}' % raw))
            client.send(call_line(f"from-{number}", "bad__answer_raw", b'{"literal":"%b"}' % raw))
        for number, literal in enumerate(NUMBERS):
            for way in ("to", "from"):
                client.answer(f"{way}-{number}")
                whole = b'"structuredContent":{"value":%b}' % literal.encode()
                assert whole in line_with(client, f"{way}-{number}"), literal
        for literal in TOO_LONG_NUMBERS:
            id = f"long-{len(literal)}"
            client.send(call_line(id, "bad__mirror", b'{"value":%b}' % literal.encode()))
            assert client.answer(id)["error"]["code"] == -32600
        for literal in NO_NUMBERS:
            before = len(client.idless)
            client.send(call_line("none", "bad__mirror", b'{"value":%b}' % literal.encode()))
            client.wait(lambda: len(client.idless) > before, f"refusal of {literal}")  # noqa: B023
            assert client.idless[-1]["error"]["code"] == -32700, literal
            answer = client.call("bad__answer_raw", literal=literal)
            assert "bad" in answer["error"]["message"], literal


@pytest.mark.slow
def test_depth_is_allowed_up_to_the_limit_and_costs_nothing_beyond(watch: Watch) -> None:
    def nested(depth: int) -> bytes:
        inner = depth - CALL_DEPTH
        return b'{"value":%b}' % (b"[" * inner + b"]" * inner)

    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        client.send(call_line("128", "bad__mirror", nested(128)))
        assert "result" in client.answer("128")
        with probe.peak(5 * MIB):
            for depth in (129, 1_000, 100_000):
                client.send(call_line(f"{depth}", "bad__mirror", nested(depth)))
                assert client.answer(f"{depth}")["error"]["code"] == -32600
            client.send(b"[" * 100_000, b'{"a":' * 100_000)
            client.wait(lambda: len(client.idless) == 2, "refusal of what never closes")


@pytest.mark.slow
def test_a_bomb_costs_less_than_parsing_it_would(watch: Watch) -> None:
    """The yardstick is what this machine's own parser takes for the worst of them."""
    before = time.process_time()
    json.loads(expensive_messages()["arrays of nothing"].partition(b'"value":')[2][:-3])
    parse_seconds = time.process_time() - before
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        # The decoder remembers names it has seen, a fixed number of them, wherever they lie.
        probe.growth_bytes_max = scaled(32, full=48) * MIB
        worst = 0.0
        for kind, bomb in expensive_messages().items():
            spent = probe.cpu_seconds()
            with probe.peak(PEAK_BYTES_MAX):
                for number in range(BOMBS):
                    client.owe(f"{kind} {number}")
                    client.write(bomb.replace(b"@", b"%b %d" % (kind.encode(), number), 1) + b"\n")
                client.request("ping")
            spent = (probe.cpu_seconds() - spent) / BOMBS
            assert spent < parse_seconds, f"{kind}: {spent:.3f} s each"
            worst = max(worst, spent)
        measured(parse_ms=round(1e3 * parse_seconds, 1), worst_ms=round(1e3 * worst, 1))
        client.wait_settled()


@pytest.mark.slow
def test_what_is_not_utf8_json_is_refused_and_never_reaches_a_server(watch: Watch) -> None:
    assert len(ENCODINGS) >= 200
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        for number, (name, line) in enumerate(ENCODINGS.items()):
            before = len(client.idless)
            client.send(line.replace(b"@", b"e%d" % number))
            client.request("ping")
            answers = [*client.idless[before:], *client.answers.get(key_of(f"e{number}"), [])]
            assert len(answers) == 1, name
            assert answers[0]["error"]["code"] in (-32700, -32600), name
        seen = json.loads(text_of(client.call("bad__report")))
        assert seen["unsound"] == 0


@pytest.mark.slow
def test_text_of_every_script_reaches_a_server_as_it_is(watch: Watch) -> None:
    texts = ("é", "\u2028\u2029", "\U0010ffff", "\ufeff", "\x7f\x85", "\ufffe", "\u202eabc")
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        for number, text in enumerate(texts):
            for escaped in (True, False):
                raw = json.dumps(text, ensure_ascii=escaped)
                id = f"{number}-{escaped}"
                client.send(call_line(id, "bad__mirror", b'{"value":%b}' % raw.encode()))
                client.answer(id)
                assert b'{"value":%b}' % raw.encode() in line_with(client, id)
        client.send(call_line("nul", "bad__mirror", b'{"value":"\\u0000"}'))
        assert client.answer("nul")["result"]["structuredContent"] == {"value": "\0"}


@pytest.mark.slow
def test_lines_are_cut_right_however_they_arrive(watch: Watch) -> None:
    ping = b'{"jsonrpc":"2.0","id":"%b","method":"ping"}'
    with watch({}) as probe:
        client = probe.client
        client.account(ping % b"crlf")
        client.write(ping % b"crlf" + b"\r\n")
        client.answer("crlf")
        client.send(ping % b"one", ping % b"two", b"", b"  ", ping % b"three")
        for id in ("one", "two", "three"):
            client.answer(id)
        client.account(ping % b"drop by drop")
        with client.alone():
            for byte in ping % b"drop by drop" + b"\n":
                client.write(bytes([byte]))
        client.answer("drop by drop")
        client.account(ping % b"unfinished")
        with client.alone():
            client.write((ping % b"unfinished")[:20])
            time.sleep(0.01)  # Not to wait for anything: only so that it arrives in two reads.
            client.write((ping % b"unfinished")[20:] + b"\n")
        client.answer("unfinished")


@pytest.mark.slow
def test_an_oversize_line_is_refused_and_the_next_one_answered(watch: Watch) -> None:
    with watch({}) as probe:
        client = probe.client
        with probe.peak(2 * LINE_BYTES_MAX), client.alone():
            client.owe("huge")
            client.write(b'{"jsonrpc":"2.0","id":"huge","method":"ping","params":{"x":"')
            for _ in range(OVERSIZE_LINE_BYTES // MIB):
                client.write(b"x" * MIB)
            client.write(b'"}}\n')
            client.start("ping", id="next")
            client.answer("next")
        refusal = client.answer("huge")["error"]
        assert refusal["code"] == -32600
        assert f"{LINE_BYTES_MAX}" in refusal["message"]
        assert answered_before(client, "huge", "next")


@pytest.mark.slow
def test_a_message_of_exactly_the_limit_passes_and_one_byte_more_does_not(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        for size in (LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1):
            empty = call_line(f"{size}", "bad__mirror", b'{"value":""}')
            value = b"y" * (size - len(empty))
            client.send(call_line(f"{size}", "bad__mirror", b'{"value":"%b"}' % value))
            answer = client.answer(f"{size}")
            if size <= LINE_BYTES_MAX:
                assert answer["result"]["structuredContent"]["value"] == value.decode()
            else:
                assert answer["error"]["code"] == -32600


@pytest.mark.slow
def test_a_last_request_without_a_newline_is_answered(watch: Watch) -> None:
    line = b'{"jsonrpc":"2.0","id":"last words","method":"ping"}'
    with watch({}) as probe:
        probe.parting = line
    assert probe.client.answers[key_of("last words")][0]["result"] == {}


WRONG_CANCELS: Final = (
    b'{"requestId":"unknown-%d"}', b'{"requestId":-%d}', b'{"requestId":%d.0}',
    b'{"requestId":%de0}', b'{"requestId":"%d"}', b'{"requestId":null}', b'{"requestId":true}',
    b'{"requestId":["held-0"]}', b'{"requestId":{"id":"held-0"}}', b'{"requestid":"held-0"}', b"{}",
    b'["held-0"]', b'{"requestId":"done"}', b'{"requestId":"HELD-0"}', b'{"requestId":"held-0 "}',
    b'{"requestId":"unknown","reason":{"a":[%d]}}', b'{"reason":"held-0"}', b"null", b'"held-0"',
    b'{"requestId":"held-0","requestId":"held-1"}',
)  # fmt: skip


@pytest.mark.slow
def test_cancelling_what_is_not_there_harms_nobody_and_is_not_answered(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        held: list[str | int] = [1, *(f"held-{number}" for number in range(20)), 7]
        client.start("ping", id="done")
        hold = [{"name": "bad__hold", "arguments": {"text": repr(id)}} for id in held]
        client.start_all([("tools/call", params) for params in hold], ids=held)
        for number in range(STRAY_CANCELS):
            params = WRONG_CANCELS[number % len(WRONG_CANCELS)]
            params = params % (number % 10) if b"%d" in params else params
            client.write(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":%b}\n' % params
            )
        client.request("ping")
        assert client.idless == []
        assert text_of(client.call("bad__release")) == f"{len(held)}"
        for id in held:
            assert text_of(client.answer(id)) == repr(id)


@pytest.mark.slow
def test_a_cancelled_call_is_not_answered_and_its_neighbours_are(watch: Watch) -> None:
    with watch({"bad": HOSTILE}) as probe:
        client = probe.client
        calls = [client.start_call("bad__hold", text=f"{number}") for number in range(40)]
        client.cancel(*calls[::2])
        client.cancel(*calls[::2])
        seen = json.loads(text_of(client.call("bad__report")))
        assert seen["cancelled"] == 20
        assert text_of(client.call("bad__release")) == "40"
        for number, call in enumerate(calls):
            if number % 2:
                assert text_of(client.answer(call)) == f"{number}"
            else:
                assert not client.answered(call)
