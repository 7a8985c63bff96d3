"""The pure part of the gRPC binding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.core.errors import A2AError, Blame, GrpcStatus, Reason, Violation
from a2a_bridge.dialects import GRPC, V1_0, ErrorReply
from a2a_bridge.testing.each import each
from a2a_bridge.testing.samples import every_error
from a2a_bridge_transports.grpc import wire

FORM = V1_0.form(GRPC)
assert FORM is not None


@pytest.mark.parametrize(
    ("metadata", "parameters"),
    [
        (None, {}),
        ((), {}),
        ((("a2a-version", "1.0"),), {"a2a-version": "1.0"}),
        ((("x", "1"), ("y", "2"), ("x", "3")), {"x": "1,3", "y": "2"}),
        ((("trace-bin", b"\x00"), ("x", "1")), {"x": "1"}),
    ],
)
def test_metadata_becomes_parameters(metadata: object, parameters: object) -> None:
    assert wire.parameters_of(metadata) == parameters  # type: ignore[arg-type]


def test_parameters_become_metadata() -> None:
    assert wire.metadata_of({"A2A-Version": "1.0", "x.y_z-1": "a b~"}) == (
        ("a2a-version", "1.0"),
        ("x.y_z-1", "a b~"),
    )


@each("name", ["", "a b", "é", "x:y", "grpc-timeout", "trace-bin", ":path", "a\n"])
def test_names_that_metadata_cannot_have(name: str) -> None:
    with pytest.raises(ValueError, match="metadata"):
        wire.metadata_of({name: "v"})


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\n", "\x00", "é", "\x7f", "\t"])
def test_values_that_metadata_cannot_have_are_not_repeated(value: str) -> None:
    with pytest.raises(ValueError, match="'x'") as caught:
        wire.metadata_of({"x": f"secret{value}"})
    assert "secret" not in str(caught.value)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,9}x", fullmatch=True), st.text(max_size=20)))
def test_metadata_comes_back(parameters: dict[str, str]) -> None:
    try:
        pairs = wire.metadata_of(parameters)
    except ValueError:
        assert any(
            not all(" " <= character <= "~" for character in value) or name.startswith("grpc-")
            for name, value in parameters.items()
        )
    else:
        assert wire.parameters_of(pairs) == parameters


@each(
    ("url", "name", "secure"),
    [
        ("localhost:50051", "localhost:50051", None),
        ("agent.example:443", "agent.example:443", True),
        ("[::1]:50051", "[::1]:50051", None),
        ("http://agent.example:8080", "agent.example:8080", False),
        ("http://agent.example:8080/", "agent.example:8080", False),
        ("http://agent.example", "agent.example:80", False),
        ("https://agent.example", "agent.example:443", True),
        ("HTTPS://[::1]:8443/", "[::1]:8443", True),
        ("grpc://agent.example:1", "agent.example:1", False),
        ("grpcs://agent.example:1", "agent.example:1", True),
        ("dns:///agent.example:1", "dns:///agent.example:1", None),
        ("unix:/run/agent.sock", "unix:/run/agent.sock", None),
        ("ipv4:127.0.0.1:1", "ipv4:127.0.0.1:1", None),
    ],
)
def test_targets(url: str, name: str, secure: bool | None) -> None:
    found = wire.target_of(url)
    assert (found.name, found.secure) == (name, secure)


@each(
    "url",
    [
        "",
        "agent.example",
        "grpcx://agent.example:1",
        "http://agent.example:1/a2a",
        "http://user@agent.example:1",
        "http://agent.example:1?x=1",
        "http://agent.example:1#x",
        "agent.example:port",
        "agent.example:99999",
        ":8080",
        "http://",
        "[::1",
    ],
)
def test_urls_that_are_no_targets(url: str) -> None:
    with pytest.raises(ValueError):
        wire.target_of(url)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("as it is, é ✓ 100%", "as it is, é ✓ 100%"),
        ("a\r\nb\x00c\x7fd\u2028e", "a b c d e"),
        ("a\ud800b", "a b"),
        ("x" * 1000, "x" * wire.MAX_TEXT),
        ("✓" * 1000, "✓" * (wire.MAX_TEXT // 3)),
    ],
)
def test_status_texts(text: str, plain: str) -> None:
    assert wire.plain_text(text) == plain


@each("error", every_error())
def test_an_error_survives(error: A2AError) -> None:
    status, text, trailers = wire.status_of(error, FORM.encode_error)
    assert status == error.reason.grpc
    got = FORM.decode_error(wire.error_reply(status, text, trailers))
    assert (got.reason, got.message, got.violations) == (error.reason, error.message, error.violations)
    assert (got.metadata, list(got.details)) == (error.metadata, list(error.details))


@pytest.mark.parametrize(
    "error",
    [
        A2AError(Reason.INVALID_PARAMS, "m" * 9000),
        A2AError(Reason.INVALID_PARAMS, violations=[Violation("f" * 300, "d" * 3000)] * 50),
        A2AError(Reason.INVALID_PARAMS, metadata={"k": "v" * 9000}),
        A2AError(Reason.INVALID_PARAMS, details=[{"@type": "x/y", "text": "t" * 9000}]),
    ],
)
def test_an_error_of_any_size_fits_into_trailers(error: A2AError) -> None:
    status, text, trailers = wire.status_of(error, FORM.encode_error)
    assert len(text.encode()) <= wire.MAX_TEXT
    assert sum(len(value) for _, value in trailers) <= wire.MAX_DETAILS
    got = FORM.decode_error(wire.error_reply(status, text, trailers))
    assert got.reason is error.reason
    assert got.message.startswith(error.message[:100])
    assert len(got.violations) == min(8, len(error.violations))


def test_a_status_without_details_is_decoded_from_its_number() -> None:
    reply = wire.error_reply(GrpcStatus.UNAUTHENTICATED, "who are you", (("x", "1"), ("y-bin", b"2")))
    assert reply == ErrorReply(GrpcStatus.UNAUTHENTICATED, None, "who are you")
    assert wire.error_reply(2, None, None) == ErrorReply(2, None, "")


@pytest.mark.parametrize(
    ("reply", "unconnected"),
    [
        (ErrorReply(14, None, "failed to connect to all addresses; last error: …"), True),
        (ErrorReply(14, None, "errors resolving nosuch.example:1: …"), True),
        (ErrorReply(14, None, "DNS resolution failed for nosuch.example:1"), True),
        (ErrorReply(14, None, "Socket closed"), False),
        (ErrorReply(14, b"", "failed to connect to all addresses"), False),
    ],
)
def test_unconnected(reply: ErrorReply[bytes], unconnected: bool) -> None:
    assert wire.says_unconnected(reply) is unconnected


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (8, "SERVER: Received message larger than max (3 vs. 1)", Reason.REQUEST_TOO_LARGE),
        (8, "grpc: received message larger than max (3 vs. 1)", Reason.REQUEST_TOO_LARGE),
        (8, "CLIENT: Received message larger than max (3 vs. 1)", Reason.INVALID_AGENT_RESPONSE),
        (8, "quota", None),
        (13, "received message larger than max", None),
    ],
)
def test_too_large(status: int, text: str, reason: Reason | None) -> None:
    error = wire.too_large(ErrorReply(status, None, text))
    assert (error and error.reason) is reason
    assert error is None or error.blame is Blame.PEER


@each(
    ("status", "text", "is_broken"),
    [
        (GrpcStatus.UNKNOWN, "Stream removed (sendmsg: Broken pipe (32))", True),
        (GrpcStatus.INTERNAL, "Received RST_STREAM with error code 2", True),
        (GrpcStatus.INTERNAL, "Stream removed (RST_STREAM (Received RST_STREAM with error code 2))", True),
        (GrpcStatus.INTERNAL, "Stream removed (Error parsing 'grpc-status' metadata)", False),
        (GrpcStatus.CANCELLED, "CANCELLED", True),
        (GrpcStatus.CANCELLED, "Stream removed (RST_STREAM (Received RST_STREAM with error code 8))", True),
        (GrpcStatus.CANCELLED, "as you wished", False),
        (GrpcStatus.UNKNOWN, "Exception iterating responses: stream removed", False),
        (GrpcStatus.INTERNAL, "stream removed", False),
        (GrpcStatus.UNAVAILABLE, "Stream removed", False),
    ],
)
def test_broken_connections_over_grpc(status: GrpcStatus, text: str, is_broken: bool) -> None:
    error = wire.broken_error(ErrorReply(int(status), None, text))
    assert (error is not None) is is_broken
    if error is not None:
        assert (error.reason, error.blame) == (Reason.UNAVAILABLE, Blame.PEER)
    # A peer's own words, with details, are not gRPC's.
    assert wire.broken_error(ErrorReply(int(status), b"details", text)) is None
