"""Errors as 1.0 encodes them on each binding (spec 1.0.1 sections 9.5, 10.6, 11.6).

Decoding is tolerant: ErrorInfo.reason first, because five errors share one status; then the JSON-RPC number;
then the text, which is the only indication from some peers; the bare status last.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from a2a_bridge.codec import EncodeError, dumps
from a2a_bridge.core.errors import DOMAIN, A2AError, Blame, GrpcStatus, Reason, Violation
from a2a_bridge.dialects.dialect import ErrorReply
from a2a_bridge.dialects.v1_0 import details as any_details

_BY_NAME = {reason.name: reason for reason in Reason}
BY_CODE = {reason.code: reason for reason in reversed(Reason)}
BY_CODE[Reason.INVALID_REQUEST.code] = Reason.INVALID_REQUEST
BY_CODE[Reason.INTERNAL_ERROR.code] = Reason.INTERNAL_ERROR
#: a2a-go's numbers for errors without a JSON-RPC number (v2.3.1, internal/jsonrpc/jsonrpc.go, lines 84, 85)
BY_CODE |= {-31401: Reason.UNAUTHENTICATED, -31403: Reason.PERMISSION_DENIED}
#: names of reasons in SDKs that differ from the specification; they are forwarded with these names
_ALIASES = {
    "INTERNAL": Reason.INTERNAL_ERROR,  # a2a-java 1.2.0
    "UNAUTHORIZED": Reason.PERMISSION_DENIED,  # a2a-go v2.3.1, a2a/errors.go, line 110
    # a2a-lf 0.4.2, src/errors.rs, line 61, reads both
    "UNSUPPORTED_CONTENT_TYPE": Reason.CONTENT_TYPE_NOT_SUPPORTED,
    "EXTENDED_CARD_NOT_CONFIGURED": Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED,  # the same, line 65
}
BY_TEXT = {reason.text.lower(): reason for reason in Reason if reason.level == "a2a"}

BY_GRPC = {
    GrpcStatus.CANCELLED: Reason.CANCELLED,
    GrpcStatus.INVALID_ARGUMENT: Reason.INVALID_PARAMS,
    GrpcStatus.DEADLINE_EXCEEDED: Reason.DEADLINE_EXCEEDED,
    GrpcStatus.NOT_FOUND: Reason.TASK_NOT_FOUND,
    GrpcStatus.PERMISSION_DENIED: Reason.PERMISSION_DENIED,
    GrpcStatus.RESOURCE_EXHAUSTED: Reason.RESOURCE_EXHAUSTED,
    GrpcStatus.FAILED_PRECONDITION: Reason.UNSUPPORTED_OPERATION,
    GrpcStatus.ABORTED: Reason.TASK_GENERATION_MISMATCH,
    GrpcStatus.UNIMPLEMENTED: Reason.METHOD_NOT_FOUND,
    GrpcStatus.UNAVAILABLE: Reason.UNAVAILABLE,
    GrpcStatus.DATA_LOSS: Reason.DATA_LOSS,
    GrpcStatus.UNAUTHENTICATED: Reason.UNAUTHENTICATED,
}

#: levels of reasons that share a JSON-RPC number
_SHARING = ("http", "call")

#: a JSON-RPC number in the metadata of an ErrorInfo; at most 32 bits
_NUMBER = re.compile(r"-?[0-9]{1,10}")

#: the longest google.protobuf.Duration in seconds
_LONGEST = 315_576_000_000

#: 409 and 415 are the statuses in 1.0.0 of two errors that 1.0.1 sends with 400
BY_HTTP = {
    400: Reason.INVALID_REQUEST,
    401: Reason.UNAUTHENTICATED,
    403: Reason.PERMISSION_DENIED,
    404: Reason.METHOD_NOT_FOUND,
    405: Reason.METHOD_NOT_FOUND,
    408: Reason.DEADLINE_EXCEEDED,
    409: Reason.TASK_NOT_CANCELABLE,
    413: Reason.REQUEST_TOO_LARGE,
    415: Reason.CONTENT_TYPE_NOT_SUPPORTED,
    429: Reason.RESOURCE_EXHAUSTED,
    499: Reason.CANCELLED,
    501: Reason.UNSUPPORTED_OPERATION,
    502: Reason.UNAVAILABLE,
    503: Reason.UNAVAILABLE,
    504: Reason.DEADLINE_EXCEEDED,
}


def encode_jsonrpc(error: A2AError) -> ErrorReply[Any]:
    """The JSON-RPC error object; HTTP 200, except for errors found before JSON-RPC (level "http")."""
    body = {
        "code": error.code,
        "message": error.message,
        "data": json_details(error) + build_underlying(error),
    }
    return ErrorReply(error.reason.jsonrpc_http, body)


def encode_http_json(error: A2AError) -> ErrorReply[Any]:
    """google.rpc.Status as JSON under `error` (spec 11.6)."""
    reason = error.reason
    body = {
        "error": {
            "code": reason.http,
            "status": reason.grpc.name,
            "message": error.message,
            "details": json_details(error),
        }
    }
    return ErrorReply(reason.http, body)


def encode_grpc(error: A2AError) -> ErrorReply[bytes]:
    """A serialized google.rpc.Status for `grpc-status-details-bin` (spec 10.6)."""
    status = any_details.status(error.reason.grpc, error.message, json_details(error))
    return ErrorReply(int(error.reason.grpc), status)


def decode_jsonrpc(reply: ErrorReply[Any]) -> A2AError:
    """A JSON-RPC error object, or an HTTP error without one."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    code = number_of(body.get("code"))
    data = body.get("data")
    if isinstance(data, list) and all(isinstance(item, Mapping) and "@type" in item for item in data):
        details = data
    else:
        details = [] if data is None else [any_details.value(data)]
    message = text_of(body.get("message"))
    if code is None:
        fallback = BY_HTTP.get(reply.status, Reason.INTERNAL_ERROR)
        return from_details(message, details, fallback=fallback, peer_text=reply.text)
    reason = by_shared_number(code, reply.status) or BY_CODE.get(code)
    return from_details(message, details, code=code, by_code=reason)


def decode_http_json(reply: ErrorReply[Any]) -> A2AError:
    """An `error` object, a problem+json document (older examples of the specification), or a bare status."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        details = any_details.list_objects(inner)
        message = text_of(inner.get("message"))
        name = text_of(inner.get("status"))
        fallback = BY_GRPC.get(GrpcStatus[name]) if name in GrpcStatus.__members__ else None
        # NOT_FOUND is a missing task as well as a missing path; only the body of an agent distinguishes them.
        return from_details(message, details, fallback=fallback or BY_HTTP.get(reply.status))
    if type(body.get("code")) is int and body["code"] < 0:
        return decode_jsonrpc(reply)  # a bare JSON-RPC error: a2a-server-lf 0.5.3, src/sse.rs, line 37
    message = text_of(body.get("detail")) or text_of(body.get("message")) or text_of(body.get("title"))
    return from_details(message, [], fallback=BY_HTTP.get(reply.status), peer_text=reply.text)


def decode_grpc(reply: ErrorReply[bytes]) -> A2AError:
    """A google.rpc.Status, or a bare status and its message."""
    status, message, details = read_grpc(reply)
    if status is GrpcStatus.UNKNOWN and not details:
        # The response of servers to an exception in their code, often with its text.
        return from_details("", [], peer_text=message)
    return from_details(message, details, fallback=BY_GRPC.get(status))


def by_shared_number(code: int, http_status: int) -> Reason | None:
    """The reason of the HTTP status beside a JSON-RPC number that several reasons share; else None."""
    reason = BY_HTTP.get(http_status)
    shared = reason is not None and reason.level in _SHARING and reason.code == code
    return reason if shared else None


def read_grpc(reply: ErrorReply[bytes]) -> tuple[GrpcStatus, str, list[Any]]:
    """Status, message and details of a response over gRPC."""
    message, details = any_details.parse_status(reply.body) if reply.body else ("", [])
    status = GrpcStatus(reply.status) if reply.status in set(GrpcStatus) else GrpcStatus.UNKNOWN
    return status, message or reply.text, details


def json_details(error: A2AError) -> list[Any]:
    """All content of an error besides its message, as ProtoJSON of Any; the ErrorInfo is the first."""
    info = {
        "@type": any_details.ERROR_INFO,
        "reason": error.name,
        "domain": error.metadata.get("domain", DOMAIN) if error.name not in _BY_NAME else DOMAIN,
        "metadata": error.metadata,
    }
    if not error.metadata:
        del info["metadata"]
    found: list[Any] = [info]
    if error.violations:
        fields = [{"field": item.field, "description": item.description} for item in error.violations]
        found.append({"@type": any_details.BAD_REQUEST, "fieldViolations": fields})
    if error.retry_after is not None:
        found.append({"@type": any_details.RETRY_INFO, "retryDelay": f"{error.retry_after:.3f}s"})
    found.extend(map(_carriable, error.details))
    return found


def build_underlying(error: A2AError) -> list[Any]:
    """A second ErrorInfo with the reason of an error of another name, if number and status do not show it."""
    if error.name in _BY_NAME or error.reason.level != "call":
        return []
    return [{"@type": any_details.ERROR_INFO, "reason": error.reason.name, "domain": DOMAIN}]


#: maximum depth of a detail that is forwarded; some readers have a far lower limit than writers
_DEEPEST = 200
_LEFT_OUT = any_details.value("a detail that JSON cannot carry was left out")


def _carriable(detail: Mapping[str, Any]) -> Mapping[str, Any]:
    """The detail; a note in its place if it is too deep or no JSON, so that the error stays the same."""
    try:
        dumps(dict(detail))
    except EncodeError:
        return _LEFT_OUT
    return detail if _within(detail, _DEEPEST) else _LEFT_OUT


def _within(tree: Any, levels: int) -> bool:
    if isinstance(tree, Mapping):
        return levels > 0 and all(_within(one, levels - 1) for one in tree.values())
    if isinstance(tree, (list, tuple)):
        return levels > 0 and all(_within(one, levels - 1) for one in tree)
    return True


def from_details(
    message: str,
    details: list[Any],
    *,
    code: int | None = None,
    by_code: Reason | None = None,
    fallback: Reason | None = None,
    peer_text: str = "",
    texts: Mapping[str, Reason] = BY_TEXT,
) -> A2AError:
    """The error of a peer's response.

    texts: lower-case texts that identify a reason if nothing more reliable does.
    peer_text: text of the peer outside of any error format, such as an HTML page or a stack trace. It may
    identify the reason but is kept only as a note on the exception, which no binding sends.
    """
    info, beneath, violations, retry_after, rest = _sort(details)
    name = text_of(info.get("reason"))
    if name in _ALIASES:
        name = _ALIASES[name].name
    raw = info.get("metadata")
    metadata = {str(key): _metadatum(value) for key, value in raw.items()} if isinstance(raw, Mapping) else {}
    # Our clients store the progress of a call under this key; the peer's value is ignored.
    metadata.pop("phase", None)
    if code is None and name.startswith("A2A_") and _NUMBER.fullmatch(metadata.get("code", "")):
        code = int(metadata["code"])
        by_code = BY_CODE.get(code)
    by_name = _BY_NAME.get(name) or _BY_NAME.get(name.removesuffix("_ERROR")) or beneath
    reason = by_name or by_code or _by_text(message or peer_text, texts) or fallback
    if reason in (Reason.INTERNAL_ERROR, Reason.INVALID_PARAMS) and not name:
        # Peers that use one number for everything still identify the error in the text.
        reason = _by_text(message, texts) or reason
    if code is not None and by_name is None and code not in BY_CODE:
        name = name or f"A2A_{abs(code)}"
        metadata.setdefault("code", str(code))
    if name not in _BY_NAME and text_of(info.get("domain")) not in ("", DOMAIN):
        metadata.setdefault("domain", info["domain"])
    error = A2AError(
        reason or Reason.INTERNAL_ERROR,
        message,
        violations=violations,
        metadata=metadata,
        details=rest,
        code=code if code not in BY_CODE else None,
        name=name,
        blame=Blame.PEER,
        retry_after=retry_after,
    )
    if peer_text:
        error.add_note(f"the peer said: {peer_text[:500]}")
    return error


def _sort(
    details: list[Any],
) -> tuple[Mapping[str, Any], Reason | None, list[Violation], float | None, list[Mapping[str, Any]]]:
    info: Mapping[str, Any] = {}
    beneath: Reason | None = None
    violations: list[Violation] = []
    retry_after: float | None = None
    rest: list[Mapping[str, Any]] = []
    for detail in details:
        kind = text_of(detail.get("@type")).rpartition("/")[2]
        if kind == "google.rpc.ErrorInfo" and not info:
            info = detail
        elif (
            kind == "google.rpc.ErrorInfo"
            and detail.get("domain") == DOMAIN
            and text_of(info.get("reason")) not in _BY_NAME
        ):  # If A2A does not define the reason of an ErrorInfo, a second one has A2A's reason.
            beneath = beneath or _BY_NAME.get(text_of(detail.get("reason")))
        elif kind == "google.rpc.BadRequest" and isinstance(detail.get("fieldViolations"), list):
            violations += [
                Violation(text_of(item.get("field")), text_of(item.get("description")))
                for item in detail["fieldViolations"]
                if isinstance(item, Mapping)
            ]
        elif kind == "google.rpc.RetryInfo" and _seconds(detail.get("retryDelay")) is not None:
            retry_after = _seconds(detail.get("retryDelay"))
        else:
            rest.append(detail)
    return info, beneath, violations, retry_after, rest


def _by_text(message: str, texts: Mapping[str, Reason]) -> Reason | None:
    lowered = message.lower()
    return next((reason for text, reason in texts.items() if text in lowered), None)


def text_of(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int | None:
    """The value if it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _metadatum(value: Any) -> str:
    # Some peers send values of other types, although the schema has only strings.
    if isinstance(value, str):
        return value
    try:
        return dumps(value).decode()
    except EncodeError:
        return "too deep to be shown"


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(text_of(value).removesuffix("s"))
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) and seconds <= _LONGEST else None
