"""Headers as service parameters, deadlines, versions and media types."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.testing.each import each
from a2a_bridge_transports._http import parameters
from a2a_bridge_transports._http.exchange import HttpStatusError
from a2a_bridge_transports._http.parameters import HeaderParameters
from tests.rejections import rejected


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def test_headers_are_parameters() -> None:
    seen = HeaderParameters(headers(("A2A-Extensions", "a"), ("X-One", "1"), ("a2a-extensions", "b, c")))
    assert seen["a2a-extensions"] == "a,b, c"
    assert "x-one" in seen
    assert seen.get("x-two") is None
    assert (dict(seen), len(seen)) == ({"a2a-extensions": "a,b, c", "x-one": "1"}, 2)
    assert CallContext(parameters=seen).extensions == ("a", "b", "c")


@each(
    ("pairs", "query", "version"),
    [
        ([], "", ""),
        ([("a2a-version", "1.0")], "", "1.0"),
        ([("A2A-Version", "1.0")], "A2A-Version=0.3", "1.0"),
        ([], "a2a-VERSION=1.0", "1.0"),
        ([("A2A-Version", "")], "x=1&A2A-Version=1.0", "1.0"),
        ([], "A2A-Version=", ""),
        ([], "a2a%2Dversion=1.0", "1.0"),
        ([("A2A-Version", "1.0"), ("a2a-version", "0.3")], "", "1.0,0.3"),
        ([], "A2A-Version=1.0&a2a-version=0.3", "1.0,0.3"),
    ],
)
def test_the_version_of_a_request(pairs: list[tuple[str, str]], query: str, version: str) -> None:
    assert parameters.read_version(headers(*pairs), query) == version


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("0.25", 0.25), (" 1 ", 1.0), ("0", 0.0)])
def test_deadlines(text: str, seconds: float) -> None:
    assert parameters.deadline_of(headers(("request-timeout", text)), 100.0) == 100.0 + seconds


@each("texts", [*("", "x", "-1", "1e3", "nan", "inf", "1,5", "9" * 20, "\u0661"), ("5", "6")])
def test_deadlines_that_are_none(texts: str | tuple[str, ...]) -> None:
    pairs = [("Request-Timeout", one) for one in ([texts] if isinstance(texts, str) else texts)]
    with rejected(Reason.INVALID_REQUEST):
        parameters.deadline_of(headers(*pairs), 0.0)


@pytest.mark.parametrize(
    "media",
    ["application/json", "Application/JSON; charset=UTF-8", "application/a2a+json", "application/x+json;v=1"],
)
def test_json_bodies(media: str) -> None:
    parameters.check_content_type(headers(("Content-Type", media)))


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", "json"],
)
def test_other_bodies(media: str) -> None:
    with pytest.raises(HttpStatusError) as caught:
        parameters.check_content_type(headers(("Content-Type", media)))
    assert caught.value.status == 415


def test_a_body_may_keep_its_type_to_itself() -> None:
    parameters.check_content_type(headers())


@each("value", ["a\r\nb", "a\nb", "a\rb", "a\0b", "a\x7fb", "a\ud800"])
@each("where", ["parameters", "context"])
def test_nothing_ends_a_header_early(value: str, where: str) -> None:
    options = DialOptions(parameters={"x-a": value} if where == "parameters" else {})
    context = CallContext(parameters={} if where == "parameters" else {"authorization": value})
    with rejected(Reason.INVALID_PARAMS):
        parameters.request_headers(V1_0, context, options, 0.0)
    with pytest.raises(ValueError, match="x-a"):
        parameters.reply_headers({"x-a": value})


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "connection", "x y", "", "x:y", "é"])
def test_names_that_replies_cannot_use(name: str) -> None:
    with pytest.raises(ValueError, match="response header"):
        parameters.reply_headers({name: "1"})


def test_reply_parameters_in_their_usual_variant() -> None:
    assert parameters.reply_headers({"a2a-extensions": "a, b", "x-id": "é"}) == (
        ("A2A-Extensions", "a, b"),
        ("x-id", "é"),
    )


def test_forwarded_parameters() -> None:
    context = CallContext(
        parameters={
            "a2a-version": "0.3",
            "a2a-extensions": "a,b",
            "authorization": "Bearer caller",
            "traceparent": "00-x",
            "cookie": "secret",
            "host": "elsewhere",
        },
        deadline=105.0,
    )
    options = DialOptions(parameters={"authorization": "Bearer own", "content-length": "5"})
    assert parameters.request_headers(V1_0, context, options, 100.0) == {
        "A2A-Version": "1.0",
        "a2a-extensions": "a,b",
        "authorization": "Bearer own",
        "traceparent": "00-x",
        "Request-Timeout": "5.000000",
    }


def test_extensions_travel_even_when_nothing_else_does() -> None:
    context = CallContext(parameters={"a2a-extensions": "a", "authorization": "x"})
    sent = parameters.request_headers(V1_0, context, DialOptions(forward=frozenset()), 0.0)
    assert sent == {"A2A-Version": "1.0", "a2a-extensions": "a"}


def test_a_deadline_in_the_past_is_zero() -> None:
    sent = parameters.request_headers(V1_0, CallContext(deadline=1.0), DialOptions(), 5.0)
    assert sent["Request-Timeout"] == "0.000000"


def test_response_parameters() -> None:
    assert parameters.response_parameters(headers(("a2a-extensions", "x"), ("server", "y")), V1_0) == {
        "a2a-extensions": "x"
    }
    assert parameters.response_parameters(headers(("server", "y")), V1_0) == {}
