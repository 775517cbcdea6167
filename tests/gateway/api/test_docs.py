"""The page about the API names what there is, and nothing else."""

import re
from pathlib import Path

from anyport.gateway.api.openapi import OPERATIONS
from anyport.gateway.api.prometheus import read, render
from anyport.gateway.api.stream import FOLLOWERS_MAX, FOLLOWERS_OF_ONE_MAX
from anyport.observe import metrics as module
from anyport.observe.metrics import OTHER_LABEL, TOOL_NAMES_MAX, HistogramFamily
from tests.gateway.api.fakes import FakeGateway

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "api.md").read_text("utf-8")


def test_every_path_is_on_the_page() -> None:
    assert re.findall(r"^\| `(/[^`]*)` \|", PAGE, re.MULTILINE) == list(OPERATIONS)


def test_every_metric_is_on_the_page_with_its_type(gateway: FakeGateway) -> None:
    text = render(read(gateway)).decode()
    made = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \| (histogram|gauge|counter) \|", PAGE, re.MULTILINE)

    ours = {name: kind for name, kind in made.items() if not name.startswith("process_")}
    assert dict(rows) == ours


def test_the_labels_of_a_histogram_are_on_the_page() -> None:
    families = [value for value in vars(module).values() if isinstance(value, HistogramFamily)]
    assert len(families) == 5
    for family in families:
        [cell] = re.findall(rf"^\| `{family.prometheus_name}` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
        assert tuple(re.findall(r"`(\w+)`", cell)) == family.labels


def test_the_numbers_on_the_page_are_ours() -> None:
    assert f"After {TOOL_NAMES_MAX} tools `{OTHER_LABEL}`" in PAGE
    assert (
        f"At most {FOLLOWERS_MAX} can follow at a time, and\n{FOLLOWERS_OF_ONE_MAX} with one"
        in PAGE
    )
