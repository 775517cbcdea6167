"""The state that a client carries and must not alter."""

import pytest

from anyport.demo.sealing import STATE_SECONDS_MAX, Seal


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_state_fits_the_request_it_was_made_for() -> None:
    seal = Seal(b"key", Clock())

    state = seal.state_for(b"request")

    assert seal.fits(state, b"request")
    assert not seal.fits(state, b"another request")
    assert not Seal(b"another key", Clock()).fits(state, b"request")


def test_a_state_expires() -> None:
    clock = Clock()
    seal = Seal(b"key", clock)
    state = seal.state_for(b"request")

    clock.now += STATE_SECONDS_MAX - 1
    assert seal.fits(state, b"request")
    clock.now += 1
    assert not seal.fits(state, b"request")


@pytest.mark.parametrize("state", ["", ".", "x", "9999999999.", "9999999999.00", "١٢٣.ab", "é.é"])
def test_a_state_from_elsewhere_does_not_fit(state: str) -> None:
    assert not Seal(b"key", Clock()).fits(state, b"request")


def test_a_later_deadline_cannot_be_written_into_a_state() -> None:
    seal = Seal(b"key", Clock())
    deadline, proof = seal.state_for(b"request").split(".")

    assert not seal.fits(f"{int(deadline) + 1}.{proof}", b"request")
    assert not seal.fits(f"0{deadline}.{proof}", b"request")
