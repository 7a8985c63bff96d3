"""Code of 0.3 meets the library: models become messages of the hub, and messages become models."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge import A2AError, Reason, Run, agent, codec, connect
from a2a_bridge.core.errors import Violation
from a2a_bridge.dialects.v0_3 import models, shapes
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests import strategies_v0
from tests.dialects.v0_3.kind_hops import reading
from tests.dialects.v0_3.test_models import CARD, CONFIG, MESSAGE, TASK
from tests.identity import says

UPDATE = {
    "kind": "status-update",
    "taskId": "t",
    "contextId": "c",
    "final": True,
    "status": {"state": "failed"},
}
CHUNK = {
    "kind": "artifact-update",
    "taskId": "t",
    "contextId": "c",
    "artifact": {"artifactId": "a", "parts": [{"kind": "data", "data": {"n": 1}}]},
    "append": True,
}

PAIRS = [
    (models.Message, MESSAGE, hub.Message),
    (models.Task, TASK | {"history": [MESSAGE]}, hub.Task),
    (models.Artifact, CHUNK["artifact"], hub.Artifact),
    (models.TaskStatusUpdateEvent, UPDATE, hub.TaskStatusUpdateEvent),
    (models.TaskArtifactUpdateEvent, CHUNK, hub.TaskArtifactUpdateEvent),
    (models.AgentCard, CARD, hub.AgentCard),
    (
        models.MessageSendParams,
        {"message": MESSAGE, "configuration": {"blocking": False}},
        hub.SendMessageRequest,
    ),
    (models.TaskQueryParams, {"id": "t", "historyLength": 3}, hub.GetTaskRequest),
    (models.TaskPushNotificationConfig, CONFIG, hub.TaskPushNotificationConfig),
]


@each(("model", "tree", "message"), PAIRS)
def test_models_have_messages_and_the_reverse(model: Any, tree: Any, message: Any) -> None:
    read = models.read(model, tree)
    decoded = models.decode(read)
    assert type(decoded) is message
    assert decoded != message()
    assert models.encode(decoded) == read


def test_parts_go_with_or_without_their_root() -> None:
    part = models.TextPart(text="hi", metadata={"a": 1})
    assert models.decode(part) == models.decode(models.Part(root=part))
    assert models.encode(hub.Part(text="hi")) == models.Part(root=models.TextPart(text="hi"))


def test_a_stream_response_is_one_of_four_models() -> None:
    for model, tree in ((models.Task, TASK), (models.Message, MESSAGE)):
        read = models.read(model, tree)
        decoded = models.decode(read)
        name = type(decoded).__name__.lower()
        assert models.encode(hub.StreamResponse(**{name: decoded})) == read
        assert models.encode(hub.SendMessageResponse(**{name: decoded})) == read
    update = models.read(models.TaskStatusUpdateEvent, UPDATE)
    assert models.encode(hub.StreamResponse(status_update=models.decode(update))) == update


def test_numbers_keep_their_values() -> None:
    data = {"whole": 2**60, "fraction": 0.1, "large": 1e300}
    part = models.DataPart(data=data)
    again = models.encode(hub.Part.FromString(models.decode(part).SerializeToString()))
    assert {name: repr(value) for name, value in again.root.data.items()} == {
        name: repr(value) for name, value in data.items()
    }


def test_errors_become_exceptions_and_back() -> None:
    error = models.decode(models.TaskNotFoundError(data={"why": "gone"}))
    assert isinstance(error, A2AError)
    assert error.reason is Reason.TASK_NOT_FOUND
    assert models.encode(error) == models.TaskNotFoundError(data={"why": "gone"})
    wrapped = models.decode(models.A2AError(root=models.InvalidParamsError(message="id is odd")))
    assert (wrapped.reason, wrapped.message) == (Reason.INVALID_PARAMS, "id is odd")
    own = models.JSONRPCError(code=-32050, message="mine")
    assert models.encode(models.decode(own)).code == -32050
    assert models.encode(A2AError(Reason.PARSE_ERROR)).message == models.JSONParseError().message


def test_undeclared_members_survive_the_hub() -> None:
    message = models.read(models.Message, MESSAGE | {"x-note": {"a": None}})
    assert models.encode(models.decode(message)) == message


def test_content_of_peers_outside_of_the_schema_is_shown_within_it() -> None:
    tree = {"messageId": "m", "role": "agent", "parts": [{"data": [1, 2]}, {"kind": "file", "file": {}}]}
    assert models.check(models.Message, tree)
    message = shapes.MESSAGE.decode(tree)
    assert says(shapes.MESSAGE.encode(message), tree)
    first, second = (part.root for part in models.encode(message).parts)
    assert first.data == {"value": [1, 2]}
    assert second.file.uri == ""


@given(data=st.data())
def test_every_tree_that_the_codec_accepts_has_a_model(data: Any) -> None:
    tree = data.draw(strategies_v0.results())
    made = models.encode(reading(shapes.RESULT.decode, codec.dumps(tree)))
    assert models.check(type(made), models.write(made)) == []


def test_invalid_json_is_rejected() -> None:
    with pytest.raises(A2AError) as caught:
        models.decode(models.DataPart(data={"at": datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)}))
    assert caught.value.reason is Reason.INVALID_PARAMS
    for data in ({"n": math.nan}, {"n": 0.5, "at": datetime.date(2025, 1, 1)}, {"n": [1.5, {1, 2}]}):
        with pytest.raises(A2AError) as caught:
            models.decode(models.DataPart(data=data))
        assert caught.value.reason is Reason.INVALID_PARAMS


def test_a_wrong_member_is_named() -> None:
    task = models.read(models.Task, TASK | {"status": {"state": "working", "message": MESSAGE}})
    task.status.message.parts[0].root.text = 5  # type: ignore[union-attr]
    with pytest.raises(A2AError) as caught:
        models.decode(task)
    assert caught.value.violations == (
        Violation("status.message.parts[0].text", "expected a string, got a number"),
    )


def test_types_without_a_counterpart_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="OAuthFlows"):
        models.decode(models.OAuthFlows())
    with pytest.raises(TypeError, match="ListTasksRequest"):
        models.encode(hub.ListTasksRequest())


def test_subclasses_of_users_count_as_their_base() -> None:
    class Signed(models.Message):
        seal: str = "s"

    signed = Signed(message_id="m", role="user", parts=[])
    assert models.encode(models.decode(signed)).model_extra == {"seal": "s"}
    assert models.MessageSendParams(message=signed).message is signed


async def test_an_agent_can_be_written_with_them() -> None:
    @agent
    async def old(run: Run) -> Any:
        """Counts letters."""
        asked = models.encode(run.message)
        text = asked.parts[0].root.text
        if not text:
            raise models.decode(models.ContentTypeNotSupportedError())
        yield models.decode(models.DataPart(data={"letters": len(text)}))

    async with connect(old) as peer:
        reply = await peer.send("hello")
        assert models.encode(reply.task.artifacts[0]).parts[0].root.data == {"letters": 5}


def test_the_text_of_an_error_names_one_member_and_the_violations_all() -> None:
    with pytest.raises(A2AError) as caught:
        models.read(models.Message, MESSAGE | {"messageId": 1, "role": "nobody"})
    texts = [f"{one.field}: {one.description}" for one in caught.value.violations]
    assert len(texts) == 2
    assert caught.value.message == texts[0]
