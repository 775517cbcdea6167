import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.filter import parser as filter_module
from anyport.record.filter.parser import (
    FILTER_CHARS_MAX,
    KEYS,
    BadFilter,
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
    parse_filter,
)
from tests.record.filters import NOON
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds


def only(text: str) -> FilterTerm:
    (term,) = parse_filter(text, NOON).terms
    return term


def values(text: str) -> tuple[Value, ...]:
    return only(text).values


def fault(text: str) -> BadFilter:
    with pytest.raises(BadFilter) as caught:
        parse_filter(text, NOON)
    return caught.value


def marked(text: str) -> str:
    """What the carets stand under."""
    _, line, carets = str(fault(text)).split("\n")
    return line[carets.index("^") : len(carets)]


# What a filter says


def test_a_filter_of_many_terms_is_read() -> None:
    text = (
        "server:github method:tools/call tool:*issue* status:error dur:>1s since:10m"
        ' trace:4bf92f client:cursor text:"rate limit"'
    )
    assert parse_filter(text, NOON) == Filter(
        terms=(
            FilterTerm(key="server", values=(Text("github"),)),
            FilterTerm(key="method", values=(Text("tools/call"),)),
            FilterTerm(key="tool", values=(Glob("*issue*"),)),
            FilterTerm(key="status", values=(Text("failure"), Text("timeout"))),
            FilterTerm(key="dur", values=(NumberComparison(">", 1000),)),
            FilterTerm(key="since", values=(Moment(NOON - 600),)),
            FilterTerm(key="trace", values=(Text("4bf92f"),)),
            FilterTerm(key="client", values=(Text("cursor"),)),
            FilterTerm(key="text", values=(Text("rate limit"),)),
        )
    )


@pytest.mark.parametrize("text", ["", " ", "\t\n "])
def test_an_empty_filter_has_no_terms(text: str) -> None:
    assert parse_filter(text, NOON) == Filter()


def test_bare_words_and_quoted_ones_are_text() -> None:
    rate, limit = parse_filter('rate "the limit"', NOON).terms
    assert rate == FilterTerm(key="text", values=(Text("rate"),))
    assert limit == FilterTerm(key="text", values=(Text("the limit"),))


def test_a_minus_negates() -> None:
    assert only("-server:github") == FilterTerm(
        key="server", negated=True, values=(Text("github"),)
    )
    assert only("-rate").negated
    assert only('-"rate limit"') == FilterTerm(
        key="text", negated=True, values=(Text("rate limit"),)
    )


def test_a_minus_within_a_value_is_a_part_of_it() -> None:
    assert values("server:-a") == (Text("-a"),)
    assert values("code:-32602") == (NumberComparison("=", -32602),)


def test_commas_separate_alternatives() -> None:
    assert values('server:a,"b,c",d*') == (Text("a"), Text("b,c"), Glob("d*"))
    assert values("rate,limit") == (Text("rate"), Text("limit"))


def test_a_value_said_twice_is_there_once() -> None:
    assert values("server:a,b,a") == (Text("a"), Text("b"))
    assert values("status:error,failure") == (Text("failure"), Text("timeout"))


def test_quotes_hold_anything_with_two_escapes() -> None:
    assert values(r'tool:"a \"b\" \\ c, *?"') == (Text(r'a "b" \ c, *?'),)


def test_a_backslash_without_quotes_is_itself() -> None:
    assert values("tool:a\\b") == (Text("a\\b"),)


def test_wildcards_mean_nothing_in_a_text_to_be_looked_for() -> None:
    assert values("text:what?") == (Text("what?"),)


def test_keys_are_known_in_capitals() -> None:
    assert only("Server:a").key == "server"


def test_only_the_first_colon_ends_a_key() -> None:
    assert values("uri:file:///a:b") == (Text("file:///a:b"),)


def test_a_time_of_day_is_text() -> None:
    assert only("10:30") == FilterTerm(key="text", values=(Text("10:30"),))


# Values of each kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dur:>1s", NumberComparison(">", 1000)),
        ("dur:>=1.5S", NumberComparison(">=", 1500)),
        ("dur:<=50", NumberComparison("<=", 50)),
        ("dur:<250us", NumberComparison("<", 0.25)),
        ("dur:=3", NumberComparison("=", 3)),
        ("dur:3", NumberComparison("=", 3)),
        ("dur:100ms..2s", Range(100, 2000)),
        ("dur:5..5", Range(5, 5)),
        ("queue:>1m", NumberComparison(">", 60_000)),
        ("wait:>1h", NumberComparison(">", 3_600_000)),
        ('dur:">1s"', NumberComparison(">", 1000)),
        ("size:>10kb", NumberComparison(">", 10_000)),
        ("size:1KiB..1mib", Range(1024, 1024**2)),
        ("size:512", NumberComparison("=", 512)),
        ("code:-32602", NumberComparison("=", -32602)),
        ("code:<-32000", NumberComparison("<", -32000)),
        ("code:-32099..-32000", Range(-32099, -32000)),
        ("code:ENOENT", Text("ENOENT")),
        ("code:E*", Glob("E*")),
    ],
)
def test_a_number_is_told_in_the_unit_of_its_key(text: str, value: Value) -> None:
    assert values(text) == (value,)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("since:10m", NOON - 600),
        ("until:1h", NOON - 3600),
        ("since:2026-07-28T12:00Z", NOON - 0.25),
        ("since:2026-07-28T14:00+02:00", NOON - 0.25),
        ('since:"2026-07-28 12:00"', NOON - 0.25),
        ("since:999999999y", 0),
        ("since:0001-01-01T00:00+23:59", 0),
        ("until:9999-12-31T23:59:59-23:59", 253_402_300_799),
    ],
)
def test_a_moment_is_a_span_before_now_or_a_date(text: str, at: float) -> None:
    assert values(text) == (Moment(at),)


@given(st.floats(0, 4e9))
def test_a_moment_is_a_whole_number_of_microseconds(now: float) -> None:
    found = parse_filter("since:0s", now)
    assert parse_filter(str(found), 0) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("type:tool_call", Text("gateway.tool_call")),
        ("type:gateway.tool_call", Text("gateway.tool_call")),
        ("type:backend_*", Glob("gateway.backend_*")),
        ("type:*_call", Glob("*_call")),
        ("status:OK", Text("success")),
        ("status:cancelled", Text("cancelled")),
        ("kind:*-notification", Glob("*-notification")),
        ("era:legacy", Text("legacy")),
        ("transport:sse", Text("sse")),
        ("outcome:tool_error", Text("tool_error")),
        ("side:server", Text("server")),
    ],
)
def test_a_word_is_one_of_those_that_its_key_knows(text: str, value: Value) -> None:
    assert values(text) == (value,)


@pytest.mark.parametrize("key", [name for name, key in KEYS.items() if key.kind == "word"])
def test_every_word_of_a_key_can_be_asked_for(key: str) -> None:
    for word in KEYS[key].words:
        assert values(f"{key}:{word}") == (Text(word),)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("4BF92F35-77b3-4da6-a3ce-929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("4bf92f35-77", "4bf92f3577"),
        ("4bf92f35", "4bf92f35"),
        ("run-7", "run-7"),
    ],
)
def test_a_trace_may_be_written_as_a_uuid_or_as_its_beginning(written: str, meant: str) -> None:
    assert values(f"trace:{written}") == (Text(meant),)


# Faults


@pytest.mark.parametrize(
    ("text", "under", "hint"),
    [
        ("status:ok sever:github", "sever", "server"),
        ("durr:>1s", "durr", "dur"),
        ("zzz:1", "zzz", None),
        ("status:sucess", "sucess", "success"),
        ("status:ok,eror", "eror", "error"),
        ("type:toolcall", "toolcall", "gateway.tool_call"),
        ("era:modem", "modem", "modern"),
        ('status:"*"', '"*"', None),
        ("dur:fast", "fast", None),
        ("dur:>", ">", None),
        ("dur:-1", "-1", None),
        ("dur:1..", "1..", None),
        ("dur:1..2..3", "1..2..3", None),
        ("dur:2s..1s", "2s..1s", None),
        ("dur:1sec", "1sec", None),
        ("size:1kbb", "1kbb", "kb"),
        ("code:5ms", "5ms", None),
        ("code:1.5", "1.5", None),
        ("size:9999999gb", "9999999gb", None),
        ("dur:\N{ARABIC-INDIC DIGIT ONE}", "\N{ARABIC-INDIC DIGIT ONE}", None),
        ("since:soon", "soon", None),
        ("since:1h,2h", "1h,", None),
        ("server:", "server:", None),
        ("server: github", "server:", None),
        ("server:a,,b", ",", None),
        ("duration:>1s", "duration", "dur"),
        ("sévér:x", "sévér", None),
        (":x", ":", None),
        ("dur:>1 s", ">1 s", ">1s"),
        ("server:a, b", " ", None),
        ("-", "-", None),
        (", a", ",", None),
        ('text:""', '""', None),
        ('text:"abc', '"abc', None),
        ('text:"ab"c', "c", None),
        ('text:ab"c"', '"', None),
        (r'text:"C:\temp"', r"\t", None),
        ("server:a AND status:ok", "AND", None),
        ("a || b", "||", None),
    ],
)
def test_a_fault_has_carets_under_it_and_the_nearest_word(
    text: str, under: str, hint: str | None
) -> None:
    assert marked(text) == under
    assert fault(text).hint == hint
    assert hint is None or hint in fault(text).message


@pytest.mark.parametrize("text", ['dur:>1 "s"', "dur:>1s s", "dur:>1 kb", "code:5 s"])
def test_a_word_that_is_no_unit_of_the_number_before_it_is_text(text: str) -> None:
    assert [term.key for term in parse_filter(text, NOON).terms][1] == "text"


def test_a_hole_between_values_has_the_caret_under_it() -> None:
    assert fault("server:demo,,rude").at == len("server:demo,")


def test_a_fault_is_told_in_three_lines() -> None:
    assert str(fault("status:ok sever:github")) == (
        "Unknown key. Did you mean server? (Quote a text that contains a colon)\n"
        "status:ok sever:github\n"
        "          ^^^^^"
    )


def test_a_fault_holds_its_facts() -> None:
    found = fault("status:ok sever:github")
    assert (found.text, found.at, found.length) == ("status:ok sever:github", 10, 5)
    assert found.message == str(found).split("\n")[0]


def test_without_a_near_word_all_are_named() -> None:
    assert "success, failure" in fault("status:xyz").message.replace("pending, ", "")
    assert ", ".join(KEYS) in fault("zzz:1").message


def test_carets_stand_right_under_wide_letters() -> None:
    _, line, carets = str(fault('日本 "語')).split("\n")
    assert (line, carets) == ('日本 "語', "     ^^^")


def test_a_fault_in_several_lines_is_told_in_three_all_the_same() -> None:
    _, line, carets = str(fault("a\n\tsever:b")).split("\n")
    assert (line, carets) == ("a  sever:b", "   ^^^^^")


def test_of_a_long_filter_the_part_around_the_fault_is_shown() -> None:
    found = fault(f"{'x' * 300} sever:{'y' * 300}")
    _, line, carets = str(found).split("\n")
    assert len(line) < 110
    assert line.startswith("…x")
    assert line.endswith("y…")
    assert line[carets.index("^") : len(carets)] == "sever"


@pytest.mark.parametrize("odd", ["\0", "\x1b", "\x7f", "\ud800"])
def test_characters_that_cannot_be_looked_for_are_refused(odd: str) -> None:
    found = fault(f'text:"a{odd}"')
    assert found.at == 7
    assert str(found).isprintable() or odd not in str(found)


# Limits


def test_a_filter_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = "x" * filter_module.FILTER_CHARS_MAX
    assert parse_filter(longest, NOON).terms
    assert fault(longest + "x").at == len(longest)


def test_a_filter_may_have_as_many_terms_as_the_limit_and_no_more() -> None:
    most = " ".join("a" * filter_module.TERMS_MAX)
    assert len(parse_filter(most, NOON).terms) == filter_module.TERMS_MAX
    assert marked(most + " b") == "b"


def test_a_term_may_have_as_many_values_as_the_limit_and_no_more() -> None:
    most = ",".join(f"v{n}" for n in range(filter_module.VALUES_MAX))
    assert len(values(f"server:{most}")) == filter_module.VALUES_MAX
    assert marked(f"server:{most},more") == "more"


def test_a_number_may_be_as_large_as_the_limit_and_no_larger() -> None:
    assert values(f"size:{filter_module.NUMBER_MAX}") == (NumberComparison("=", 2**53),)
    assert marked(f"size:{10**400}").startswith("1000")
    assert marked(f"code:<-{2**53 + 2}") == f"<-{2**53 + 2}"


# Whatever is written

PIECES = (
    *(f"{key}:" for key in KEYS),
    *("-", ",", '"', "\\", '\\"', " ", "*", "?", ">", "<=", "=", "..", ":", "1", "9" * 20, "ms"),
    *("kb", "ok", "error", "tool_call", "legacy", "10m", "2026-07-28", "T", "Z", "+23:59", "ä"),
    *("\0", "\ud800", "\u2028", "İ", "AND", "4bf92f35-"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text())
def test_any_text_is_a_filter_or_a_fault_in_three_lines(text: str) -> None:
    try:
        found = parse_filter(text, NOON)
    except BadFilter as bad:
        assert 0 <= bad.at <= len(text)
        message, line, carets = str(bad).split("\n")
        assert message
        assert line.isprintable()
        assert re.fullmatch(r" *\^+", carets)
    else:
        assert parse_filter(str(found), 0) == found


ADVERSARIAL = (
    *("a", " ", "-", ",", '"', "\\", "a,", "a ", '"a" ', "server:", "server:a ", "since:1m ", "*a"),
    *('"\\', '"a', '"\\"', "server:*,", "dur:1", "dur:1..", "dur:1,", "code:-1,", "trace:-"),
    *("trace:a-", "since:1", "since:2026-", "type:a", "status:ok,", "x:", "-a:"),
)
"""Each is repeated, as it is or after its key."""


def test_the_longest_filters_are_parsed_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("TERMS_MAX", "VALUES_MAX"):
        monkeypatch.setattr(filter_module, limit, 10**9)

    def parse_all() -> None:
        for piece in ADVERSARIAL:
            key, _, value = piece.rpartition(":")
            for text in (piece * FILTER_CHARS_MAX, f"{key}:{value * FILTER_CHARS_MAX}"):
                with suppress(BadFilter):
                    str(parse_filter(text[:FILTER_CHARS_MAX], NOON))

    assert cpu_seconds(parse_all) < CPU_SECONDS_MAX
