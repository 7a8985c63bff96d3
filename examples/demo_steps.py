"""The steps of the demo, and the form of results that is compared. The clients are elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from a2a.types import a2a_pb2 as a2a
from demo_clients import Caller, Rejected
from google.protobuf.json_format import MessageToDict

from a2a_bridge_tools.client.comparing import canonical, differences


def said(text: str, **members: Any) -> Any:
    message = a2a.Message(message_id=str(uuid4()), role=a2a.ROLE_USER, parts=[a2a.Part(text=text)], **members)
    return a2a.SendMessageRequest(message=message)


async def send_for_message(client: Caller, _: dict[str, Any]) -> Any:
    return await client.call("send_message", said("hello world"))


async def send_for_task(client: Caller, memory: dict[str, Any]) -> Any:
    answer = await client.call("send_message", said("one two three"))
    memory["task"] = answer.task
    return answer


async def stream_message(client: Caller, _: dict[str, Any]) -> Any:
    return [event async for event in client.stream("send_streaming_message", said("hello stream"))]


async def stream_task(client: Caller, _: dict[str, Any]) -> Any:
    return [event async for event in client.stream("send_streaming_message", said("four five six"))]


async def get_task(client: Caller, memory: dict[str, Any]) -> Any:
    return await client.call("get_task", a2a.GetTaskRequest(id=memory["task"].id, history_length=1))


async def list_tasks(client: Caller, memory: dict[str, Any]) -> Any:
    context = memory["task"].context_id
    request = a2a.ListTasksRequest(context_id=context, include_artifacts=True)
    answer = await client.call("list_tasks", request)
    # The SDK's agent returns the requested size; the gateway returns the number of tasks in the page.
    answer.page_size = len(answer.tasks)
    return answer


async def two_turns(client: Caller, _: dict[str, Any]) -> Any:
    task = (await client.call("send_message", said("ask me"))).task
    return [
        task,
        await client.call("send_message", said("the end", task_id=task.id, context_id=task.context_id)),
    ]


async def subscribe_and_cancel(client: Caller, memory: dict[str, Any]) -> Any:
    request = said("wait for it")
    request.configuration.return_immediately = True
    task = (await client.call("send_message", request)).task
    memory["ended"] = task.id
    seen: list[Any] = []
    async for event in client.stream("subscribe_to_task", a2a.SubscribeToTaskRequest(id=task.id)):
        if not seen:
            memory["canceled"] = await client.call("cancel_task", a2a.CancelTaskRequest(id=task.id))
        seen.append(event)
    return seen


async def cancel(_: Caller, memory: dict[str, Any]) -> Any:
    return memory["canceled"]


async def cancel_again(client: Caller, memory: dict[str, Any]) -> Any:
    return await client.call("cancel_task", a2a.CancelTaskRequest(id=memory["task"].id))


async def subscribe_too_late(client: Caller, memory: dict[str, Any]) -> Any:
    request = a2a.SubscribeToTaskRequest(id=memory["ended"])
    return [event async for event in client.stream("subscribe_to_task", request)]


async def push_create(client: Caller, memory: dict[str, Any]) -> Any:
    config = a2a.TaskPushNotificationConfig(
        task_id=memory["task"].id, id="hook", url="http://localhost:9/hook"
    )
    return await client.call("create_task_push_notification_config", config)


async def push_get(client: Caller, memory: dict[str, Any]) -> Any:
    request = a2a.GetTaskPushNotificationConfigRequest(task_id=memory["task"].id, id="hook")
    return await client.call("get_task_push_notification_config", request)


async def push_list(client: Caller, memory: dict[str, Any]) -> Any:
    request = a2a.ListTaskPushNotificationConfigsRequest(task_id=memory["task"].id)
    return await client.call("list_task_push_notification_configs", request)


async def push_delete(client: Caller, memory: dict[str, Any]) -> Any:
    request = a2a.DeleteTaskPushNotificationConfigRequest(task_id=memory["task"].id, id="hook")
    return [
        await client.call("delete_task_push_notification_config", request),
        await push_list(client, memory),
    ]


async def unknown_task(client: Caller, _: dict[str, Any]) -> Any:
    return await client.call("get_task", a2a.GetTaskRequest(id="no-such-task"))


Step = Callable[[Caller, dict[str, Any]], Awaitable[Any]]

STEPS: dict[str, Step] = {
    "SendMessage → message": send_for_message,
    "SendMessage → task": send_for_task,
    "SendMessage, two turns": two_turns,
    "SendStreamingMessage → msg": stream_message,
    "SendStreamingMessage → task": stream_task,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "SubscribeToTask": subscribe_and_cancel,
    "CancelTask": cancel,
    "CancelTask, ended task": cancel_again,
    "SubscribeToTask, ended task": subscribe_too_late,
    "push config: create": push_create,
    "push config: get": push_get,
    "push config: list": push_list,
    "push config: delete": push_delete,
    "GetTask, unknown task": unknown_task,
}


#: steps for which 0.x has no operation
SINCE_1_0 = "ListTasks"
#: a rule of 1.0 that 0.x does not have: if one side is older, the error has the bridge's own text
IN_OWN_WORDS = "SubscribeToTask, ended task"


async def all_steps(client: Caller, version: str) -> dict[str, Any]:
    """The canonical result of every step that a version has, or the error it ended with."""
    memory: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for name, step in STEPS.items():
        if name == SINCE_1_0 and version != "1.0":
            continue
        try:
            result = await step(client, memory)
        except Rejected as error:
            reason, text = error.args
            results[name] = {"rejected": reason, "text": text.replace(memory.get("ended", "none"), "<id>")}
        except KeyError as missing:
            results[name] = {"rejected": "not tried", "text": f"an earlier step gave no {missing}"}
        else:
            results[name] = canonical([_tree(one) for one in _listed(result)])
    return results


def unlike(direct: Mapping[str, Any], bridged: Mapping[str, Any], *, older: bool) -> dict[str, list[str]]:
    """The differences of each step that both sides have. older: whether a side is of 0.x."""
    found = {}
    for step in (step for step in direct if step in bridged):
        expected, got = direct[step], bridged[step]
        if older and step == IN_OWN_WORDS:
            expected, got = in_words(expected), in_words(got)
        found[step] = [str(one) for one in differences(expected, got)]
    return found


def _listed(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def _tree(message: Any) -> Any:
    return {} if message is None else MessageToDict(message)


def in_words(result: Any) -> str:
    """A result in a few words, for the table."""
    if isinstance(result, dict):
        return str(result["rejected"])
    if len(result) > 1:
        return f"{len(result)} {'events' if 'task' in result[0] else 'answers'}"
    (answer,) = result
    for many in ("tasks", "configs"):
        if many in answer:
            return f"{len(answer[many])} of {many}"
    inner = answer.get("task", answer)
    if "status" in inner:
        return str(inner["status"]["state"]).removeprefix("TASK_STATE_").lower()
    return "message" if "message" in answer else "as given"
