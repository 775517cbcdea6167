"""What of the matrix is tried on every change."""

from itertools import product

from tests.matrix.conftest import chosen_features
from tests.matrix.endpoints import ENDPOINTS
from tests.matrix.features import FEATURES


def test_every_two_of_client_server_and_feature_meet() -> None:
    endpoints, features = range(len(ENDPOINTS)), range(len(FEATURES))
    chosen = {(c, s, f) for c, s in product(endpoints, endpoints) for f in chosen_features(c, s)}

    assert {(c, s) for c, s, _ in chosen} == {*product(endpoints, endpoints)}
    assert {(c, f) for c, _, f in chosen} == {*product(endpoints, features)}
    assert {(s, f) for _, s, f in chosen} == {*product(endpoints, features)}
    # Each client meets every server and every feature: no smaller selection does.
    assert len(chosen) == len(ENDPOINTS) * max(len(ENDPOINTS), len(FEATURES))
