"""The page about telemetry is true: its keys, variables, names and examples are ours."""

import json
import re
from pathlib import Path

import pytest

from anyport.config import load
from anyport.config.telemetry import TELEMETRY_KEYS
from anyport.observe import metrics
from anyport.observe.metrics import HistogramFamily
from anyport.observe.telemetry import spans_of
from tests.docs.test_docs import PACKAGE, fences, text_of
from tests.record.recorded import exchange

PAGE = text_of("docs/guides/telemetry.md")
FAMILIES = [each for each in vars(metrics).values() if isinstance(each, HistogramFamily)]


@pytest.mark.parametrize("body", fences("docs/guides/telemetry.md", "toml"))
def test_an_example_loads_and_switches_telemetry_on(tmp_path: Path, body: str) -> None:
    file = tmp_path / "anyport.toml"
    file.write_text(body)
    assert load([file], {"OTLP_TOKEN": "x"}).telemetry.enabled


@pytest.mark.parametrize("key", TELEMETRY_KEYS)
def test_a_key_is_on_the_page(key: str) -> None:
    assert f"| `{key}` |" in PAGE


def test_every_variable_that_is_read_is_on_the_page() -> None:
    code = "".join(path.read_text("utf-8") for path in PACKAGE.glob("observe/*.py"))
    read = set(re.findall(r'"(OTEL_\w+)"', code))
    assert len(read) >= 7
    assert {name for name in read if f"`{name}`" not in PAGE} == set()


def test_every_metric_is_on_the_page() -> None:
    assert len(FAMILIES) == 5
    named = {*(family.name for family in FAMILIES), "anyport.telemetry.dropped"}
    assert set(re.findall(r"^\| `([a-z.]+)` \| s? ?\|", PAGE, re.MULTILINE)) == named


def test_every_attribute_of_a_span_is_on_the_page() -> None:
    told: set[str] = set()
    for changes in (
        {},
        {"cached": True},
        {"method": "prompts/get", "tool": None, "prompt": "p"},
        {"method": "resources/read", "tool": None, "uri": "a:b"},
        {"event": {"status": "failure", "error_code": -32602}},
    ):
        for span in spans_of(json.dumps(exchange(**changes)).encode(), 1.0):
            told |= span.attributes.keys()
    assert len(told) >= 16
    assert {name for name in told if f"`{name}`" not in PAGE} == set()
