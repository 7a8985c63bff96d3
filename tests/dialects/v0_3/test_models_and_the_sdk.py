"""The models beside the pydantic types that a2a-sdk generates from the same schema, member by member."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined

from a2a_bridge.dialects.v0_3 import models
from tests.architecture.repository import BIN, ROOT, run
from tests.dialects.v0_3.schema import ERRORS

pytestmark = pytest.mark.sdk

#: (type, member) -> the reason for a difference from the SDK
DEFAULTS = {
    ("TaskStatusUpdateEvent", "final"): "absent is false, as the prose of 0.2.5 says",
    (
        "DeleteTaskPushNotificationConfigSuccessResponse",
        "result",
    ): "there is one value only, and agents leave it out",
}
#: the same for the type of a member
TYPES = {
    ("AgentCard", "protocolVersion"): "the schema requires it: null is wrong",
    **{(name, "message"): "null becomes the default text when it is read" for name in ERRORS},
}
#: names of the SDK that the specification does not have
NOT_OURS: set[str] = set()
#: names of ours that the SDK does not have in this module
NOT_THEIRS = {"check", "decode", "encode", "read", "write"}


def theirs() -> dict[str, Any]:
    from a2a.compat.v0_3 import types

    return {
        name: cls
        for name, cls in vars(types).items()
        if inspect.isclass(cls) and name.isidentifier() and name not in {"Any", "Enum", "RootModel"}
    }


def members(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def encoded(schema: Any, definitions: dict[str, Any]) -> Any:
    """The content of a schema, without texts, order and names of branches."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return frozenset(encoded(one, definitions) for one in options)
    if schema.get("type") == "array":
        return ("array", encoded(schema["items"], definitions))
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties", True)
        return ("object", extra if isinstance(extra, bool) else encoded(extra, definitions))
    return schema.get("const", schema.get("type", "any"))


def test_the_names_are_the_same() -> None:
    assert set(theirs()) - set(models.__all__) == NOT_OURS
    assert set(models.__all__) - set(theirs()) == NOT_THEIRS


def test_every_member_has_the_same_name_default_and_type() -> None:
    defaults: set[tuple[str, str]] = set()
    types: set[tuple[str, str]] = set()
    for name, other in theirs().items():
        own = getattr(models, name)
        if not issubclass(other, BaseModel):
            assert [one.value for one in own] == [one.value for one in other], name
            assert [one.name for one in own] == [one.name for one in other], name
            continue
        if issubclass(other, RootModel):
            continue
        assert members(own).keys() == members(other).keys(), name
        for member, field in members(other).items():
            mine = members(own)[member]
            if mine.get_default() is PydanticUndefined:
                same = field.get_default() is PydanticUndefined
            else:
                same = mine.get_default() == field.get_default()
            if not same:
                defaults.add((name, member))
            schemas = [cls.model_json_schema() for cls in (own, other)]
            one, two = (encoded(schema["properties"][member], schema.get("$defs", {})) for schema in schemas)
            if one != two:
                types.add((name, member))
    assert (defaults, types) == (set(DEFAULTS), set(TYPES))


def test_unions_have_the_same_branches() -> None:
    for name, other in theirs().items():
        if issubclass(other, RootModel) and name != "A2A":
            own, two = (cls.model_json_schema() for cls in (getattr(models, name), other))
            assert encoded(own, {}) == encoded(two, {}), name


def test_the_sdk_and_we_read_each_others_messages() -> None:
    from a2a.compat.v0_3 import types

    task = types.Task(
        id="t",
        context_id="c",
        status=types.TaskStatus(state=types.TaskState.input_required, timestamp="2025-01-01T00:00:00Z"),
        history=[
            types.Message(
                message_id="m",
                role=types.Role.agent,
                parts=[
                    types.Part(root=types.TextPart(text="a", metadata={"n": 1})),
                    types.Part(root=types.FilePart(file=types.FileWithUri(uri="u", mime_type="a/b"))),
                    types.Part(root=types.DataPart(data={"x": [None, 1.5]})),
                ],
            )
        ],
    )
    answer = types.SendMessageSuccessResponse(id="1", result=task)
    tree = answer.model_dump(mode="json", exclude_none=True)
    read = models.read(models.SendMessageResponse, tree)
    assert models.write(read) == tree
    assert types.SendMessageResponse.model_validate(models.write(read)).root == answer
    nulls = models.read(models.SendMessageResponse, answer.model_dump(mode="json"))
    assert models.write(nulls) == tree


# Editors and type checkers see the right types of the models; mypy stands for all of them.


SNIPPET = """
from a2a_bridge.dialects.v0_2_5 import models as old
from a2a_bridge.dialects.v0_3 import models

message = models.Message(message_id="m", role=models.Role.user, parts=[models.Part(models.TextPart(text="a"))])
reveal_type(message.parts[0].root)  # Union[TextPart, FilePart, DataPart]
reveal_type(message.task_id)  # Union[str, None]
reveal_type(models.read(models.Task, {}).status.state)  # TaskState
reveal_type(models.read(models.SendMessageSuccessResponse, {}).result)  # Union[Task, Message]
reveal_type(models.read(models.DataPart, {}).data)  # dict[str, Any]
reveal_type(old.read(old.AgentCard, {}).skills[0].tags)  # list[str]
models.Message(message_id="m", role=models.Role.user)  # error: call-arg
models.TextPart(text=1)  # error: arg-type
message.identifier  # error: attr-defined
old.read(old.AgentCard, {}).signatures  # error: attr-defined
old.MutualTLSSecurityScheme()  # error: attr-defined
"""


@pytest.mark.process
def test_mypy_sees_the_types_of_models(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    done = run(BIN / "mypy", "--config-file", ROOT / "pyproject.toml", file)
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, _, expected = line.partition("  # ")
        said = [text for text in done.stdout.splitlines() if f"snippet.py:{number}:" in text]
        if expected.startswith("error: "):
            assert any(text.endswith(f"[{expected.removeprefix('error: ')}]") for text in said), (code, said)
        elif expected:
            revealed = [match[1] for text in said if (match := re.search(r'Revealed type is "(.*?)"', text))]
            assert len(revealed) == 1, (code, said, done.stderr)
            short = re.sub(r"(?:\w+\.)+(?=[A-Za-z])", "", revealed[0])
            assert typed_members(short) == typed_members(expected), code
        else:
            assert not said, said


def typed_members(shown: str) -> set[str]:
    """The members of a union, in the notation of any version of mypy."""
    match = re.fullmatch(r"Union\[(.*)\]", shown)
    return set(re.split(r", ", match[1])) if match else set(shown.split(" | "))
