import pytest

from anyport.upstream.progress import read_report

NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'


@pytest.mark.parametrize(
    "params",
    [
        b'{"progressToken":7,"progress":1.50,"total":2,"message":"half \\u00e9"}',
        b'{"progress":1,"progressToken":7}',
        b'{ "progressToken" : 7 }',
    ],
)
def test_a_report_is_read_with_its_params_as_they_are(params: bytes) -> None:
    assert read_report(NOTE % params) == (7, params)


@pytest.mark.parametrize(
    "raw",
    [
        NOTE % b'{"progressToken":"7"}',
        NOTE % b'{"progress":1}',
        NOTE % b"[7]",
        NOTE % b'{"progressToken":7',
        NOTE % b'{"progressToken":7}' + b" ",
        (NOTE % b'{"progressToken":7}')[:-1] + b"]",
        NOTE % b'{"progressToken":7},"x":{}',
        NOTE % (b'{"progressToken":7,"x":%b}' % (b'{"a":' * 130 + b"1" + b"}" * 130)),
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":7}}',
    ],
)
def test_what_is_written_in_another_way_is_left_to_others(raw: bytes) -> None:
    assert read_report(raw) is None
