from anyport.record.ration import Ration


def test_everybody_gets_their_share_in_each_second() -> None:
    ration = Ration(3)

    assert ration.take("a", 2, 1.0) == 2
    assert ration.take("a", 2, 1.9) == 1
    assert ration.take("a", 2, 1.9) == 0
    assert ration.take("b", 5, 1.9) == 3
    assert ration.take("a", 2, 2.0) == 2
