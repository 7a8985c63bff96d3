"""Which REQUIRED members a message lacks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import compile_required, missing_required
from a2a_bridge.pb import lf_a2a_v1 as a2a
from a2a_bridge.pb.google_protobuf import Struct, Value
from a2a_bridge.testing.each import each
from tests.codec.documents import CLASSES
from tests.strategies import messages

MESSAGE = a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text="")])


@each(
    ("message", "missing"),
    [
        (a2a.SendMessageRequest(), ["message"]),
        (
            a2a.SendMessageRequest(message=a2a.Message()),
            ["message.messageId", "message.role", "message.parts"],
        ),
        (a2a.SendMessageRequest(message=MESSAGE), []),
        (
            a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text="x"), a2a.Part()]),
            ["parts[1]"],
        ),
        (
            a2a.SendMessageRequest(
                message=a2a.Message(message_id="m", role=a2a.ROLE_AGENT, parts=[a2a.Part(filename="f")])
            ),
            ["message.parts[0]"],
        ),
        (a2a.Part(), [""]),
        (a2a.Part(data=Value(null_value=0)), []),  # type: ignore[arg-type]
        (a2a.Task(id="1"), ["status"]),
        (a2a.Task(status=a2a.TaskStatus(message=MESSAGE)), ["id", "status.state"]),
        (
            a2a.Task(
                id="1",
                status=a2a.TaskStatus(
                    state=a2a.TASK_STATE_WORKING, message=a2a.Message(role=a2a.ROLE_AGENT, parts=[a2a.Part()])
                ),
            ),
            ["status.message.messageId", "status.message.parts[0]"],
        ),
        (
            a2a.StreamResponse(
                artifact_update=a2a.TaskArtifactUpdateEvent(
                    task_id="t", context_id="c", artifact=a2a.Artifact(artifact_id="a")
                )
            ),
            ["artifactUpdate.artifact.parts"],
        ),
        (a2a.ListTasksResponse(), ["tasks", "nextPageToken"]),
        (
            a2a.ListTasksResponse(
                tasks=[a2a.Task(id="1", status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING))],
                next_page_token="n",  # noqa: S106
            ),
            [],
        ),
        (
            a2a.SendMessageRequest(
                message=MESSAGE,
                configuration=a2a.SendMessageConfiguration(
                    task_push_notification_config=a2a.TaskPushNotificationConfig(
                        authentication=a2a.AuthenticationInfo()
                    )
                ),
            ),
            [
                "configuration.taskPushNotificationConfig.url",
                "configuration.taskPushNotificationConfig.authentication.scheme",
            ],
        ),
        (a2a.OAuthFlows(client_credentials=a2a.ClientCredentialsOAuthFlow()), ["clientCredentials.tokenUrl"]),
        (a2a.GetExtendedAgentCardRequest(), []),
        (Struct(), []),
    ],
)
def test_missing_members_are_named_by_their_json_path(message: Any, missing: list[str]) -> None:
    assert missing_required(message) == missing


def test_the_values_of_maps_are_looked_into() -> None:
    card = a2a.AgentCard(name="n")
    card.security_schemes["key"].api_key_security_scheme.name = "k"
    card.security_schemes["two words"].http_auth_security_scheme.SetInParent()
    found = missing_required(card)
    assert "securitySchemes.key.apiKeySecurityScheme.location" in found
    assert 'securitySchemes["two words"].httpAuthSecurityScheme.scheme' in found


def test_the_function_of_a_class_is_made_once() -> None:
    assert compile_required(a2a.Task) is compile_required(a2a.Task)


def test_asking_sets_nothing() -> None:
    message = a2a.SendMessageRequest()
    missing_required(message)
    assert not message.HasField("message")
    assert message.SerializeToString() == b""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.DESCRIPTOR.name)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_complete_messages_lack_nothing(cls: Any, data: Any) -> None:
    assert missing_required(data.draw(messages(cls, complete=True))) == []
