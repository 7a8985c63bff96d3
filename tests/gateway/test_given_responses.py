"""Rule 4 of `core.service`: the services of a gateway change no response and no event that they are given."""

from collections.abc import Callable
from typing import Any

from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import V0_3
from a2a_bridge.gateway.connections import Contexts
from a2a_bridge.gateway.polyfill import polyfill
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

MESSAGE = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
SHORT = hub.SendMessageConfiguration(history_length=1)


def task() -> hub.Task:
    made = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
    for number in range(3):
        made.history.add(message_id=f"m{number}", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
        made.artifacts.add(artifact_id=f"a{number}", parts=[hub.Part(text="x")])
    return made


class Given:
    """An agent that has one response for each operation, and gives it again and again."""

    def __init__(self) -> None:
        self._answers: dict[Any, Any] = {
            ops.GET_TASK: task(),
            ops.SEND_MESSAGE: hub.SendMessageResponse(task=task()),
            ops.LIST_TASKS: hub.ListTasksResponse(tasks=[task(), task()], page_size=50),
            "task": hub.StreamResponse(task=task()),
            "update": hub.StreamResponse(
                artifact_update=hub.TaskArtifactUpdateEvent(
                    task_id="t", context_id="c", artifact=task().artifacts[1]
                )
            ),
        }
        self._events = {name: Event(self._answers[name]) for name in ("task", "update")}

    async def unary(self, call: Call[Any, Any]) -> Any:
        return self._answers[call.operation]

    async def stream(self, call: Call[Any, Any]) -> Any:
        yield self._events[call.request.message.parts[0].text]

    def is_unchanged(self) -> bool:
        return self._answers == Given()._answers and not any(one.gap for one in self._events.values())


def old(agent: Service) -> Service:
    return polyfill(agent, Candidate(interface("JSONRPC", "http://near"), V0_3), Tasks(now=lambda: 1))


def streaming(which: str, **members: Any) -> hub.SendMessageRequest:
    made = hub.SendMessageRequest(message=MESSAGE, configuration=SHORT)
    made.message.parts[0].text = which
    made.message.task_id = members.get("task_id", "")
    return made


@each(
    "wrap, operation, request",
    [
        (old, ops.GET_TASK, hub.GetTaskRequest(id="t", history_length=1)),
        (old, ops.SEND_MESSAGE, hub.SendMessageRequest(message=MESSAGE, configuration=SHORT)),
        (old, ops.LIST_TASKS, hub.ListTasksRequest(history_length=0)),
        (old, ops.SEND_STREAMING_MESSAGE, streaming("task")),
        (old, ops.SEND_STREAMING_MESSAGE, streaming("update")),
        (old, ops.SEND_STREAMING_MESSAGE, streaming("update", task_id="t")),
        (lambda agent: Contexts(agent, Tasks()), ops.LIST_TASKS, hub.ListTasksRequest()),
    ],
)
async def test_a_given_response_is_not_changed(
    wrap: Callable[[Service], Service], operation: Any, request: Any
) -> None:
    agent: Any = Given()
    service = wrap(agent)
    # Lists are made of the tasks that have passed.
    sent = hub.SendMessageRequest(message=MESSAGE)
    await service.unary(Call(ops.SEND_MESSAGE, sent, CallContext()))
    for _ in range(2):
        call = Call(operation, request, CallContext())
        if operation is ops.SEND_STREAMING_MESSAGE:
            assert [event async for event in service.stream(call)]
        else:
            assert await service.unary(call)
        assert agent.is_unchanged()
