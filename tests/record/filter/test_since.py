import pytest

from anyport.record.filter.since import parse_since

NOW = 1_785_240_000.0  # 2026-07-28T12:00:00Z


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30s", NOW - 30),
        ("15m", NOW - 900),
        ("24h", NOW - 86_400),
        ("7d", NOW - 7 * 86_400),
        ("2w", NOW - 14 * 86_400),
        ("1y", NOW - 365 * 86_400),
        ("0s", NOW),
        (" 15m ", NOW - 900),
        ("2026-07-28T12:00:00Z", NOW),
        ("2026-07-28T12:00:00", NOW),
        ("2026-07-28T12:00:00.250000+00:00", NOW + 0.25),
        ("2026-07-28T14:00:00+02:00", NOW),
        ("2026-07-28 12:00", NOW),
        ("2026-07-28", NOW - 12 * 3600),
    ],
)
def test_a_time_is_understood(text: str, moment: float) -> None:
    assert parse_since(text, NOW) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "15",
        "m",
        "-5m",
        "1.5h",
        "15 m",
        "5M",
        "\u0661\u0665m",
        "9999999999d",
        "2026-13-01",
        "1h\n2",
    ],
)
def test_what_is_no_time_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Not a time: .* 15m.* 2026-07-28T12:00:00Z\.$"):
        parse_since(text, NOW)


def test_a_refusal_does_not_repeat_a_long_text() -> None:
    with pytest.raises(ValueError, match="Not a time") as refusal:
        parse_since("x" * 1_000_000, NOW)
    assert len(str(refusal.value)) < 200
