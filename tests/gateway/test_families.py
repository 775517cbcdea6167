"""The histograms, as those who read them call them."""

import pytest

from anyport.gateway.families import OPERATION, OVERHEAD, REQUEST, Family, histograms
from anyport.gateway.metrics import Metrics


@pytest.mark.parametrize(
    ("family", "labels"),
    [
        (OVERHEAD, ("mcp_method_name",)),
        (REQUEST, ("mcp_method_name", "server", "gen_ai_tool_name", "error_type")),
    ],
)
def test_labels_are_attributes_without_our_name(family: Family, labels: tuple[str, ...]) -> None:
    assert family.labels == labels


def test_what_is_read_does_not_change_any_more() -> None:
    metrics = Metrics(lambda: 0.0)
    call = ("ping", "dev", "2025-06-18", "tcp", "", "", "")
    metrics.called(call, 1.0, None)
    before = histograms(metrics)
    metrics.called(call, 1.0, None)

    assert [family for family, _ in before][:1] == [OPERATION]
    [(_, counts)] = dict(before)[OPERATION]
    assert (sum(counts[:-1]), counts[-1]) == (1, 1.0)
