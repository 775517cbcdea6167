"""What the end of a call says."""

from anyport.upstream.sign import Postponed
from anyport.wire.frame import Failure


def test_an_error_that_says_when_is_an_error_like_any_other() -> None:
    answer = Postponed(b"1", b'{"code":1,"message":"later"}', 3.0)

    match answer:
        case Failure(id=id, error=error):
            assert (id, error) == (b"1", b'{"code":1,"message":"later"}')
    assert answer.retry_after == 3.0
