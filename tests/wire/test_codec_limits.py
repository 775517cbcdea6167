"""What one message may hold, and in which bytes: everything beyond is refused, and quickly."""

import time

import pytest

from anyport.wire.codec import INBOUND, Bounds, decode
from anyport.wire.frame import BadFrame, Request

PARSE_ERROR, INVALID = -32700, -32600
NUMBERS = [
    b"0", b"-0", b"1", b"-1", b"7", b"255", b"256", b"65536", b"2147483647", b"2147483648",
    b"4294967296", b"9007199254740991", b"9007199254740992", b"9007199254740993",
    b"-9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551615", b"18446744073709551616",
    b"1" + b"0" * 40, b"-" + b"9" * 100, b"8" * 1000, b"0.1", b"0.10", b"1.0", b"-0.0", b"1.50",
    b"3.141592653589793238462643383279502884197", b"0.1e1", b"1e3", b"1E3", b"1e+3", b"1e-3",
    b"5e-324", b"1e308", b"1e999", b"1.7976931348623157e309", b"-1e-999",
]  # fmt: skip
NOT_JSON = [
    b"NaN", b"Infinity", b"-Infinity", b"01", b"1.", b".5", b"+1", b"0x1", b"1e", b"-", b"--1",
    b"nul", b"True", b"'a'", b"[1,]", b'{"a"}', b'{"a":1,}', b"/**/1", b"", b'"a\nb"', b'"\0"',
    rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud800x"', rb'"\q"', rb'"\u12"',
]  # fmt: skip


def request_with(id: bytes = b"1", params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (id, params)


def refused(frame: object) -> BadFrame:
    assert isinstance(frame, BadFrame), frame
    return frame


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_passes_with_every_digit(number: bytes) -> None:
    assert decode(request_with(params=b'{"n":%b}' % number)) == Request(
        b"1", "tools/call", b'{"n":%b}' % number
    )


@pytest.mark.parametrize("value", NOT_JSON)
def test_what_json_does_not_know_is_a_parse_error(value: bytes) -> None:
    assert refused(decode(request_with(params=b'{"n":%b}' % value))).code == PARSE_ERROR


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_only_plain_utf8_is_read(encoding: str) -> None:
    raw = request_with().decode().encode(encoding)

    assert refused(decode(raw)).code == PARSE_ERROR


@pytest.mark.parametrize(
    "broken", [b"\xff", b"\x80", b"\xc0\xaf", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
def test_broken_utf8_is_a_parse_error_even_in_a_payload_nobody_reads(broken: bytes) -> None:
    bad = refused(decode(request_with(params=b'{"text":"%b"}' % broken)))

    assert bad.code == PARSE_ERROR
    assert "UTF-8" in bad.message


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_128_levels_pass_and_129_do_not(start: bytes, end: bytes) -> None:
    def nested(levels: int) -> bytes:
        return request_with(b"9", b'{"a":%b1%b}' % (start * (levels - 2), end * (levels - 2)))

    assert isinstance(decode(nested(128)), Request)
    bad = refused(decode(nested(129)))
    assert (bad.code, bad.id) == (INVALID, b"9")
    assert "128" in bad.message


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000]
)
def test_a_hundred_thousand_levels_are_refused(raw: bytes) -> None:
    assert refused(decode(raw)).code in (INVALID, PARSE_ERROR)


def test_brackets_and_digits_in_text_are_only_text() -> None:
    text = rb"\"\\" + b"[{" * 5000 + b"7" * 5000
    params = b'{"text":"%b"}' % text

    assert decode(request_with(params=params)) == Request(b"1", "tools/call", params)


def test_commas_in_text_are_no_values() -> None:
    table = b'{"csv":"%b"}' % (b"1," * INBOUND.nodes_max)

    assert isinstance(decode(request_with(params=table)), Request)


@pytest.mark.parametrize("bomb", [b"[" + b"[]," * 200_000 + b"[]]", b"[" + b"0," * 200_000 + b"0]"])
def test_more_values_than_anybody_needs_are_refused(bomb: bytes) -> None:
    bad = refused(decode(request_with(b"3", b'{"a":%b}' % bomb)))

    assert (bad.code, bad.id) == (INVALID, b"3")
    assert "200000 values" in bad.message


def test_a_number_of_a_thousand_digits_passes_and_a_longer_one_does_not() -> None:
    assert isinstance(decode(request_with(params=b'{"n":%b}' % (b"1" * 1000))), Request)

    bad = refused(decode(request_with(b"4", b'{"n":%b}' % (b"1" * 1001))))

    assert (bad.code, bad.id) == (INVALID, b"4")


def test_a_message_over_the_size_is_refused_without_a_look_inside() -> None:
    small = Bounds(bytes_max=100, depth_max=5, nodes_max=10)

    assert isinstance(decode(request_with(params=b'{"a":"%b"}' % (b"x" * 30)), small), Request)
    bad = refused(decode(b"\xff" * 101, small))
    assert bad.code == INVALID
    assert "101 bytes" in bad.message


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 129 + b'"' + rb"\"" * 1_000_000,
        b"[" * 129 + b'"' + rb"\"" * 1_000_000 + b"\\",
        b"[" * 129 + b'"\\' * 1_000_000,
        (b"1" * 1000 + b"x") * 2000,
        b'"' * 2_000_000,
        b"{" * 2_000_000,
        b'{"a":' + b'[{"b":[]}],' * 150_000,
        b" " * 2_000_000,
        b"{" + b" " * 2_000_000,
        b'{"a":1 ,' * 2 + b'"a" :' + b" " * 2_000_000,
    ],
)
def test_no_message_costs_more_than_its_length(raw: bytes) -> None:
    began = time.process_time()

    assert isinstance(decode(raw), BadFrame)

    # What is linear takes hundredths of a second; what is quadratic would take minutes.
    assert time.process_time() - began < 2
