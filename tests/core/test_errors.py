"""The table of reasons, pinned number by number, and the content of an error."""

from __future__ import annotations

from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    GrpcStatus,
    Reason,
    Violation,
    internal_error,
    invalid_params,
    task_not_found,
)
from a2a_bridge.testing.each import each

#: the specification's table, 1.0.1 section 5.4, and the JSON-RPC errors: reason, JSON-RPC, gRPC, HTTP
SPECIFIED = """
TASK_NOT_FOUND                      -32001  NOT_FOUND            404
TASK_NOT_CANCELABLE                 -32002  FAILED_PRECONDITION  400
PUSH_NOTIFICATION_NOT_SUPPORTED     -32003  FAILED_PRECONDITION  400
UNSUPPORTED_OPERATION               -32004  FAILED_PRECONDITION  400
CONTENT_TYPE_NOT_SUPPORTED          -32005  INVALID_ARGUMENT     400
INVALID_AGENT_RESPONSE              -32006  INTERNAL             500
EXTENDED_AGENT_CARD_NOT_CONFIGURED  -32007  FAILED_PRECONDITION  400
EXTENSION_SUPPORT_REQUIRED          -32008  FAILED_PRECONDITION  400
VERSION_NOT_SUPPORTED               -32009  FAILED_PRECONDITION  400
PARSE_ERROR                         -32700  INVALID_ARGUMENT     400
INVALID_REQUEST                     -32600  INVALID_ARGUMENT     400
METHOD_NOT_FOUND                    -32601  UNIMPLEMENTED        404
INVALID_PARAMS                      -32602  INVALID_ARGUMENT     400
INTERNAL_ERROR                      -32603  INTERNAL             500
"""

#: reasons of intermediaries; the specification leaves the JSON-RPC number free
HTTP_LEVEL = """
REQUEST_TOO_LARGE   -32600  RESOURCE_EXHAUSTED  413
RESOURCE_EXHAUSTED  -32603  RESOURCE_EXHAUSTED  429
UNAUTHENTICATED     -32603  UNAUTHENTICATED     401
PERMISSION_DENIED   -32603  PERMISSION_DENIED   403
DEADLINE_EXCEEDED   -32603  DEADLINE_EXCEEDED   504
CANCELLED           -32603  CANCELLED           499
UNAVAILABLE         -32603  UNAVAILABLE         503
DATA_LOSS           -32603  DATA_LOSS           500
"""


def table(text: str) -> list[tuple[str, int, str, int]]:
    rows = [line.split() for line in text.strip().splitlines()]
    return [(name, int(code), grpc, int(http)) for name, code, grpc, http in rows]


@each(("name", "code", "grpc", "http"), table(SPECIFIED) + table(HTTP_LEVEL))
def test_each_reason_has_its_three_numbers(name: str, code: int, grpc: str, http: int) -> None:
    reason = Reason[name]
    assert (reason.code, reason.grpc.name, reason.http) == (code, grpc, http)
    assert reason.text


def test_no_reason_is_missing_or_too_many() -> None:
    assert [row[0] for row in table(SPECIFIED) + table(HTTP_LEVEL)] == [reason.name for reason in Reason]
    late = {"DEADLINE_EXCEEDED", "CANCELLED", "UNAVAILABLE", "DATA_LOSS"}
    assert {reason.name for reason in Reason if reason.level == "http"} == {
        row[0] for row in table(HTTP_LEVEL)
    } - late
    assert {reason.name for reason in Reason if reason.level == "call"} == late


def test_texts_tell_the_protocols_errors_apart() -> None:
    texts = [reason.text.lower() for reason in Reason if reason.level == "a2a"]
    assert all(one not in other for one in texts for other in texts if one is not other)


def test_grpc_statuses_are_the_canonical_ones() -> None:
    assert [status.value for status in GrpcStatus] == list(range(17))
    assert (GrpcStatus.NOT_FOUND, GrpcStatus.UNAUTHENTICATED) == (5, 16)


def test_an_error_has_defaults_from_its_reason() -> None:
    error = A2AError(Reason.TASK_NOT_FOUND)
    assert (error.message, error.code, error.name, error.blame) == (
        "Task not found",
        -32001,
        "TASK_NOT_FOUND",
        Blame.CALLER,
    )
    assert (error.violations, error.metadata, error.details, error.retry_after) == ((), {}, (), None)
    assert str(error) == "Task not found"
    assert "TASK_NOT_FOUND" in repr(error)


def test_an_error_keeps_the_details_of_a_peer() -> None:
    error = A2AError(Reason.INTERNAL_ERROR, "x", code=-32050, name="A2A_32050", blame=Blame.PEER)
    assert (error.code, error.name, error.message) == (-32050, "A2A_32050", "x")


def test_an_error_copies_its_arguments() -> None:
    metadata = {"a": "b"}
    error = A2AError(Reason.INTERNAL_ERROR, metadata=metadata)
    metadata["c"] = "d"
    assert error.metadata == {"a": "b"}


def test_short_ways_to_make_errors() -> None:
    wrong = invalid_params("message.parts[0].text", "is too long")
    assert (wrong.reason, wrong.violations) == (
        Reason.INVALID_PARAMS,
        (Violation("message.parts[0].text", "is too long"),),
    )
    assert "message.parts[0].text" in wrong.message
    assert invalid_params("", "whole").message == "whole"
    assert task_not_found("t").metadata == {"taskId": "t"}
    assert (internal_error().reason, internal_error().blame) == (Reason.INTERNAL_ERROR, Blame.SELF)
