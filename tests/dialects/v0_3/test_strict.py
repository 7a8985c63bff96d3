"""a2a.v1 in JSON for readers that reject members younger than v0.3.0, as Java's parser does, even empty ones."""

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects import HTTP_JSON, V0_2_5, V0_3
from a2a_bridge.dialects.v0_3.proto import PARTS
from a2a_bridge.pb import lf_a2a_v1 as hub

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
