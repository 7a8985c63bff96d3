"""The models of 0.3 are the types of the specification, judge trees as its schema does, and lose nothing."""

import subprocess
import sys
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from a2a_bridge import Reason
from a2a_bridge.core.errors import Violation
from a2a_bridge.dialects.v0_3 import models
from a2a_bridge.testing.each import each
from tests.dialects.v0_3.schema import ENUMS, ERRORS, METHODS, OBJECTS, TOLERATED, UNIONS, table
from tests.patience import PATIENCE
from tests.rejections import rejected

MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
TASK = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}
CONFIG = {"taskId": "t", "pushNotificationConfig": {"url": "https://a.example"}}
CARD = {
    "name": "n",
    "description": "d",
    "url": "https://a.example",
    "version": "1",
    "protocolVersion": "0.3.0",
    "preferredTransport": "GRPC",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [],
    "skills": [{"id": "s", "name": "s", "description": "", "tags": []}],
    "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
}


def members(model: type[BaseModel]) -> dict[str, bool]:
    return {field.alias or name: field.is_required() for name, field in model.model_fields.items()}


def branches(model: Any) -> set[str]:
    """The names in a union, however it is annotated."""
    schema = model.model_json_schema()
    return {one["$ref"].rpartition("/")[2] for one in schema.get("oneOf", schema.get("anyOf", ()))}


@each(("name", "expected"), table(OBJECTS).items())
def test_members_are_those_of_the_schema(name: str, expected: dict[str, bool]) -> None:
    found = members(getattr(models, name))
    assert found.keys() == expected.keys()
    for member, required in expected.items():
        if required and not found[member]:
            assert member in TOLERATED, member
        else:
            assert required == found[member], member


@each(("name", "row"), ERRORS.items())
def test_errors_have_their_numbers_and_texts(name: str, row: tuple[int, str]) -> None:
    error = getattr(models, name)
    assert (error().code, error().message) == row
    assert models.write(error(message=None)) == {"code": row[0], "message": row[1]}
    read = models.read(models.JSONRPCErrorResponse, {"id": None, "jsonrpc": "2.0", "error": {"code": row[0]}})
    assert type(read.error) is error
    assert type(models.read(models.A2AError, {"code": row[0], "message": "x"}).root) is error
    assert models.check(error, {"code": -1, "message": ""})[0].field == "code"


def test_an_error_of_another_number_is_any_error() -> None:
    tree = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32099, "message": "own", "data": [None, 1.5]}}
    answer = models.read(models.JSONRPCErrorResponse, tree)
    assert type(answer.error) is models.JSONRPCError
    assert models.write(answer) == tree
    assert models.check(models.A2AError, tree["error"]) == [
        Violation("code", f"is none of {', '.join(str(code) for code, _ in ERRORS.values())}")
    ]


@each(("method", "row"), METHODS.items())
def test_methods_have_a_request_and_an_answer(method: str, row: tuple[str, str, str]) -> None:
    name, takes, answers = row
    request = getattr(models, f"{name}Request")
    assert request.model_fields["method"].default == method
    schema = str(request.model_json_schema()["properties"].get("params", ""))
    assert all(f"/{one}'" in schema for one in takes.split())
    assert bool(schema) == bool(takes)
    assert name + "Request" in branches(models.A2ARequest)
    if not answers:
        return
    success = getattr(models, f"{name}SuccessResponse")
    result = str(success.model_json_schema()["properties"]["result"])
    for one in answers.split():
        assert {"null": "'null'"}.get(one, f"/{one.removesuffix('[]')}'") in result
        assert ("'array'" in result) == one.endswith("[]")
    assert branches(getattr(models, f"{name}Response")) == {"JSONRPCErrorResponse", f"{name}SuccessResponse"}
    assert f"{name}SuccessResponse" in branches(models.JSONRPCResponse)


def test_unions_have_the_branches_of_the_schema() -> None:
    assert {name: branches(getattr(models, name)) for name in UNIONS} == {
        name: set(text.split()) for name, text in UNIONS.items()
    }
    assert branches(models.A2AError) == set(ERRORS)
    assert branches(models.A2ARequest) == {f"{name}Request" for name, _, _ in METHODS.values()}


@pytest.mark.parametrize(("name", "values"), ENUMS.items())
def test_enums_have_the_values_of_the_schema(name: str, values: str) -> None:
    enum: type[Enum] = getattr(models, name)
    assert [one.value for one in enum] == values.split()


def test_every_name_of_the_module_is_of_the_specification() -> None:
    named = {*table(OBJECTS), *ERRORS, *ENUMS, *UNIONS, "A2AError", "A2ARequest", "JSONRPCResponse"}
    for name, _, answers in METHODS.values():
        named |= {f"{name}Request"} | ({f"{name}Response", f"{name}SuccessResponse"} if answers else set())
    extra = {"A2A", "A2ABaseModel", "check", "decode", "encode", "read", "write"}
    assert set(models.__all__) == named | extra


@each(
    ("model", "tree"),
    [
        (models.Message, MESSAGE),
        (
            models.Message,
            MESSAGE | {"metadata": {"a": None, "b": [1, 1.0]}, "extensions": [], "x": {"y": None}},
        ),
        (
            models.Task,
            TASK | {"history": [MESSAGE], "artifacts": [{"artifactId": "a", "parts": [], "name": ""}]},
        ),
        (models.AgentCard, CARD | {"supportedInterfaces": [], "additionalInterfaces": []}),
        (models.AgentCard, CARD | {"security": [{"key": []}, {}], "iconUrl": ""}),
        (models.DataPart, {"kind": "data", "data": {}, "metadata": {}, "type": "data"}),
        (models.FilePart, {"kind": "file", "file": {"bytes": "aGk", "uri": "u", "name": ""}}),
        (
            models.GetTaskRequest,
            {"jsonrpc": "2.0", "id": 2**70, "method": "tasks/get", "params": {"id": "t"}},
        ),
        (models.A2ARequest, {"jsonrpc": "2.0", "id": "", "method": "tasks/cancel", "params": {"id": "t"}}),
        (models.DeleteTaskPushNotificationConfigResponse, {"jsonrpc": "2.0", "id": 1, "result": None}),
        (models.JSONRPCSuccessResponse, {"jsonrpc": "2.0", "id": None, "result": {"a": None}}),
        (models.SendMessageResponse, {"jsonrpc": "2.0", "id": 1, "result": TASK}),
        (models.A2A, {"any": [1, None]}),
    ],
)
def test_read_content_is_written_unchanged(model: type[BaseModel], tree: Any) -> None:
    assert repr(models.write(models.read(model, tree))) == repr(
        ordered(models.write(models.read(model, tree)), tree)
    )
    assert models.write(models.read(model, tree)) == tree


def ordered(written: Any, tree: Any) -> Any:
    """`tree`, with the members in the order of `written`: repr then tells 1 from 1.0 and from True."""
    if isinstance(written, dict) and isinstance(tree, dict):
        return {name: ordered(value, tree.get(name)) for name, value in written.items()}
    if isinstance(written, list) and isinstance(tree, list):
        return [ordered(*pair) for pair in zip(written, tree, strict=True)]
    return tree


def test_null_for_an_optional_member_is_absence() -> None:
    tree = MESSAGE | {"taskId": None, "metadata": None, "extensions": None}
    assert models.write(models.read(models.Message, tree)) == MESSAGE
    task = TASK | {"history": None, "status": {"state": "working", "message": None, "timestamp": None}}
    assert models.write(models.read(models.Task, task)) == TASK


@pytest.mark.parametrize(
    ("model", "tree", "expected"),
    [
        (models.Part, {"text": "a"}, models.TextPart),
        (models.Part, {"type": "data", "data": {}}, models.DataPart),
        (models.Part, {"file": {"uri": "u"}}, models.FilePart),
        (models.Part, {"kind": None, "type": None, "data": {"text": 1}}, models.DataPart),
        (
            models.SendMessageResponse,
            {"result": {k: v for k, v in TASK.items() if k != "kind"}},
            models.SendMessageSuccessResponse,
        ),
    ],
)
def test_a_missing_kind_follows_from_the_other_members(model: Any, tree: Any, expected: type) -> None:
    assert type(models.read(model, tree).root) is expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"id": "t", "contextId": "c", "status": {"state": "failed"}}, models.Task),
        ({"messageId": "m", "role": "agent", "parts": []}, models.Message),
        ({"taskId": "t", "contextId": "c", "status": {"state": "failed"}}, models.TaskStatusUpdateEvent),
        (
            {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}},
            models.TaskArtifactUpdateEvent,
        ),
    ],
)
def test_events_without_kind_are_recognised_by_their_members(result: Any, expected: type) -> None:
    answer = models.read(models.SendStreamingMessageSuccessResponse, {"id": 1, "result": result})
    assert type(answer.result) is expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, models.DeleteTaskPushNotificationConfigSuccessResponse),
        ([CONFIG], models.ListTaskPushNotificationConfigSuccessResponse),
        (CONFIG, models.GetTaskPushNotificationConfigSuccessResponse),
        (CARD, models.GetAuthenticatedExtendedCardSuccessResponse),
        (TASK, models.SendMessageSuccessResponse),
        (
            {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "failed"}},
            models.SendStreamingMessageSuccessResponse,
        ),
    ],
)
def test_any_answer_is_of_the_first_type_that_fits(result: Any, expected: type) -> None:
    answer = models.read(models.JSONRPCResponse, {"jsonrpc": "2.0", "id": 7, "result": result})
    assert type(answer.root) is expected


SEND, GET = models.SendMessageRequest, models.GetTaskRequest


def message(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "params": {"message": MESSAGE | changes}}


@each(
    ("model", "tree", "path", "problem"),
    [
        (models.Message, [], "", "expected an object, got an array"),
        (models.Message, {}, "messageId", "is required"),
        (models.Message, MESSAGE | {"role": "ROLE_USER"}, "role", "is none of agent, user"),
        (models.Message, MESSAGE | {"role": 1}, "role", "expected a string, got a number"),
        (models.Message, MESSAGE | {"kind": "task"}, "kind", 'must be "message"'),
        (models.Message, MESSAGE | {"messageId": None}, "messageId", "expected a string, got null"),
        (models.Message, MESSAGE | {"extensions": [1]}, "extensions[0]", "expected a string, got a number"),
        (models.Message, MESSAGE | {"metadata": []}, "metadata", "expected an object, got an array"),
        (models.Message, MESSAGE | {"parts": {}}, "parts", "expected an array, got an object"),
        (models.Message, {"message_id": "m", "role": "user", "parts": []}, "messageId", "is required"),
        (
            models.SendMessageRequest,
            message(parts=[{"text": "a"}, {"kind": "text", "text": 1}]),
            "params.message.parts[1].text",
            "expected a string, got a number",
        ),
        (
            models.SendMessageRequest,
            message(parts=[{"kind": "image"}]),
            "params.message.parts[0].kind",
            "is none of text, file, data",
        ),
        (SEND, message(parts=[{}]), "params.message.parts[0]", "needs one of text, file and data"),
        (
            models.SendMessageRequest,
            message(parts=[{"kind": "file", "file": {"name": "x"}}]),
            "params.message.parts[0].file",
            "needs either bytes or uri",
        ),
        (
            models.SendMessageRequest,
            message(parts=[{"kind": "data", "data": [1]}]),
            "params.message.parts[0].data",
            "expected an object, got an array",
        ),
        (models.Task, TASK | {"status": {"state": "TASK_STATE_WORKING"}}, "status.state", None),
        (
            models.TaskArtifactUpdateEvent,
            {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}, "append": 1},
            "append",
            "expected true or false, got a number",
        ),
        (models.TaskQueryParams, {"id": "t", "historyLength": "3"}, "historyLength", None),
        (models.TaskQueryParams, {"id": "t", "historyLength": True}, "historyLength", None),
        (
            models.TaskQueryParams,
            {"id": "t", "historyLength": 1.5},
            "historyLength",
            "expected an integer, got a fraction",
        ),
        (models.A2ARequest, {"id": 1, "method": "tasks/send"}, "method", None),
        (models.A2ARequest, {"id": 1}, "", "needs a method"),
        (models.GetTaskRequest, {"params": {"id": "t"}}, "id", "is required"),
        (models.GetTaskRequest, {"id": None, "params": {"id": "t"}}, "id", None),
        (models.GetTaskRequest, {"id": True, "params": {"id": "t"}}, "id", None),
        (GET, {"id": 1, "jsonrpc": "1.0", "params": {"id": "t"}}, "jsonrpc", 'must be "2.0"'),
        (models.JSONRPCResponse, {"id": 1}, "", "has neither a result nor an error"),
        (
            models.SendMessageResponse,
            {"id": 1, "result": {"a": 1}},
            "result",
            "is neither a task nor a message",
        ),
        (
            models.DeleteTaskPushNotificationConfigResponse,
            {"id": 1, "result": {}},
            "result",
            "expected null, got an object",
        ),
        (
            models.AgentCard,
            CARD | {"securitySchemes": {"a.b": {"type": "magic"}}},
            'securitySchemes["a.b"].type',
            "is none of apiKey, http, oauth2, openIdConnect, mutualTLS",
        ),
        (models.AgentCard, CARD | {"securitySchemes": {"k": {}}}, "securitySchemes.k", "needs a type"),
        (
            models.AgentCard,
            CARD | {"securitySchemes": {"k": {"type": "apiKey", "name": "n", "in": "body"}}},
            "securitySchemes.k.in",
            "is none of cookie, header, query",
        ),
    ],
)
def test_errors_name_the_member_at_fault(
    model: type[BaseModel], tree: Any, path: str, problem: str | None
) -> None:
    found = models.check(model, tree)
    assert found[0].field == path
    if problem is not None:
        assert found[0].description == problem
    with rejected(Reason.INVALID_PARAMS) as caught:
        models.read(model, tree)
    assert list(caught.value.violations) == found


def test_findings_are_bounded() -> None:
    assert len(models.check(models.Message, MESSAGE | {"parts": [{}] * 5000})) == 20


def test_valid_trees_have_no_violations() -> None:
    assert models.check(models.Message, MESSAGE) == []
    assert models.check(models.TaskQueryParams, {"id": "t", "historyLength": 3.0}) == []
    assert models.read(models.TaskQueryParams, {"id": "t", "historyLength": -3.0}).history_length == -3


def test_attributes_answer_to_both_variants() -> None:
    spoken = models.Message(messageId="m", role="user", parts=[models.TextPart(text="a")])
    assert spoken == models.Message(message_id="m", role=models.Role.user, parts=[{"text": "a"}])
    assert (spoken.messageId, spoken.message_id) == ("m", "m")
    spoken.taskId = "t"
    spoken.context_id = "c"
    assert models.write(spoken) == MESSAGE | {
        "taskId": "t",
        "contextId": "c",
        "parts": [{"kind": "text", "text": "a"}],
    }
    with pytest.raises(AttributeError):
        _ = spoken.nothing


def test_code_as_it_was_written_for_0_x_works() -> None:
    part = models.Part(root=models.FilePart(file=models.FileWithBytes(bytes="aGk=", mimeType="text/plain")))
    request = models.SendMessageRequest(
        id="r",
        params=models.MessageSendParams(message=models.Message(messageId="m", role="user", parts=[part])),
    )
    assert request.params.message.parts[0].root.file.bytes == "aGk="
    assert request.model_dump(mode="json", exclude_none=True) == models.write(request)
    assert models.SendMessageRequest.model_validate_json(request.model_dump_json()) == request
    assert isinstance(
        models.SendMessageResponse(root=models.JSONRPCErrorResponse(error={"code": 1, "message": ""})),
        RootModel,
    )


def test_undeclared_members_are_at_hand() -> None:
    read = models.read(models.Message, MESSAGE | {"mediaType": "text/x", "message_id": "other"})
    assert read.model_extra == {"mediaType": "text/x", "message_id": "other"}
    assert read.message_id == "m"


def test_deep_and_unusual_trees_pass() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"a": [deep]}
    tree = MESSAGE | {"metadata": {"\ud800": "\udfff", "deep": deep, "big": 10**400}}
    tree["parts"] = [{"kind": "text", "text": "\ud83d"}]
    assert models.write(models.read(models.Message, tree))["metadata"] is not None


@pytest.mark.process
def test_the_bridge_does_without_pydantic() -> None:
    code = "import sys, a2a_bridge.app.runtime, a2a_bridge.dialects, a2a_bridge.gateway, a2a_bridge.cli; "
    code += "import a2a_bridge_transports.jsonrpc; print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        env={"PYTHONPATH": "transports"},
    )
    assert done.stdout.strip() == "False"
