"""a2a.v1 in JSON for readers that reject members younger than v0.3.0, as Java's parser does, even empty ones."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import HTTP_JSON, V0_2_5, V0_3
from a2a_bridge.dialects.v0_3 import proto_rows
from a2a_bridge.dialects.v0_3.proto import PARTS
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.rejections import rejected

JAVA = {"user-agent": "Java-http-client/21"}


def part(metadata: dict[str, Any] | None = None, **members: Any) -> hub.Part:
    made = hub.Part(**members)
    if metadata is not None:
        made.metadata.update(metadata)
        made.metadata.SetInParent()
    return made


PARTS_OF_ALL_KINDS = [
    part(text="a"),
    part({}, text="b"),
    part({"k": {"content": [{"metadata": {}}]}}, text="c"),
    part({"n": 1}, raw=b"d", filename="d.txt", media_type="text/plain"),
    part(url="https://e.example/e", filename="e.txt"),
]
MESSAGE = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=PARTS_OF_ALL_KINDS)
ARTIFACT = hub.Artifact(artifact_id="a", parts=PARTS_OF_ALL_KINDS)
TASK = hub.Task(
    id="t",
    context_id="c",
    status=hub.TaskStatus(state=hub.TASK_STATE_WORKING, message=MESSAGE),
    artifacts=[ARTIFACT],
    history=[MESSAGE],
)
MOVED = {
    "2": {"metadata": {"k": {"content": [{"metadata": {}}]}}},
    "3": {"metadata": {"n": 1}, "name": "d.txt"},
    "4": {"name": "e.txt"},
}


def written(holder: dict[str, Any], member: str) -> None:
    """Asserts that the parts of a message or artifact have no younger member, and that these moved."""
    for one in holder[member]:
        assert one.keys() <= {"text", "file", "data"}
        assert one.get("file", {}).keys() <= {"fileWithBytes", "fileWithUri", "mimeType"}
    assert holder["metadata"][PARTS] == MOVED


@pytest.mark.parametrize("dialect", [V0_3, V0_2_5])
def test_callers_that_parse_strictly_get_no_younger_member(dialect: Any) -> None:
    row = dialect.form(HTTP_JSON).row(ops.GET_TASK)
    tree = row.extras.variant({}, JAVA).encode_response(TASK)
    written(tree["history"][0], "content")
    written(tree["artifacts"][0], "parts")
    status = tree["status"]
    written(status["update" if "update" in status else "message"], "content")
    # Others get the members in their place.
    tree = row.extras.variant({}, {"user-agent": "python-httpx/0.28"}).encode_response(TASK)
    assert tree["history"][0]["content"][3]["file"]["name"] == "d.txt"
    assert "metadata" not in tree["history"][0]
    row = dialect.form(HTTP_JSON).row(ops.SEND_MESSAGE)
    tree = row.extras.variant({}, JAVA).encode_response(hub.SendMessageResponse(message=MESSAGE))
    written(tree.get("message") or tree["msg"], "content")


def test_agents_that_parse_strictly_get_no_younger_member() -> None:
    form = V0_3.form(HTTP_JSON)
    row = form.row(ops.SEND_MESSAGE) if form is not None else None
    assert row is not None
    assert row.extras.strict is not None
    request = hub.SendMessageRequest(message=MESSAGE)
    written(row.extras.strict(row.encode_request(request))["message"], "content")


def test_empty_metadata_of_parts_is_never_written() -> None:
    """Java 1.x writes it on each part, and Java 0.3 rejects the member: the two meet only without it."""
    part = hub.Part(text="x")
    part.metadata.SetInParent()
    message = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[part])
    for kind, answer in (
        (ops.SEND_MESSAGE, hub.SendMessageResponse(message=message)),
        (ops.SUBSCRIBE_TO_TASK, hub.StreamResponse(message=message)),
    ):
        form = V0_3.form(HTTP_JSON)
        assert form is not None
        row = form.row(kind)
        assert row is not None
        assert "metadata" not in str(row.encode_response(answer))
    request = hub.SendMessageRequest(message=message)
    assert form is not None
    row = form.row(ops.SEND_MESSAGE)
    assert row is not None
    assert "metadata" not in str(row.encode_request(request))


# --- Resource names of a2a.v1: their content, their errors, and that no id is lost in one ---

IDS = st.text(st.sampled_from("/%2F5f25a1 ö") | st.characters(exclude_categories=["Cs"]), min_size=1)


@given(task_id=IDS, config_id=IDS)
@example(task_id="a/b", config_id="100%")
@example(task_id="%2F", config_id="%25")
@example(task_id="%%2f/", config_id="%2")
def test_every_id_survives_in_a_name(task_id: str, config_id: str) -> None:
    assert proto_rows.decode_task(proto_rows.encode_task(task_id)) == task_id
    assert proto_rows.decode_parent(proto_rows.encode_task(task_id)) == task_id
    assert proto_rows.decode_config(proto_rows.encode_config(task_id, config_id)) == (task_id, config_id)


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("7f0c", "tasks/7f0c"),
        ("a/b", "tasks/a%2Fb"),
        ("100%", "tasks/100%"),
        ("%41", "tasks/%41"),
        ("%2F", "tasks/%252F"),
        ("%25", "tasks/%2525"),
        ("", ""),
    ],
)
def test_only_necessary_characters_are_escaped(task_id: str, name: str) -> None:
    assert proto_rows.encode_task(task_id) == name


@pytest.mark.parametrize(
    "parent",
    [
        "tasks/t",
        "task/t",
        "tasks/t/pushNotificationConfigs",
        "task/t/pushNotificationConfigs",
        "tasks/t/pushNotificationConfigs/",
    ],
)
def test_parents_are_read_in_every_variant_they_have_had(parent: str) -> None:
    assert proto_rows.decode_parent(parent) == "t"


@pytest.mark.parametrize("name", ["tasks/t/pushNotificationConfigs", "tasks/t/pushNotificationConfigs/"])
def test_a_configuration_may_have_no_id_yet(name: str) -> None:
    assert proto_rows.decode_config(name) == ("t", "")
    with pytest.raises(A2AError) as caught:
        proto_rows.decode_whole_config(name)
    assert caught.value.violations[0].field == "name"


@each(
    "name", ["tasks/a/b", "tasks/", "tasks", "t", "task/t", "/tasks/t", "tasks/t/", "xtasks/t", "tasks/t\n/x"]
)
def test_an_invalid_task_name_is_rejected_as_a_whole(name: str) -> None:
    with rejected(Reason.INVALID_PARAMS, "name"):
        proto_rows.decode_task(name)


def test_an_empty_name_counts_as_missing() -> None:
    with pytest.raises(A2AError, match="parent: is required"):
        proto_rows.decode_parent("")
