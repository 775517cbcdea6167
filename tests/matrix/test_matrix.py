"""Every client to every server, over every transport, for every feature."""

from collections.abc import Callable

import pytest

from tests.matrix import features
from tests.matrix.cells import cell_of
from tests.matrix.features import FEATURES, WORKS, Feature
from tests.matrix.hall import Visit
from tests.matrix.rules import rule_for
from tests.matrix.ways import WAYS, Way
from tools.compatibility import Cell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name.replace(" ", "-"))
@pytest.mark.parametrize("server", WAYS, ids=lambda way: f"to-{way.slug}")
def test_it_works_or_the_caller_gets_what_the_table_says(
    visit: Visit, server: Way, feature: Feature, record: Callable[[Cell], None]
) -> None:
    try:
        got = feature.attempt(features.Cell(visit, server))
    except BaseException:
        visit.begin_anew()
        raise
    rule = rule_for(feature.name, visit.way, server)
    assert got == (WORKS if rule is None else rule.got)
    record(cell_of(feature, visit.way, server))
