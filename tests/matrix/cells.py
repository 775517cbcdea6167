"""The cells of the matrix as the page tells them."""

from collections.abc import Iterator

from tests.matrix.endpoints import ENDPOINTS, TRANSPORTS, Endpoint
from tests.matrix.exceptions import rule_for
from tests.matrix.features import FEATURES, Feature
from tools.compatibility import Cell, Peer
from tools.compatibility import Feature as Told


def every_cell() -> Iterator[Cell]:
    """All that a run without a failure comes to."""
    for client in ENDPOINTS:
        for server in ENDPOINTS:
            for feature in FEATURES:
                yield cell_of(feature, client, server)


def cell_of(feature: Feature, client: Endpoint, server: Endpoint) -> Cell:
    """One cell that came out as its rule says."""
    rule = rule_for(feature.name, client, server)
    return Cell(
        client=_peer(client),
        server=_peer(server),
        feature=Told(place=FEATURES.index(feature), name=feature.name, about=feature.about),
        note=None if rule is None else rule.sentence,
    )


def _peer(endpoint: Endpoint) -> Peer:
    return Peer(revision=endpoint.revision, transport=TRANSPORTS[endpoint.transport])
