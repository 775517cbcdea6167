"""What is known of a call before it is made, and what may come of it."""

from anyport.protocol.errors import Situation
from anyport.upstream.call import OWN, Call, Concern, Form, unkept
from anyport.upstream.sign import Again, Sign


def test_a_form_is_filled_with_an_id_and_arguments() -> None:
    form = Form("echo", b'{"id":%d,"arguments":%b}', reports=False)

    assert form.fill(7, b'{"a":1}') == b'{"id":7,"arguments":{"a":1}}'


def test_one_that_asks_for_progress_names_the_id_as_its_token() -> None:
    form = Form("echo", b'{"id":%d,"arguments":%b,"token":%d}', reports=True)

    assert form.fill(7, b"{}") == b'{"id":7,"arguments":{},"token":7}'


def test_what_the_gateway_asks_for_itself_concerns_nobody() -> None:
    assert Concern() == OWN
    assert OWN.who is None


def test_two_calls_are_never_the_same() -> None:
    calls = [Call("ping", lambda _: None) for _ in range(2)]

    assert calls[0] != calls[1]
    assert len(set(calls)) == 2


def test_an_answer_that_could_not_be_kept_is_not_asked_for_again() -> None:
    lost = unkept(1000)

    assert lost.situation is Situation.OVERLOADED
    assert lost.reason == "1000 bytes; the call was carried out"
    assert (lost.sign, lost.again) == (Sign.GOOD, Again.NEVER), "the server did its work"
