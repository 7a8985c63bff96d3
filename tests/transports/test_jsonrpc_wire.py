"""JSON-RPC frames: valid ones, and the errors and ids of rejected ones."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.errors import Reason
from a2a_bridge.testing.each import each
from a2a_bridge_transports.jsonrpc import wire
from tests.rejections import rejected
from tests.transports.http_scene import frame

#: half a surrogate pair, with which another parser reads the request
PARAMS = pytest.mark.parametrize("params", [r'{"a":"x"}', r'{"a":"\ud800"}'])


@PARAMS
@pytest.mark.parametrize(
    "token",
    [
        '"a"',
        '""',
        "0",
        "-7",
        "null",
        "18446744073709551616",
        "-123456789012345678901234567890",
        '"é\\n"',
        "9" * wire.MAX_ID,
        "-" + "9" * (wire.MAX_ID - 1),
        '"%s"' % ("x" * (wire.MAX_ID - 2)),
    ],
)
def test_ids_come_back(token: str, params: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{token},"method":"M","params":{params}}}'
    parsed = wire.parse(body.encode())
    assert json.loads(parsed.id) == json.loads(token)
    assert parsed[1:] == ("M", json.loads(params), True)


@PARAMS
@pytest.mark.parametrize(
    "token",
    [
        "1.5",
        "1.0",
        "1e2",
        "true",
        "[]",
        "{}",
        "1" + "0" * wire.MAX_ID,
        "-1" + "0" * (wire.MAX_ID - 1),
        "9" * 5000,
        '"%s"' % ("x" * (wire.MAX_ID - 1)),
    ],
)
def test_ids_that_are_none(token: str, params: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{token},"method":"M","params":{params}}}'
    with pytest.raises(wire.MalformedRequestError) as caught:
        wire.parse(body.encode())
    assert caught.value.error.reason is Reason.INVALID_REQUEST
    assert caught.value.id == b"null"


@each(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{} x",
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":01}',
        b'"\xff"',
        b'{"a":"\\ud800}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1.5,"method":"M","params":{"a":' + b"[" * 600 + b"]" * 600 + b"}}",
    ],
)
def test_invalid_json(body: bytes) -> None:
    with pytest.raises(wire.MalformedRequestError) as caught:
        wire.parse(body)
    assert caught.value.error.reason is Reason.PARSE_ERROR
    assert caught.value.id == b"null"


@each(
    ("body", "reason", "id_"),
    [
        (b"[]", Reason.INVALID_REQUEST, b"null"),
        (b"[" + frame("GetTask") + b"]", Reason.INVALID_REQUEST, b"null"),
        (b"1", Reason.INVALID_REQUEST, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"M"}', Reason.INVALID_REQUEST, b"null"),
        (b"null", Reason.INVALID_REQUEST, b"null"),
        (b'{"id":1,"method":"M"}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":"1.0","id":1,"method":"M"}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":2.0,"id":1,"method":"M"}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":"2.0","id":1}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":""}', Reason.INVALID_REQUEST, b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', Reason.INVALID_REQUEST, b"1"),
    ],
)
def test_invalid_requests(body: bytes, reason: Reason, id_: bytes) -> None:
    with pytest.raises(wire.MalformedRequestError) as caught:
        wire.parse(body)
    assert caught.value.error.reason is reason
    assert caught.value.id == id_


def test_params_may_be_absent_or_null() -> None:
    assert wire.parse(frame("M")).params is None
    assert wire.parse(b'{"jsonrpc":"2.0","id":1,"method":"M","params":null}').params is None


def test_of_duplicate_keys_the_last_counts() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"A","method":"B","params":{"a":1,"a":2}}'
    assert wire.parse(body) == (b"2", "B", {"a": 2}, True)


def test_a_request_without_an_id_differs_from_one_with_null() -> None:
    assert wire.parse(b'{"jsonrpc":"2.0","method":"M"}') == (b"null", "M", None, False)
    assert wire.parse(b'{"jsonrpc":"2.0","id":null,"method":"M"}') == (b"null", "M", None, True)


def test_unknown_members_are_ignored() -> None:
    assert wire.parse(frame("M", traceparent="x")).method == "M"


def test_integers_of_64_bits_survive() -> None:
    number = 2**64 - 1
    assert wire.parse(frame("M", {"n": number})).params == {"n": number}
    assert wire.answer(wire.result(b"1", {"n": number})).result == {"n": number}


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'"x"', b"null", b"[" * 100_000])
def test_invalid_responses(data: bytes) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        wire.answer(data)


def test_a_result_of_null_is_a_result() -> None:
    assert wire.answer(b'{"jsonrpc":"2.0","id":1,"result":null}').complete
    assert not wire.answer(b'{"jsonrpc":"2.0","id":1}').complete


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@given(
    st.one_of(st.integers(), st.text(max_size=100), st.none()),
    st.text(min_size=1),
    st.dictionaries(st.text(), JSON),
)
def test_frames_round_trip(id_: object, method: str, params: dict[str, object]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()
    parsed = wire.parse(body)
    assert (json.loads(parsed.id), parsed.method, parsed.params) == (id_, method, params)
    assert json.loads(wire.result(parsed.id, params)) == {"jsonrpc": "2.0", "id": id_, "result": params}
    assert json.loads(wire.request(5, method, params)) == {
        "jsonrpc": "2.0",
        "id": 5,
        "method": method,
        "params": params,
    }


@given(st.binary(max_size=100))
def test_garbage_is_malformed_and_nothing_else(body: bytes) -> None:
    with suppress(wire.MalformedRequestError):
        assert wire.parse(body).method
