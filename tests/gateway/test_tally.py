from anyport.gateway.tally import Tally


def test_what_follows_happens_once_when_everything_has() -> None:
    happened: list[int] = []
    tally = Tally(lambda: happened.append(1))
    first, second = tally.expect(), tally.expect()

    first()
    first()
    tally.close()
    assert happened == []
    second()
    second()
    tally.give_up()

    assert happened == [1]


def test_with_nothing_to_wait_for_it_happens_at_once() -> None:
    happened: list[int] = []
    Tally(lambda: happened.append(1)).close()

    assert happened == [1]


def test_who_has_waited_long_enough_goes_on() -> None:
    happened: list[int] = []
    tally = Tally(lambda: happened.append(1))
    late = tally.expect()
    tally.close()

    tally.give_up()
    late()

    assert happened == [1]
