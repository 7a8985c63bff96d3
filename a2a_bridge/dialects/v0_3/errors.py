"""Errors as 0.3 encodes them on each binding (spec 0.3.0, section 8). Their details are the same as in 1.0.

The text of 0.3 defines numbers and default messages. For HTTP+JSON and gRPC the format follows the servers of
that version: their own HTTP statuses, their own gRPC statuses, the name of the type beside or before the
message. Rules:

1. Outgoing errors contain everything that the hub's error contains. JSON-RPC gets `data` only if number and
   message would be read as another error, so that an error of 0.3 passes unchanged; the other bindings always
   get the details of 1.0.
2. `data` of any JSON type is one detail, a google.protobuf.Value, and becomes bare `data` again. Details of
   1.0 are a list, which some callers of 0.3 cannot read: they get `{"details": […]}` (shape_jsonrpc).
3. For incoming errors the order of precedence is: ErrorInfo.reason; the name of a type at the start of the
   message; the number; a default message; the status, together with the requested operation where one status
   stands for several errors.
4. Errors of requests name members as the caller wrote them, in either shape of 0.x; inside they have the
   names of the hub.
"""

import contextlib
import re
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import VERSION_PARAMETER
from a2a_bridge.core.errors import A2AError, GrpcStatus, Reason
from a2a_bridge.dialects.dialect import ErrorReply, MemberNames, Rule, renaming
from a2a_bridge.dialects.v1_0 import details as any_details
from a2a_bridge.dialects.v1_0 import errors as current
from a2a_bridge.peers import ErrorData, caller


class _Variant(NamedTuple):
    """How 0.3 encodes one reason."""

    #: the name of its type if the hub has another
    name: str = ""
    #: its default message if the hub has another; each is replaced by the other in transit
    text: str = ""
    #: its HTTP status if the hub has another
    http: int = 0
    #: its gRPC status if the hub has another. Chosen so that SDKs that use the status read the right error,
    #: or the nearest one that they know: JavaScript 0.3.14 (client/transports/grpc, mapToError) and Go 0.3.15
    #: (internal/grpcutil/errors.go). Python and Java use the name
    grpc: GrpcStatus | None = None
    #: the gRPC status with which servers in Python and Java send it, if it is another one
    python: GrpcStatus | None = None


_UNIMPLEMENTED = GrpcStatus.UNIMPLEMENTED
_DIFFERENCES: Mapping[Reason, _Variant] = {
    Reason.TASK_NOT_CANCELABLE: _Variant(http=409, python=_UNIMPLEMENTED),
    Reason.PUSH_NOTIFICATION_NOT_SUPPORTED: _Variant(http=501, grpc=_UNIMPLEMENTED),
    Reason.UNSUPPORTED_OPERATION: _Variant(http=501, grpc=_UNIMPLEMENTED),
    Reason.CONTENT_TYPE_NOT_SUPPORTED: _Variant(http=415, python=_UNIMPLEMENTED),
    Reason.INVALID_AGENT_RESPONSE: _Variant(http=502),
    Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED: _Variant(
        "AuthenticatedExtendedCardNotConfiguredError",
        text="Authenticated Extended Card is not configured",
        http=404,
    ),
    Reason.EXTENSION_SUPPORT_REQUIRED: _Variant(grpc=_UNIMPLEMENTED),
    Reason.VERSION_NOT_SUPPORTED: _Variant(grpc=_UNIMPLEMENTED),
    Reason.PARSE_ERROR: _Variant(text="Invalid JSON payload", python=GrpcStatus.INTERNAL),
    Reason.INVALID_REQUEST: _Variant(text="Request payload validation error"),
    Reason.METHOD_NOT_FOUND: _Variant(python=GrpcStatus.NOT_FOUND),
    Reason.INVALID_PARAMS: _Variant(http=422),
}
_VARIANTS: Mapping[Reason, _Variant] = {
    reason: one._replace(name=one.name or reason.type_name)
    for reason, one in ((reason, _DIFFERENCES.get(reason, _Variant())) for reason in Reason)
}
_BY_NAME = {one.name: reason for reason, one in _VARIANTS.items() if one.name} | {
    "ExtendedAgentCardNotConfiguredError": Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED,
}
_REASONS = frozenset(reason.name for reason in Reason)

#: reasons with a number in the text of 0.3
KNOWN = frozenset(_BY_NAME.values()) - {
    Reason.EXTENSION_SUPPORT_REQUIRED,
    Reason.VERSION_NOT_SUPPORTED,
    Reason.TASK_GENERATION_MISMATCH,
}

_VALUE = any_details.PREFIX + "google.protobuf.Value"
#: the member of an object in `data` that holds the details of 1.0
_DETAILS = "details"
_NAME = re.compile(r"([A-Za-z]{1,60}Error)(?:: ?|$)")
_BY_DEFAULT_TEXT = {
    text.lower(): reason
    for reason, one in _VARIANTS.items()
    if reason.level == "rpc"
    for text in (reason.text, one.text or reason.text)
}
_TEXTS = current.BY_TEXT | {
    one.text.lower(): reason for reason, one in _VARIANTS.items() if one.text and reason.level == "a2a"
}
#: texts with which servers report an unknown route or rpc
_NO_ROUTE = frozenset(
    {"", "not found", "method not found", "no route", "page not found", "404 page not found"}
)
#: the response of a2a-go for an unknown path (net/http), and its most frequent meaning
_GO_NO_ROUTE = "404 page not found"
_OTHER_PATHS = (
    "the agent has nothing at this path of 0.3; agents of a2a-go 2 before 2.4 serve 0.3 over HTTP+JSON at"
    " paths of their own, which are not supported: use their JSON-RPC or gRPC"
)
_NO_RPC = re.compile(r"method|unimplemented|not implement|unknown service", re.IGNORECASE)

#: the meaning of FAILED_PRECONDITION without a text (JavaScript 0.3.14, Go 0.3.15), by requested operation
_PRECONDITIONS: Mapping[ops.Operation[Any, Any] | None, Reason] = {
    ops.CANCEL_TASK: Reason.TASK_NOT_CANCELABLE,
    ops.GET_EXTENDED_AGENT_CARD: Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED,
}


def encode_jsonrpc(error: A2AError, known: Container[Reason] = KNOWN) -> ErrorReply[Any]:
    """The JSON-RPC error object; HTTP 200, except for errors found before JSON-RPC (level "http"). known: the
    reasons whose numbers the caller's version defines. Others keep their number, and details explain them.
    """
    reason = error.reason
    info, *rest = current.json_details(error)
    body: dict[str, Any] = {"code": error.code, "message": _own_text(reason, error.message)}
    reply: ErrorReply[Any] = ErrorReply(reason.jsonrpc_http, body)
    if rest:
        body["data"] = _data(rest)
    if reason not in known or not same(decode_jsonrpc(reply), error):
        body["data"] = [info, *rest, *current.build_underlying(error)]
    return reply


def encode_http_json(error: A2AError) -> ErrorReply[Any]:
    """`type`, `code` (of JSON-RPC) and `message`, for different callers of 0.3, beside the `error` of 1.0."""
    reason = error.reason
    variant = _VARIANTS[reason]
    status = variant.http or reason.http
    text = _own_text(reason, error.message)
    inner = {
        "code": status,
        "status": reason.grpc.name,
        "message": text,
        "details": current.json_details(error),
    }
    named = {"type": variant.name} if variant.name else {}
    return ErrorReply(status, {**named, "code": error.code, "message": text, "error": inner})


def encode_grpc(error: A2AError) -> ErrorReply[bytes]:
    """A status whose message starts with the type's name, and a google.rpc.Status with the same content."""
    return _grpc(error, _VARIANTS[error.reason].grpc or error.reason.grpc)


def encode_grpc_declared(error: A2AError) -> ErrorReply[bytes]:
    """The same with the statuses of 1.0: Go 2 knows a reason only by its status (internal/grpcutil)."""
    return _grpc(error, error.reason.grpc)


def _grpc(error: A2AError, status: GrpcStatus) -> ErrorReply[bytes]:
    text = _own_text(error.reason, error.message)
    if name := _VARIANTS[error.reason].name:
        text = f"{name}: {text}"
    return ErrorReply(int(status), any_details.status(status, text, current.json_details(error)), text)


def decode_jsonrpc(reply: ErrorReply[Any]) -> A2AError:
    """A JSON-RPC error object, or an HTTP error without one."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    message = current.text_of(body.get("message"))
    details = _details(body)
    code = current.number_of(body.get("code"))
    if code is None:
        return _hub_text(_by_status(reply, message, details))
    return _hub_text(_by_number(code, message, details, current.by_shared_number(code, reply.status)))


def decode_http_json(reply: ErrorReply[Any]) -> A2AError:
    """`message`, an `error` of either version, a framework's own `detail`, or a bare status."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        details = any_details.list_objects(inner)
        message = current.text_of(inner.get("message")) or current.text_of(body.get("message"))
        body = {"type": body.get("type"), **inner, "message": message}
    else:
        details = _details(body)
        message = next(
            (
                text
                for name in ("message", "error", "detail", "title")
                if (text := current.text_of(body.get(name)))
            ),
            "",
        )
    if reply.status == 404 and not body and reply.text.strip() == _GO_NO_ROUTE:
        message = _OTHER_PATHS
    named = _BY_NAME.get(current.text_of(body.get("type")))
    if named is not None and not _info(details):
        return _hub_text(current.from_details(message, details, by_code=named, texts={}))
    code = current.number_of(body.get("code"))
    if code is not None and code < 0:  # some servers send the JSON-RPC number here
        return _hub_text(_by_number(code, message, details))
    return _hub_text(_by_status(reply, message, details))


def decode_grpc(reply: ErrorReply[bytes]) -> A2AError:
    """A google.rpc.Status, or a bare status with a message, which may start with the name of the type."""
    status, message, details = current.read_grpc(reply)
    named = _find_named(message)
    info = _info(details)
    if info and named is not None:
        agrees = named.name == info if info in _REASONS else status in _statuses(named)
        named = named if agrees else None
    if named is not None:
        message = _NAME.sub("", message, count=1)
    elif status is GrpcStatus.UNKNOWN and not details:
        # The response of servers to an exception in their code, often with its text.
        return current.from_details("", [], peer_text=message, texts=_TEXTS)
    fallback = _by_grpc_status(status, message, reply.operation)
    return _hub_text(
        current.from_details(message, details, by_code=named, fallback=fallback, texts={} if info else _TEXTS)
    )


def _by_number(code: int, message: str, details: list[Any], reason: Reason | None = None) -> A2AError:
    """The error of a response with a JSON-RPC number. `reason`: a more reliable reason than the number's."""
    named, texts = _words(message, details)
    by_code = reason or named or current.BY_CODE.get(code)
    return current.from_details(message, details, code=code, by_code=by_code, texts=texts)


def _by_status(reply: ErrorReply[Any], message: str, details: list[Any]) -> A2AError:
    """The error of a response without a number."""
    named, texts = _words(message or reply.text, details)
    return current.from_details(
        message,
        details,
        by_code=named or (_BY_DEFAULT_TEXT.get(message.lower()) if texts else None),
        fallback=_by_http_status(reply.status, message, reply.operation),
        peer_text=reply.text if not message else "",
        texts=texts,
    )


def _words(message: str, details: list[Any]) -> tuple[Reason | None, Mapping[str, Reason]]:
    """The reasons that the text of an error reveals: by a type name at its start, and by known texts. Empty
    if there is an ErrorInfo, even with an unknown reason.
    """
    return (_find_named(message), _TEXTS) if not _info(details) else (None, {})


def _info(details: list[Any]) -> str:
    """ErrorInfo.reason; empty if there is none."""
    infos = (one.get("reason") for one in details if one.get("@type") == any_details.ERROR_INFO)
    return current.text_of(next(infos, ""))


def _data(details: list[Any]) -> Any:
    """Details as `data`: bare if the only detail is `data` that a caller or agent of 0.3 once sent."""
    if len(details) == 1:
        detail = _whole(details[0])
        if detail.get("@type") == _VALUE and detail.keys() == {"@type", "value"}:
            bare = detail["value"]
            return details if _are_details(bare) else bare
    return details


def _whole(detail: Mapping[str, Any]) -> Mapping[str, Any]:
    """A detail restored from its text. Details that protobuf cannot hold pass through protobuf as text."""
    text = detail.get("json")
    if detail.get("@type") == _VALUE and detail.keys() == {"@type", "json"} and isinstance(text, str):
        with contextlib.suppress(JsonSyntaxError):
            whole = loads(text)
            return whole if isinstance(whole, dict) else detail
    return detail


def shape_jsonrpc(body: Any, parameters: Mapping[str, str]) -> Any:
    """A JSON-RPC error object with `data` of a type that its caller reads (Quirks.error_data).

    A list of details becomes an object unless the caller is known to expect the list, or declares a version,
    as clients of 1.0 do. `data` from an agent or caller of 0.3 changes only for callers that are known to
    expect another type.
    """
    data = body.get("data")
    if data is None:
        return body
    wanted = caller(parameters).quirks.error_data
    if _are_details(data):
        if wanted is ErrorData.ARRAY or (
            wanted is ErrorData.ANY and (parameters.get(VERSION_PARAMETER) or "").strip()
        ):
            return body
        return {**body, "data": {_DETAILS: data}}
    if wanted is ErrorData.ARRAY:
        return {**body, "data": [any_details.value(data)]}
    if wanted is ErrorData.OBJECT and not isinstance(data, Mapping):
        return {**body, "data": {"value": data}}
    return body


def _details(body: Mapping[str, Any]) -> list[Any]:
    if "data" not in body:
        return []
    data = body["data"]
    if isinstance(data, Mapping) and data.keys() == {_DETAILS} and _are_details(data[_DETAILS]):
        return list(data[_DETAILS])
    return data if _are_details(data) else [any_details.value(data)]


def _are_details(data: Any) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(one, Mapping) and isinstance(one.get("@type"), str) for one in data)
    )


def _find_named(message: str) -> Reason | None:
    match = _NAME.match(message)
    return _BY_NAME.get(match[1]) if match else None


def _by_http_status(status: int, message: str, operation: ops.Operation[Any, Any] | None) -> Reason | None:
    """The reason for a status. 404, 501 and 502 stand for several errors."""
    if status == 404:
        return _not_found(message, operation)
    if status == 501:
        return (
            Reason.PUSH_NOTIFICATION_NOT_SUPPORTED if operation in ops.PUSH else Reason.UNSUPPORTED_OPERATION
        )
    if status == 502 and message:  # a proxy sends no message in our format
        return Reason.INVALID_AGENT_RESPONSE
    return Reason.INVALID_PARAMS if status == 422 else current.BY_HTTP.get(status)


def _statuses(reason: Reason) -> set[GrpcStatus]:
    """The statuses with which SDKs send a reason."""
    variant = _VARIANTS[reason]
    return {reason.grpc, variant.grpc or reason.grpc, variant.python or reason.grpc}


def _by_grpc_status(
    status: GrpcStatus, message: str, operation: ops.Operation[Any, Any] | None
) -> Reason | None:
    if status is GrpcStatus.NOT_FOUND:
        return _not_found(message or "task", operation)
    if status is GrpcStatus.FAILED_PRECONDITION:
        return _PRECONDITIONS.get(operation, Reason.UNSUPPORTED_OPERATION)
    if status is not GrpcStatus.UNIMPLEMENTED or not message or _NO_RPC.search(message):
        return current.BY_GRPC.get(status)
    if operation is ops.CANCEL_TASK:
        return Reason.TASK_NOT_CANCELABLE
    return Reason.PUSH_NOTIFICATION_NOT_SUPPORTED if operation in ops.PUSH else Reason.UNSUPPORTED_OPERATION


def _not_found(message: str, operation: ops.Operation[Any, Any] | None) -> Reason:
    """A missing task, card or route, by the requested operation and by whether an A2A server answered."""
    if operation is ops.GET_EXTENDED_AGENT_CARD:
        return Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED
    text = message.lower().strip(" .!")
    if text in _NO_ROUTE or not ("task" in text or (operation is not None and operation.about_task)):
        return Reason.METHOD_NOT_FOUND
    return Reason.TASK_NOT_FOUND


def _own_text(reason: Reason, message: str) -> str:
    own = _VARIANTS[reason].text
    return own if own and message == reason.text else message


def _hub_text(error: A2AError) -> A2AError:
    if error.message == _VARIANTS[error.reason].text:
        error.message = error.reason.text
    return error


def same(left: A2AError, right: A2AError, *, apart: str = "") -> bool:
    """Whether two errors are equal except for their message. apart: a member of their metadata to ignore."""
    return _members(left, apart) == _members(right, apart)


def _members(error: A2AError, apart: str) -> tuple[Any, ...]:
    details = [dict(_whole(one)) for one in error.details]
    metadata = {name: value for name, value in error.metadata.items() if name != apart}
    return error.reason, error.name, error.code, metadata, error.violations, details, error.retry_after


#: members of the hub's configuration, which 0.x nests
_OF_CONFIG = r"^(?=(?:id|url|token|authentication)\b)"
_INLINE = "configuration.taskPushNotificationConfig"
_ENCODE_SCHEMES: Rule = (r"\bauthentication\.scheme$", "authentication.schemes")
_DECODE_SCHEMES: Rule = (r"\bauthentication\.schemes$", "authentication.scheme")

#: MessageSendParams
ENCODE_KIND: tuple[Rule, ...] = (
    (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotificationConfig"),
    _ENCODE_SCHEMES,
)
DECODE_KIND: tuple[Rule, ...] = (
    (r"^configuration\.pushNotificationConfig\b", _INLINE),
    _DECODE_SCHEMES,
)
_KIND = MemberNames(renaming(*ENCODE_KIND), renaming(*DECODE_KIND))
#: SendMessageRequest of a2a.v1
_PROTO = MemberNames(
    renaming(
        (r"^message\.parts(\[\d+\])\.data\b", r"message.content\1.data.data"),
        (r"^message\.parts\b", "message.content"),
        (r"^configuration\.taskPushNotificationConfig\b", "configuration.pushNotification"),
        _ENCODE_SCHEMES,
    ),
    renaming(
        (r"^message\.content(\[\d+\])\.data\.data\b", r"message.parts\1.data"),
        (r"^message\.content\b", "message.parts"),
        (r"^configuration\.pushNotification\b", _INLINE),
        _DECODE_SCHEMES,
    ),
)


def _by_operation(send: MemberNames, config: str) -> Mapping[ops.Operation[Any, Any], MemberNames]:
    """config: the path of the configuration in a request to create one."""
    nested = config.replace(".", r"\.")
    created = MemberNames(
        renaming((_OF_CONFIG, f"{config}."), _ENCODE_SCHEMES),
        renaming((rf"^{nested}\.", ""), _DECODE_SCHEMES),
    )
    return {ops.SEND_MESSAGE: send, ops.SEND_STREAMING_MESSAGE: send, ops.CREATE_PUSH_CONFIG: created}


#: the shape of JSON-RPC
KIND = _by_operation(_KIND, "pushNotificationConfig")
#: a2a.v1
PROTO = _by_operation(_PROTO, "config.pushNotificationConfig")
