"""How far something has come is a number, or nobody's business."""

import pytest

from anyport.protocol.progress import reading


@pytest.mark.parametrize(
    ("params", "number"),
    [
        (b'{"progressToken":1,"progress":5,"total":10}', 5),
        (b'{ "progress" : 0.25, "message":"\\"progress\\":7" }', 0.25),
        (b'{"progress":-1}', -1),
        (b'{"progress":%d}' % 10**30, 10**30),
        (b'{"progress":{"type":"step","progress":50}}', None),
        (b'{"progress":true}', None),
        (b'{"progress":"5"}', None),
        (b'{"progress":null}', None),
        (b'{"vendor":{"progress":5}}', None),
        (b'{"progress":%b}' % (b"[" * 100_000), None),
        (b"[]", None),
    ],
)
def test_only_a_number_counts(params: bytes, number: float | None) -> None:
    assert reading(params) == number
