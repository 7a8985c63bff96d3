"""Run: the values that an executor reads from it, and the results of its constructors."""

from __future__ import annotations

import re

import pytest

from a2a_bridge.app.peer import request_of
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.messages import data_part
from a2a_bridge.hosting import Run
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.hosting.scene import INPUT, SUBMITTED, WORKING, request


def run_of(text: str = "hi", **members: object) -> Run:
    return Run(request(text, **members), CallContext(), "task", "context")


def test_input_of_a_run() -> None:
    configuration = hub.SendMessageConfiguration(accepted_output_modes=["text/plain"])
    run = run_of("hi", configuration=configuration, metadata={"n": 7})
    assert (run.text, run.message.message_id, len(run.parts)) == ("hi", "m-1", 1)
    assert list(run.accepted_output_modes) == ["text/plain"]
    assert run.configuration == configuration
    assert run.metadata["n"] == 7
    assert [one.message_id for one in run.history] == ["m-1"]
    assert not run.cancelled


def test_a_cancellation_has_no_message() -> None:
    run = Run(hub.CancelTaskRequest(id="task"), CallContext(), "task", "context", hub.Task(id="task"))
    assert (run.text, len(run.parts), len(run.history), len(run.accepted_output_modes)) == ("", 0, 0, 0)
    assert run.configuration == hub.SendMessageConfiguration()


def test_a_reply() -> None:
    message = run_of().reply("a", b"b", {"c": 1}, metadata={"n": 7})
    assert [part.WhichOneof("content") for part in message.parts] == ["text", "raw", "data"]
    assert (message.role, message.context_id) == (hub.ROLE_AGENT, "context")
    assert message.message_id
    assert message.metadata["n"] == 7
    assert run_of().reply(message) is message


def test_a_task_to_start_with() -> None:
    task = run_of().start(metadata={"n": 7})
    assert (task.id, task.context_id, task.status.state) == ("task", "context", SUBMITTED)
    assert task.metadata["n"] == 7


@pytest.mark.parametrize(
    ("state", "number"),
    [
        ("working", WORKING),
        ("input-required", INPUT),
        ("input_required", INPUT),
        ("TASK_STATE_WORKING", WORKING),
        (INPUT, INPUT),
    ],
)
def test_a_status_names_its_state(state: hub.TaskState | str, number: int) -> None:
    event = run_of().status(state)
    assert (event.task_id, event.context_id, event.status.state) == ("task", "context", number)
    assert not event.status.HasField("message")


def test_a_status_may_say_something() -> None:
    event = run_of().status("working", "a", "b", metadata={"n": 7})
    assert [part.text for part in event.status.message.parts] == ["a", "b"]
    assert event.metadata["n"] == 7


def test_a_state_that_is_none_is_rejected() -> None:
    with pytest.raises(ValueError, match="sleeping"):
        run_of().status("sleeping")


def test_an_artifact() -> None:
    event = run_of().artifact(
        "a", 7, artifact_id="x", name="N", description="D", append=True, last=False,
        metadata={"n": 7}, extensions=["https://e.example/1"],
    )  # fmt: skip
    artifact = event.artifact
    assert (event.task_id, event.context_id, event.append, event.last_chunk) == (
        "task",
        "context",
        True,
        False,
    )
    assert (artifact.artifact_id, artifact.name, artifact.description) == ("x", "N", "D")
    assert [part.WhichOneof("content") for part in artifact.parts] == ["text", "data"]
    assert list(artifact.extensions) == ["https://e.example/1"]
    assert artifact.metadata["n"] == 7
    assert run_of().artifact("a").last_chunk
    assert run_of().artifact("a").artifact.artifact_id != run_of().artifact("a").artifact.artifact_id


async def test_waiting_for_a_cancellation() -> None:
    run = run_of()
    run.cancel()
    await run.wait_cancelled()
    assert run.cancelled


def test_ids_are_of_version_7_and_never_twice() -> None:
    made = [new_id() for _ in range(2000)]
    form = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(form.fullmatch(one) for one in made)
    assert len(set(made)) == len(made)
    assert [one[:13] for one in made] == sorted(one[:13] for one in made)


def test_a_list_with_parts_is_those_parts() -> None:
    run = run_of()
    parts = [hub.Part(text="a"), hub.Part(raw=b"b", media_type="x/y")]
    mixed = [hub.Part(text="a"), b"b", {"c": 1}]
    for given, made in (
        (parts, parts),
        (tuple(parts), parts),
        (mixed, [parts[0], hub.Part(raw=b"b"), data_part({"c": 1})]),
    ):
        assert list(run.artifact(given).artifact.parts) == made
        assert list(run.reply(given).parts) == made
        assert list(run.status("working", given).status.message.parts) == made
    assert list(run.artifact("x", parts).artifact.parts) == [hub.Part(text="x"), *parts]
    assert list(request_of([parts]).message.parts) == parts


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("pic.png", "image/png"),
        ("a.json", "application/json"),
        ("a.tar.gz", "application/gzip"),
        ("a.tar.bz2", ""),
        ("pic", ""),
        ("", ""),
    ],
)
def test_bytes_get_the_media_type_of_their_name(name: str, media_type: str) -> None:
    run = run_of()
    own = hub.Part(raw=b"x", media_type="x/y")
    event = run.artifact(b"x", bytearray(b"y"), own, "text", [own, b"z"], name=name)
    assert [part.media_type for part in event.artifact.parts] == [
        media_type,
        media_type,
        "x/y",
        "",
        "x/y",
        media_type,
    ]
