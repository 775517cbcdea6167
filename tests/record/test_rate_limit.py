from anyport.record.rate_limit import RateLimiter


def test_everybody_gets_their_share_in_each_second() -> None:
    ration = RateLimiter(3)

    assert ration.acquire("a", 2, 1.0) == 2
    assert ration.acquire("a", 2, 1.9) == 1
    assert ration.acquire("a", 2, 1.9) == 0
    assert ration.acquire("b", 5, 1.9) == 3
    assert ration.acquire("a", 2, 2.0) == 2
