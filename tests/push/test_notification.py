"""The form of a push notification on the wire, per version, and notifications that cannot be sent."""

import json
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import notification
from a2a_bridge.push.notification import deliverable, read, task_of
from a2a_bridge.testing.each import each
from tests.rejections import rejected

WORKING = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
TASK = hub.Task(id="t", context_id="c", status=WORKING)
STATUS = hub.StreamResponse(
    status_update=hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=WORKING)
)
PIECE = hub.StreamResponse(
    artifact_update=hub.TaskArtifactUpdateEvent(
        task_id="t", context_id="c", artifact=hub.Artifact(artifact_id="a", parts=[hub.Part(text="x")])
    )
)


def config(url: str = "https://hook.example/", **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id="p", url=url, **members)


@each("version", ["", "1.0", "1.0.1", "9.9"])
@each(
    ("event", "member"),
    [(hub.StreamResponse(task=TASK), "task"), (STATUS, "statusUpdate"), (PIECE, "artifactUpdate")],
)
def test_in_1_0_it_is_the_event(event: hub.StreamResponse, member: str, version: str) -> None:
    made = notification(config(), event, TASK, version)
    assert made.url == "https://hook.example/"
    assert made.headers == {"Content-Type": "application/a2a+json"}
    assert list(json.loads(made.body)) == [member]
    assert read(made.body) == event


def test_token_and_credentials_are_headers() -> None:
    login = hub.AuthenticationInfo(scheme="Bearer", credentials="secret")
    made = notification(config(token="t-1", authentication=login), STATUS, TASK, "")  # noqa: S106
    assert made.headers["X-A2A-Notification-Token"] == "t-1"
    assert made.headers["Authorization"] == "Bearer secret"
    for incomplete in (hub.AuthenticationInfo(scheme="Bearer"), hub.AuthenticationInfo(credentials="x")):
        made = notification(config(authentication=incomplete), STATUS, TASK, "")
        assert "Authorization" not in made.headers


@each(
    ("url", "fine"),
    [
        ("http://localhost:8080/hook?x=1", True),
        ("https://hook.example", True),
        ("http://[::1]:80/", True),
        ("ftp://hook.example/", False),
        ("file:///etc/passwd", False),
        ("hook.example", False),
        ("http://", False),
        ("http:///path", False),
        ("http://host:99999/", False),
        ("http://host:0/", False),
        ("http://[::1/", False),
        ("http://user:pass@hook.example/", False),
        ("http://hook.example/\r\nX: y", False),
        ("http://hook.example/a b", False),
        ("", False),
    ],
)
def test_only_http_urls_can_be_sent_to(url: str, fine: bool) -> None:
    rejection = deliverable(config(url))
    assert (rejection is None) is fine
    if rejection is not None:
        assert rejection.reason is Reason.INVALID_PARAMS
        assert [one.field for one in rejection.violations] == ["url"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://hook.example/", "not an http or https URL"),
        ("http://user:pass@hook.example/", "has a user"),
        ("http://host:99999/", "port"),
        ("http://host:0/", "port"),
        ("http://hook.example/a b", "a blank"),
        ("http://hook.example\\x/", "a backslash"),
    ],
)
def test_the_text_says_what_is_wrong_with_a_url(url: str, words: str) -> None:
    rejection = deliverable(config(url))
    assert rejection is not None
    assert words in rejection.violations[0].description


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"token": "a\r\nb"}, "token"),
        ({"token": "ü"}, "token"),
        ({"authentication": {"scheme": "Bearer\n", "credentials": "x"}}, "authentication.scheme"),
        ({"authentication": {"scheme": "Bearer", "credentials": "x\0"}}, "authentication.credentials"),
    ],
)
def test_values_invalid_in_a_header_are_rejected(members: dict[str, Any], field: str) -> None:
    rejection = deliverable(config(**members))
    assert rejection is not None
    assert [one.field for one in rejection.violations] == [field]


def test_a_task_made_of_an_event() -> None:
    assert task_of(STATUS) == TASK
    assert task_of(PIECE).artifacts[0].artifact_id == "a"


@each(
    ("body", "reason"),
    [
        (b"", Reason.PARSE_ERROR),
        (b"{", Reason.PARSE_ERROR),
        (b"[]", Reason.INVALID_PARAMS),
        (b"null", Reason.INVALID_PARAMS),
        (b"{}", Reason.INVALID_PARAMS),
        (b'{"task": 1}', Reason.INVALID_PARAMS),
        (b'{"kind": 1}', Reason.INVALID_PARAMS),
        (b'{"task": {}, "message": {}}', Reason.INVALID_PARAMS),
    ],
)
def test_an_invalid_notification_is_rejected(body: bytes, reason: Reason) -> None:
    with rejected(reason):
        read(body)


def test_names_are_the_receivers() -> None:
    def named(event: hub.StreamResponse) -> hub.StreamResponse:
        made = hub.StreamResponse()
        made.CopyFrom(event)
        made.task.id = "theirs"
        return made

    made = notification(config(), STATUS, TASK, "0.3", named)
    assert json.loads(made.body)["id"] == "theirs"
    assert TASK.id == "t"


def test_notifications_of_an_agent_of_0_1_are_read() -> None:
    body = json.dumps(
        {
            "id": "t",
            "sessionId": "c",
            "status": {
                "state": "working",
                "message": {"role": "agent", "parts": [{"type": "text", "text": "x"}]},
            },
        }
    ).encode()
    task = read(body, "0.1").task
    assert (task.id, task.context_id, task.status.message.parts[0].text) == ("t", "c", "x")
