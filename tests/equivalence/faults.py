"""Bad requests in the form of each binding that can express it (EXCLUDED: why not), and the error."""

from dataclasses import dataclass, replace
from typing import Any

from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.raw import rpc

#: the reason for an empty column
EXCLUDED = {
    "json": "a mistake of JSON that protobuf has no way to make",
    "protobuf": "a mistake of protobuf that JSON has no way to make",
    "body": "the member travels in the path or the query there",
    "query": "the member travels in the body there",
    "envelope": "only JSON-RPC has an envelope",
    "path": "only HTTP+JSON has the value twice",
    "unset": "in protobuf 0 is what a member has that was never set, and clients send it as such",
    "empty": "over HTTP+JSON no body is an empty object: all members may be in the path",
}


@dataclass(frozen=True)
class Fault:
    """fields: of the violations, in order. jsonrpc: a frame or raw text. rest: method, path, content."""

    name: str
    reason: Reason
    fields: tuple[str, ...] = ()
    jsonrpc: Any = None
    rest: tuple[str, str, Any] | None = None
    grpc: tuple[str, bytes] | None = None
    excluded: str = ""


def _message(**changes: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]} | changes
    return {name: value for name, value in message.items() if value is not None}


def _sent(name: str, fields: tuple[str, ...], params: Any, wire: bytes | None = None) -> Fault:
    """A bad SendMessage."""
    return Fault(
        name,
        Reason.INVALID_PARAMS,
        fields,
        rpc("SendMessage", params),
        ("POST", "/message:send", params),
        None if wire is None else ("SendMessage", wire),
        "" if wire is not None else "json",
    )


def _bytes(request: Any) -> bytes:
    return request.SerializeToString()


def _hub(**changes: Any) -> bytes:
    members = {"message_id": "m", "role": hub.ROLE_USER, "parts": [hub.Part(text="x")]} | changes
    return _bytes(hub.SendMessageRequest(message=hub.Message(**members)))


def _text(name: str, text: str | bytes) -> Fault:
    return Fault(name, Reason.PARSE_ERROR, (), text, ("POST", "/message:send", text), excluded="json")


def _get(name: str, reason: Reason, fields: tuple[str, ...], **members: Any) -> Fault:
    """A bad GetTask; `members` are those of the hub message besides the id."""
    query = "&".join(f"{_camel(key)}={value}" for key, value in members.items())
    return Fault(
        name,
        reason,
        fields,
        rpc("GetTask", {"id": "t"} | {_camel(key): value for key, value in members.items()}),
        ("GET", f"/tasks/t?{query}", None),
        ("GetTask", _bytes(hub.GetTaskRequest(id="t", **members))),
    )


def _list(name: str, fields: tuple[str, ...], **members: Any) -> Fault:
    """A bad ListTasks."""
    query = "&".join(f"{_camel(key)}={value}" for key, value in members.items())
    return Fault(
        name,
        Reason.INVALID_PARAMS,
        fields,
        rpc("ListTasks", {_camel(key): value for key, value in members.items()}),
        ("GET", f"/tasks?{query}", None),
        ("ListTasks", _bytes(hub.ListTasksRequest(**members))),
    )


def _wrong_list(name: str, **members: str) -> Fault:
    """A ListTasks with values of wrong types, which protobuf cannot hold."""
    query = "&".join(f"{key}={value}" for key, value in members.items())
    asked = rpc("ListTasks", members)
    fields = tuple(members)
    return Fault(
        name, Reason.INVALID_PARAMS, fields, asked, ("GET", f"/tasks?{query}", None), excluded="json"
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


_DEEP = "[" * 50_000

FAULTS = [
    # Not readable.
    Fault(
        "malformed",
        Reason.PARSE_ERROR,
        (),
        '{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {',
        ("POST", "/message:send", '{"message": {'),
        ("SendMessage", b"\x12\xff\xff\xff\xff"),
    ),
    Fault("malformed get", Reason.PARSE_ERROR, grpc=("GetTask", b"\xff\xff"), excluded="protobuf"),
    Fault(
        "bad utf-8 in protobuf",
        Reason.PARSE_ERROR,
        grpc=("GetTask", b"\x12\x02\xc3\x28"),
        excluded="protobuf",
    ),
    Fault("empty", Reason.PARSE_ERROR, (), "", excluded="empty"),
    _text("blank", " \n"),
    _text("NaN", '{"message": NaN}'),
    _text("Infinity", '{"message": -Infinity}'),
    _text("trailing garbage", '{"message": {}} x'),
    _text("two documents", "{} {}"),
    _text("deep", _DEEP),
    _text("deep and closed", _DEEP + "]" * 50_000),
    _text("not utf-8", b'{"message": "\xc3\x28"}'),
    _text("lone surrogate and no end", '{"message": "\\ud800'),
    _text("single quotes", "{'message': 1}"),
    _text("comment", "{} // no"),
    # Readable, with a wrong type.
    _sent("message a number", ("message",), {"message": 7}),
    _sent("message a list", ("message",), {"message": []}),
    _sent("parts a string", ("message.parts",), {"message": _message(parts="x")}),
    _sent("part a string", ("message.parts[0]",), {"message": _message(parts=["x"])}),
    _sent("text a number", ("message.parts[0].text",), {"message": _message(parts=[{"text": 7}])}),
    _sent("half of a surrogate pair", ("message.messageId",), {"message": _message(messageId="\ud800")}),
    _sent("raw no base64", ("message.parts[0].raw",), {"message": _message(parts=[{"raw": "é"}])}),
    _sent("raw a list", ("message.parts[0].raw",), {"message": _message(parts=[{"raw": []}])}),
    _sent("metadata a list", ("message.metadata",), {"message": _message(metadata=[])}),
    _sent("role unknown", ("message.role",), {"message": _message(role="ROLE_NOBODY")}),
    _sent("role a bool", ("message.role",), {"message": _message(role=True)}),
    _sent("extensions a string", ("message.extensions",), {"message": _message(extensions="x")}),
    _sent(
        "two of a oneof", ("message.parts[0].url",), {"message": _message(parts=[{"text": "a", "url": "b"}])}
    ),
    _sent("one member, two variants", ("message.messageId",), {"message": _message(message_id="also")}),
    _sent(
        "flag a string",
        ("configuration.returnImmediately",),
        {"message": _message(), "configuration": {"returnImmediately": "yes"}},
    ),
    _sent(
        "int too large",
        ("configuration.historyLength",),
        {"message": _message(), "configuration": {"historyLength": 2**31}},
    ),
    _sent(
        "int a fraction",
        ("configuration.historyLength",),
        {"message": _message(), "configuration": {"historyLength": 1.5}},
    ),
    _sent("params a list", ("",), []),
    Fault(
        "params a string",
        Reason.INVALID_PARAMS,
        ("",),
        rpc("SendMessage", "x"),
        ("POST", "/message:send", '"x"'),
        excluded="json",
    ),
    # Readable, with a missing member.
    _sent("no message", ("message",), {}, b""),
    _sent("message null", ("message",), {"message": None}, b""),
    _sent(
        "an empty message",
        ("message.messageId", "message.role", "message.parts"),
        {"message": {}},
        _bytes(hub.SendMessageRequest(message=hub.Message())),
    ),
    _sent("no parts", ("message.parts",), {"message": _message(parts=[])}, _hub(parts=[])),
    _sent("no role", ("message.role",), {"message": _message(role=None)}, _hub(role=0)),
    _sent("no id", ("message.messageId",), {"message": _message(messageId="")}, _hub(message_id="")),
    _sent(
        "a part of nothing",
        ("message.parts[1]",),
        {"message": _message(parts=[{"text": ""}, {}])},
        _hub(parts=[hub.Part(text=""), hub.Part()]),
    ),
    _sent(
        "push config without url",
        ("configuration.taskPushNotificationConfig.url",),
        {"message": _message(), "configuration": {"taskPushNotificationConfig": {"id": "p"}}},
        _bytes(
            hub.SendMessageRequest(
                message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")]),
                configuration=hub.SendMessageConfiguration(
                    task_push_notification_config=hub.TaskPushNotificationConfig(id="p")
                ),
            )
        ),
    ),
    Fault(
        "get without id", Reason.INVALID_PARAMS, ("id",), rpc("GetTask", {}), None, ("GetTask", b""), "body"
    ),
    Fault("get without params", Reason.INVALID_PARAMS, ("",), rpc("GetTask"), None, None, "envelope"),
    Fault(
        "push create without url",
        Reason.INVALID_PARAMS,
        ("url",),
        rpc("CreateTaskPushNotificationConfig", {"taskId": "t"}),
        ("POST", "/tasks/t/pushNotificationConfigs", {}),
        ("CreateTaskPushNotificationConfig", _bytes(hub.TaskPushNotificationConfig(task_id="t"))),
    ),
    # Readable and complete, but not allowed.
    _get("negative history", Reason.INVALID_PARAMS, ("historyLength",), history_length=-1),
    _get("unknown task", Reason.TASK_NOT_FOUND, ()),
    replace(_list("page size 0", ("pageSize",), page_size=0), grpc=None, excluded="unset"),
    _list("page size 101", ("pageSize",), page_size=101),
    _list("page size -1", ("pageSize",), page_size=-1),
    _list("bad token", ("pageToken",), page_token="no-token"),  # noqa: S106
    _list("token of other base64", ("pageToken",), page_token="AAAA"),  # noqa: S106
    _list("negative history in lists", ("historyLength",), history_length=-5),
    _wrong_list(
        "several wrong types", pageSize="x", status="NOPE", historyLength="1.5", includeArtifacts="yes"
    ),
    _wrong_list("status unknown by name", status="TASK_STATE_NOPE"),
    _wrong_list("time no time", statusTimestampAfter="yesterday"),
    _wrong_list("int no int", pageSize="ten"),
    _wrong_list("bool no bool", includeArtifacts="maybe"),
    Fault(
        "tenants disagree",
        Reason.INVALID_PARAMS,
        ("tenant",),
        None,
        ("POST", "/acme/message:send", {"tenant": "other", "message": _message()}),
        None,
        "path",
    ),
    Fault(
        "task ids disagree",
        Reason.INVALID_PARAMS,
        ("taskId",),
        None,
        ("POST", "/tasks/t/pushNotificationConfigs", {"taskId": "other", "url": "https://h.example/"}),
        None,
        "path",
    ),
    # Unknown ids.
    Fault(
        "unknown method", Reason.METHOD_NOT_FOUND, (), rpc("Nope", {}), ("GET", "/nope", None), ("Nope", b"")
    ),
    Fault("method of 0.3", Reason.METHOD_NOT_FOUND, (), rpc("message/send", {}), excluded="envelope"),
    Fault("method in other case", Reason.METHOD_NOT_FOUND, (), rpc("sendMessage", {}), excluded="envelope"),
    Fault("verb wrong", Reason.METHOD_NOT_FOUND, (), None, ("PUT", "/tasks/t", {}), excluded="path"),
    # The envelope of JSON-RPC.
    *(
        Fault(name, Reason.INVALID_REQUEST, (), content, excluded="envelope")
        for name, content in {
            "frame a number": 7,
            "frame null": "null",
            "batch": [rpc("GetTask", {"id": "t"})],
            "empty batch": [],
            "no version of JSON-RPC": {"id": 1, "method": "GetTask", "params": {"id": "t"}},
            "JSON-RPC 1.0": rpc("GetTask", {"id": "t"}) | {"jsonrpc": "1.0"},
            "JSON-RPC as a number": rpc("GetTask", {"id": "t"}) | {"jsonrpc": 2.0},
            "id a bool": rpc("GetTask", {"id": "t"}, request_id=True),
            "id an object": rpc("GetTask", {"id": "t"}, request_id={}),
            "id a list": rpc("GetTask", {"id": "t"}, request_id=[1]),
            "no method": {"jsonrpc": "2.0", "id": 1, "params": {}},
            "method a number": rpc("GetTask", {}) | {"method": 7},
        }.items()
    ),
]

#: declared versions that must be rejected everywhere
BAD_VERSIONS = (
    "0.3",
    "0.2.5",
    "0.5",
    "1.1",
    "1.7",
    "2.0",
    "1",
    "x",
    "1.0.0.0",
    "1.0-beta",
    "v1.0",
    "1,0",
    "-1.0",
)
#: and those that must be served
GOOD_VERSIONS = ("1.0", "1.0.0", "1.0.1", "1.0.99")
