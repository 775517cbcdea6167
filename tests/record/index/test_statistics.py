"""Statistics."""

from anyport.record.index.statistics import StatCounter, sort_stats


def test_groups_come_in_order_and_what_has_no_server_first() -> None:
    groups = [("b", "s", "t"), ("a", "s", None), ("a", None, None), ("a", "s", "t")]
    stats = sort_stats([(group, StatCounter()) for group in groups])
    assert [(stat.event_type, stat.server, stat.target) for stat in stats] == [
        *(("a", None, None), ("a", "s", None), ("a", "s", "t"), ("b", "s", "t"))
    ]


def test_percentiles_are_values_that_did_occur() -> None:
    counter = StatCounter()
    counter.durations_ms.extend([5.0, 1.0, 3.0])
    stat = counter.to_stat(("a", None, None))
    assert (stat.mean_ms, stat.p50_ms, stat.p95_ms) == (3.0, 3.0, 5.0)


def test_nothing_measured_is_no_zero() -> None:
    stat = StatCounter().to_stat(("a", None, None))
    assert (stat.mean_ms, stat.p50_ms, stat.p95_ms) == (None, None, None)
