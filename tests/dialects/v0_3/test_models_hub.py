"""Code of 0.3 meets the library: models become messages of the hub, and messages become models."""

import copy
import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge import A2AError, Reason, Run, agent, codec, connect
from a2a_bridge.codec import DecodeError
from a2a_bridge.core.errors import Violation
from a2a_bridge.dialects.v0_3 import models, requests, shapes
from a2a_bridge.dialects.v0_3 import shapes as parts
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
        text = models.encode(run.message).parts[0].root.text
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


# The models and the codec of the `kind` shape agree about valid trees, except where the codec is lenient.

ROWS = {row.address: row for row in requests.ROWS}

#: the compared pairs: a model, and the function that reads the same tree
JUDGED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Part": (models.Part, parts.PART.decode),
    "Message": (models.Message, shapes.MESSAGE.decode),
    "Artifact": (models.Artifact, shapes.ARTIFACT.decode),
    "Task": (models.Task, shapes.TASK.decode),
    "TaskStatusUpdateEvent": (models.TaskStatusUpdateEvent, shapes.EVENT.decode),
    "TaskArtifactUpdateEvent": (models.TaskArtifactUpdateEvent, shapes.EVENT.decode),
    "MessageSendParams": (models.MessageSendParams, ROWS["message/send"].decode_request),
    "TaskQueryParams": (models.TaskQueryParams, ROWS["tasks/get"].decode_request),
    "TaskIdParams": (models.TaskIdParams, ROWS["tasks/cancel"].decode_request),
    "TaskPushNotificationConfig": (
        models.TaskPushNotificationConfig,
        ROWS["tasks/pushNotificationConfig/set"].decode_request,
    ),
}

#: content that the models reject, as the schema does, and the codec accepts: path and problem, and why
LENIENCES = {
    r"(.*\.)?data expected an object, got .*": "the prose of 0.2.5 has arrays, and the hub takes any value",
    r"(.*\.)?file needs either bytes or uri": "0.1 has files without content, and they pass through here",
    r"metadata expected an object, got .*": "what tasks/get says there travels beside the request, as it came",
    r".* (is required|expected .*, got null)": "absent is empty in the hub; what is REQUIRED is judged there",
}

#: content that the codec rejects although the schema allows it: why
STRICTER = {
    "historyLength: expected an integer of at least 0": "a negative number of messages means nothing",
    "is not base64": "no schema says what base64 is",
}

#: their names in the hub
OF_THE_HUB = {"MessageSendParams": "SendMessageRequest"}

NAMES = st.sampled_from(["x", "name", "é", "a.b", "urn:x"])
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def trees(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Trees that a JSON schema, as pydantic writes them, allows."""
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: trees(definitions[target], definitions))
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return st.one_of([trees(one, definitions) for one in options])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "string":
            return st.text(max_size=5)
        case "integer":
            return st.integers(-(2**63), 2**64 - 1) | st.integers(0, 20).map(float)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(trees(schema["items"], definitions), max_size=2)
        case "object" if "properties" in schema:
            members = {name: trees(one, definitions) for name, one in schema["properties"].items()}
            required = {name: members[name] for name in schema.get("required", ())}
            optional = {name: one for name, one in members.items() if name not in required}
            known = st.fixed_dictionaries(required, optional=optional)
            return st.builds(lambda own, more: more | own, known, st.just({}) | strangers(members))
        case "object":
            return st.dictionaries(NAMES, JSON, max_size=3)
    return JSON


def strangers(members: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from([name for name in ("x", "y-z", "later") if name not in members])
    return st.dictionaries(names, JSON, max_size=1)


def valid(name: str) -> st.SearchStrategy[Any]:
    schema = JUDGED[name][0].model_json_schema()
    return trees(schema, schema.get("$defs", {}))


VALID = {name: valid(name) for name in JUDGED}


def places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """All (container, key) in a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found.append((tree, key))
        places(value, found)
    return found


@st.composite
def broken(draw: st.DrawFn, name: str) -> Any:
    """A valid tree with one change anywhere, which may leave it valid."""
    tree = copy.deepcopy(draw(VALID[name]))
    spots = places(tree, [])
    if spots:
        container, key = draw(st.sampled_from(spots))
        if draw(st.booleans()) and isinstance(container, dict):
            del container[key]
        else:
            container[key] = draw(st.sampled_from([None, 1, "", "x", True, [], {}, [1], 1.5, {"text": 1}]))
    return tree


def rejected(decode: Callable[[Any], Any], tree: Any) -> str:
    """The error of a decoder for a tree; empty if it accepts it."""
    try:
        decode(tree)
    except (DecodeError, A2AError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", JUDGED)
@given(data=st.data())
def test_trees_that_a_model_accepts_the_codec_accepts(name: str, data: st.DataObject) -> None:
    model, decode = JUDGED[name]
    tree = data.draw(VALID[name])
    assert models.check(model, tree) == []
    said = rejected(decode, tree)
    assert not said or any(text in said for text in STRICTER)


@pytest.mark.parametrize("name", JUDGED)
@given(data=st.data())
def test_trees_that_a_model_rejects_the_codec_rejects(name: str, data: st.DataObject) -> None:
    model, decode = JUDGED[name]
    tree = data.draw(broken(name))
    said = rejected(decode, tree)
    found = models.check(model, tree)
    severe = [one for one in found if not any(re.fullmatch(rule, told(one)) for rule in LENIENCES)]
    if severe or (not found and not any(text in said for text in STRICTER)):
        assert bool(said) == bool(severe), (said, found)


def told(one: Violation) -> str:
    return f"{one.field} {one.description}"


@pytest.mark.parametrize("name", JUDGED)
@given(data=st.data())
def test_reading_and_writing_loses_nothing(name: str, data: st.DataObject) -> None:
    model, _ = JUDGED[name]
    tree = data.draw(VALID[name])
    missing = [place for place in said(tree) if place not in said(models.write(models.read(model, tree)))]
    assert missing == []


@pytest.mark.parametrize(
    "name",
    # The others have content beside the message.
    [
        name
        for name in JUDGED
        if name not in {"TaskIdParams", "TaskQueryParams", "TaskPushNotificationConfig"}
    ],
)
@given(data=st.data())
def test_through_the_hub_and_back_is_the_same_model(name: str, data: st.DataObject) -> None:
    model, decode = JUDGED[name]
    read = models.read(model, data.draw(VALID[name]))
    if rejected(decode, models.write(read)):
        return  # STRICTER
    message = models.decode(read)
    assert type(message).__name__ == OF_THE_HUB.get(name, name)
    again = models.encode(type(message).FromString(message.SerializeToString()))
    assert says(models.write(again), models.write(read))


def said(tree: Any, path: str = "") -> list[tuple[str, str]]:
    """The content of a tree, without null members of objects; 1 is not 1.0 is not true."""
    if isinstance(tree, dict):
        inner = [said(value, f"{path}.{name}") for name, value in tree.items() if value is not None]
    elif isinstance(tree, list):
        inner = [said(value, f"{path}[{index}]") for index, value in enumerate(tree)]
    else:
        # An integer may be written as 3.0, and is still one.
        text = repr(tree if not isinstance(tree, float) or not path.endswith("historyLength") else int(tree))
        return [(path, text)]
    return [(path, type(tree).__name__), *(one for found in inner for one in found)]


@pytest.mark.parametrize("rule", LENIENCES)
def test_every_lenience_is_needed(rule: str) -> None:
    examples = {
        "Message": {"kind": "message", "role": "user", "parts": []},
        "Part": {"kind": "data", "data": [1]},
        "Artifact": {"artifactId": "a", "parts": [{"kind": "file", "file": {}}]},
        "TaskQueryParams": {"id": "t", "metadata": []},
    }
    for name, tree in examples.items():
        model, decode = JUDGED[name]
        if re.fullmatch(rule, told(models.check(model, tree)[0])):
            assert rejected(decode, tree) == ""
            return
    raise AssertionError(rule)
