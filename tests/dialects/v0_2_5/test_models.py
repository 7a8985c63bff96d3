"""The models of 0.2.5: every type, method and error of that version under its name, and nothing of 0.3."""

from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter

from a2a_bridge import A2AError, Reason
from a2a_bridge.core.errors import Violation
from a2a_bridge.dialects.v0_2_5 import models
from a2a_bridge.dialects.v0_3 import models as newer
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.dialects.v0_2_5.documented import METHODS, NAMED, TYPES
from tests.dialects.v0_3.schema import ENUMS, ERRORS, OBJECTS, OLDER, TOLERATED, UNIONS, table
from tests.dialects.v0_3.test_models import CARD, MESSAGE, branches, members

#: what 0.3 added
LATER = {
    "AgentCardSignature",
    "AuthenticatedExtendedCardNotConfiguredError",
    "GetAuthenticatedExtendedCardRequest",
    "GetAuthenticatedExtendedCardResponse",
    "GetAuthenticatedExtendedCardSuccessResponse",
    "MutualTLSSecurityScheme",
    "TransportProtocol",
}

#: (type, member) -> the reason for a difference from the documentation
DEVIATIONS = {
    ("TaskStatusUpdateEvent", "final"): "the prose of the specification calls it optional, false by default",
    ("AgentCard", "protocolVersion"): "null is no version; absent is 0.2.5, as documented",
    **{(name, "message"): "null becomes the default text when it is read" for name in ERRORS},
}


def shape(schema: Any) -> Any:
    """The content of a schema, without texts, order and definitions."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return frozenset(map(shape, options))
    if schema.get("type") == "array":
        return ("array", shape(schema["items"]))
    if schema.get("type") == "object" and "properties" in schema:
        return schema["title"]
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties", True)
        return ("object", extra if isinstance(extra, bool) else shape(extra))
    if "enum" in schema:
        return schema["title"]
    return schema.get("const", schema.get("type", "any"))


@each("name", TYPES)
def test_documented_members_have_their_type_and_default(name: str) -> None:
    model: type[BaseModel] = getattr(models, name)
    fields = {field.alias or attribute: field for attribute, field in model.model_fields.items()}
    schema = model.model_json_schema()
    if "$ref" in schema:
        schema = schema["$defs"][name]
    for member, annotation, default in TYPES[name]:
        field = fields[member]
        if (name, member) in DEVIATIONS:
            continue
        meant = eval(annotation, {**vars(models), "Any": Any, "Literal": Literal})  # noqa: S307 - our own table
        assert shape(schema["properties"][member]) == shape(TypeAdapter(meant).json_schema()), member
        optional = default or annotation.endswith("| None")
        assert field.is_required() == (not optional), member
        if default:
            assert field.default == eval(default), member  # noqa: S307 - our own table


def test_deviations_are_few_and_real() -> None:
    assert models.AgentCard.model_fields["protocol_version"].default == "0.2.5"
    assert models.TaskStatusUpdateEvent.model_fields["final"].default is False
    documented = {(name, member) for name, rows in TYPES.items() for member, _, _ in rows}
    assert {pair for pair in DEVIATIONS if pair[0] not in LATER} <= documented


def test_everything_documented_has_its_name() -> None:
    names = {*TYPES, *NAMED, *METHODS.values()} | {
        name.removesuffix("Request") + "Response" for name in METHODS.values() if "Resub" not in name
    }
    assert names <= set(models.__all__)
    for method, name in METHODS.items():
        assert getattr(models, name).model_fields["method"].default == method
    assert branches(models.A2ARequest) == set(METHODS.values())


@each(("name", "expected"), (table(OBJECTS) | table(OLDER)).items())
def test_members_are_those_of_the_schema(name: str, expected: dict[str, bool]) -> None:
    if name in LATER:
        assert not hasattr(models, name)
        return
    found = members(getattr(models, name))
    assert found.keys() == expected.keys()
    assert {member for member in found if expected[member] != found[member]} <= TOLERATED.keys()


def test_names_added_in_0_3_are_absent() -> None:
    own = {"check", "decode", "encode", "read", "write"}
    assert set(newer.__all__) - set(models.__all__) == LATER
    assert set(models.__all__) - own <= set(newer.__all__)
    assert branches(models.SecurityScheme) == set(UNIONS["SecurityScheme"].split()) - LATER
    assert branches(models.A2AError) == set(ERRORS) - LATER
    assert not branches(models.JSONRPCResponse) & LATER
    assert {name for name in ENUMS if hasattr(models, name)} == set(ENUMS) - LATER


def test_media_types_have_to_be_listed() -> None:
    params = {"message": MESSAGE, "configuration": {"blocking": True}}
    assert models.check(models.MessageSendParams, params) == [
        Violation("configuration.acceptedOutputModes", "is required")
    ]
    assert newer.check(newer.MessageSendParams, params) == []
    for method in ("message/send", "message/stream"):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        assert models.check(models.A2ARequest, request)[0].field == "params.configuration.acceptedOutputModes"


def test_a_card_of_0_3_keeps_new_members() -> None:
    signed = CARD | {"signatures": [{"protected": "p", "signature": "s"}]}
    signed["skills"] = [{"id": "s", "name": "s", "description": "", "tags": [], "security": [{"key": []}]}]
    card = models.read(models.AgentCard, signed)
    assert set(card.model_extra or {}) == {"signatures"}
    assert set(card.skills[0].model_extra or {}) == {"security"}
    assert models.write(card) == signed


def test_mutual_tls_is_unknown() -> None:
    found = models.check(models.AgentCard, CARD | {"securitySchemes": {"m": {"type": "mutualTLS"}}})
    assert found == [Violation("securitySchemes.m.type", "is none of apiKey, http, oauth2, openIdConnect")]


def test_the_error_of_0_3_is_any_error() -> None:
    tree = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32007, "message": "none"}}
    answer = models.read(models.JSONRPCErrorResponse, tree)
    assert type(answer.error) is models.JSONRPCError
    assert models.write(answer) == tree
    assert models.check(models.A2ARequest, {"id": 1, "method": "agent/getAuthenticatedExtendedCard"})
    assert models.check(models.JSONRPCResponse, {"id": 1, "result": CARD})


def test_the_documented_examples_work() -> None:
    part = models.Part(root=models.TextPart(text="Hello?"))
    message = models.Message(messageId="msg-001", role="user", parts=[part])
    request = models.SendMessageRequest(id="req-001", params=models.MessageSendParams(message=message))
    assert models.write(request) == {
        "id": "req-001",
        "jsonrpc": "2.0",
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "messageId": "msg-001",
                "role": "user",
                "parts": [{"kind": "text", "text": "Hello?"}],
            }
        },
    }
    query = models.GetTaskRequest(id="r", params=models.TaskQueryParams(id="task-001", historyLength=10))
    assert models.write(query)["params"] == {"historyLength": 10, "id": "task-001"}
    config = models.PushNotificationConfig(
        url="https://app.example/hook",
        authentication=models.PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="secret"),
    )
    push = models.SetTaskPushNotificationConfigRequest(
        id="r", params=models.TaskPushNotificationConfig(taskId="t", pushNotificationConfig=config)
    )
    assert models.read(models.A2ARequest, models.write(push)).root == push


def test_models_meet_the_hub_as_0_2_5_means_it() -> None:
    update = models.TaskStatusUpdateEvent(
        task_id="t", context_id="c", final=True, status=models.TaskStatus(state="unknown")
    )
    event = models.decode(update)
    assert not event.HasField("metadata")
    assert models.encode(event) == update
    assert models.encode(hub.StreamResponse(status_update=event)) == update
    assert newer.encode(event).final is False

    params = models.MessageSendParams(
        message=models.read(models.Message, MESSAGE),
        configuration=models.MessageSendConfiguration(accepted_output_modes=[], blocking=True),
    )
    assert models.encode(models.decode(params)) == params
    assert isinstance(models.encode(models.decode(params)), models.MessageSendParams)

    card = models.read(models.AgentCard, CARD | {"protocolVersion": "0.2.5"})
    assert models.encode(models.decode(card)) == card
    assert type(models.encode(models.decode(card))) is models.AgentCard

    missing = models.encode(A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED))
    assert type(missing) is models.JSONRPCError
    assert models.decode(missing).reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED
