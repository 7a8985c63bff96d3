"""Content that dialects carry in messages is kept and returned, and agents do not see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from a2a_bridge import agent
from a2a_bridge.codec import decoder, encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.dialects.unmapped import KEY, present, strip_copy, write
from a2a_bridge.hosting import Run
from a2a_bridge.hosting.agent_content import for_agent
from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.hosting.scene import COMPLETED, INPUT, WORKING, Talk, agent_of

RESIDUE = write("kind", [["/x", None, 1]])


def carrying(text: str = "x", *, own: bool = False, **members: Any) -> hub.SendMessageRequest:
    """A request with preserved content in every possible place; `own`: beside metadata of the user."""
    message = hub.Message(message_id=text, role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members)
    request = hub.SendMessageRequest(message=message)
    for unit in (request, request.message, request.message.parts[0]):
        unit.metadata[KEY] = RESIDUE
        if own:
            unit.metadata["own"] = "y"
    return request


def residues(message: Any) -> int:
    return message.SerializeToString().count(KEY.encode())


@each("text", ["x", "x" * 10_000])
@each("place", [[], [0], [1], [2], [0, 1, 2]])
def test_residues_are_found_wherever_they_are(place: list[int], text: str) -> None:
    request = carrying(text)
    units: list[Any] = [request, request.message, request.message.parts[0]]
    for number, unit in enumerate(units):
        if number not in place:
            unit.ClearField("metadata")
    seen = for_agent(request)
    assert (seen is request) is not place
    assert not present(seen)
    assert residues(request) == len(place)


def test_metadata_of_the_user_stays() -> None:
    seen = for_agent(carrying(own=True))
    assert isinstance(seen, hub.SendMessageRequest)
    assert (
        dict(seen.metadata)
        == dict(seen.message.metadata)
        == dict(seen.message.parts[0].metadata)
        == {"own": "y"}
    )


def test_unknown_members_are_not_seen_either() -> None:
    part = {"text": "x", "later": 1}
    tree = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part], "later": 2}, "later": 3}
    request = decoder(hub.SendMessageRequest, keeps=True)(tree)
    seen = for_agent(request)
    assert seen.SerializeToString() == decoder(hub.SendMessageRequest)(tree).SerializeToString()
    assert encoder(hub.SendMessageRequest, keeps=True)(request) == tree


async def test_a_task_keeps_carried_content_that_its_agent_does_not_see() -> None:
    seen: list[Any] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        seen.extend((run.request, run.message, run.task or hub.Task(), *run.history))
        yield run.status("working" if run.task is None else "completed", *run.parts)
        if run.task is None:
            yield run.status("input-required")

    async def cancel(run: Run) -> AsyncIterator[Event]:
        seen.extend((run.request, run.task))
        yield run.status("canceled")

    talk = Talk(agent_of(execute, cancel))
    response = await talk.client.send_message(carrying("first"))
    task_id = response.task.id
    assert response.task.status.state == INPUT
    assert residues(response.task.history[0]) == 2
    follow_up = carrying("second", task_id=task_id)
    task = (await talk.client.send_message(follow_up)).task
    assert task.status.state == COMPLETED
    assert [residues(one) for one in task.history if one.role == hub.ROLE_USER] == [2, 2]
    assert residues(await talk.get(task_id)) == 4
    other = (await talk.client.send_message(carrying("third"))).task
    cancelling = hub.CancelTaskRequest(id=other.id)
    cancelling.metadata[KEY] = RESIDUE
    await talk.client.cancel_task(cancelling, CallContext())
    assert len(seen) == 4 + 6 + 4 + 2
    assert not any(present(one) for one in seen)


async def test_an_agent_that_gives_its_callers_message_back_loses_nothing() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        task = run.start()
        task.history.append(run.message)
        yield task
        yield run.status(WORKING)
        yield run.status(COMPLETED)

    task = (await Talk(agent_of(execute)).client.send_message(carrying())).task
    assert len(task.history) == 1
    assert residues(task.history[0]) == 2


async def test_a_direct_answer_is_given_without_it() -> None:
    @agent
    async def echo(run: Run) -> hub.Message:
        assert not present(run.request)
        return run.reply(*run.parts)

    response = await Talk(echo).client.send_message(carrying())
    assert response.message.parts[0] == strip_copy(carrying().message.parts[0])
