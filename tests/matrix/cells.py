"""The cells of the matrix as the page tells them."""

from collections.abc import Iterator

from tests.matrix.features import FEATURES, Feature
from tests.matrix.rules import rule_for
from tests.matrix.ways import TRANSPORTS, WAYS, Way
from tools.compatibility import Cell, Party
from tools.compatibility import Feature as Told


def every_cell() -> Iterator[Cell]:
    """All that a run without a failure comes to."""
    for client in WAYS:
        for server in WAYS:
            for feature in FEATURES:
                yield cell_of(feature, client, server)


def cell_of(feature: Feature, client: Way, server: Way) -> Cell:
    """One cell that came out as its rule says."""
    rule = rule_for(feature.name, client, server)
    return Cell(
        client=_party(client),
        server=_party(server),
        feature=Told(place=FEATURES.index(feature), name=feature.name, about=feature.about),
        note=None if rule is None else rule.sentence,
    )


def _party(way: Way) -> Party:
    return Party(revision=way.revision, transport=TRANSPORTS[way.transport])
