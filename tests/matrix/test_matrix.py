"""Every client to every server, over every transport, for every feature."""

from collections.abc import Callable

import pytest

from tests.matrix import features
from tests.matrix.cells import cell_of
from tests.matrix.endpoints import ENDPOINTS, Endpoint
from tests.matrix.environment import MatrixClients
from tests.matrix.exceptions import rule_for
from tests.matrix.features import FEATURES, WORKS, Feature
from tools.compatibility import Cell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name.replace(" ", "-"))
@pytest.mark.parametrize("server", ENDPOINTS, ids=lambda endpoint: f"to-{endpoint.slug}")
def test_it_works_or_the_caller_gets_what_the_table_says(
    clients: MatrixClients, server: Endpoint, feature: Feature, record: Callable[[Cell], None]
) -> None:
    try:
        got = feature.attempt(features.Cell(clients, server))
    except BaseException:
        clients.begin_anew()
        raise
    rule = rule_for(feature.name, clients.endpoint, server)
    assert got == (WORKS if rule is None else rule.got)
    record(cell_of(feature, clients.endpoint, server))
