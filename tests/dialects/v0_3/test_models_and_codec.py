"""The models and the codec of the `kind` shape agree about valid trees, except where the codec is lenient."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.codec import DecodeError
from a2a_bridge.core.errors import A2AError, Violation
from a2a_bridge.dialects.v0_3 import models, requests, shapes
from a2a_bridge.dialects.v0_3 import shapes as parts
from tests.identity import says

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
