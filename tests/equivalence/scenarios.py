"""Conversations, functions of a Talk, that must be equal over every binding, gateway and client.

Their agent plays scripts (tests/interop/script.py); tasks and names of gates are their own, so that it can be
shared.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.talk import Talk, finished, message, sending
from tests.patience import PATIENCE

Scenario = Callable[[Talk], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}

#: errors that an executor may raise and for which today's SDK has an exception
RAISED = (
    "TASK_NOT_FOUND",
    "TASK_NOT_CANCELABLE",
    "PUSH_NOTIFICATION_NOT_SUPPORTED",
    "UNSUPPORTED_OPERATION",
    "CONTENT_TYPE_NOT_SUPPORTED",
    "INVALID_AGENT_RESPONSE",
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    "EXTENSION_SUPPORT_REQUIRED",
    "VERSION_NOT_SUPPORTED",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "INVALID_PARAMS",
    "INTERNAL_ERROR",
)


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def unique(name: str) -> str:
    return f"{name}-{uuid4().hex}"


def rich_parts() -> list[hub.Part]:
    """One part of each sort, with all members of a part."""
    data = hub.Part(media_type="application/json")
    data.data.struct_value.update(
        {"n": 7, "half": 0.5, "none": None, "list": [1, {"deep": True}], "é": "✓😀"}
    )
    null = hub.Part()
    null.data.null_value = 0
    parts = [
        hub.Part(text='plain é ✓ 😀\n\t"quoted" \\', media_type="text/plain"),
        hub.Part(text=""),
        hub.Part(raw=bytes(range(256)), filename="ü.bin", media_type="application/octet-stream"),
        hub.Part(raw=b""),
        hub.Part(url="https://example.org/a%20b?c=d#e"),
        data,
        null,
    ]
    parts[0].metadata.update({"k": {"a": [1, 2.5, "x"]}, "": ""})
    return parts


@scenario
async def direct_message(talk: Talk) -> None:
    request = sending(parts=rich_parts(), extensions=["https://e.example/1"], reference_task_ids=["r1", "r2"])
    request.message.metadata.update({"top": [1, 2, {"three": 3}]})
    await talk.ask("send", talk.client.send_message(request))
    await talk.watch("stream", talk.client.send_streaming_message(request))
    await talk.ask("say", talk.client.send_message(sending("say hello")))


@scenario
async def line_ends_of_unicode(talk: Talk) -> None:
    request = sending(parts=[hub.Part(text="a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b\r\n\rc")])
    await talk.ask("send", talk.client.send_message(request))
    await talk.watch("stream", talk.client.send_streaming_message(request))


@scenario
async def blocking_task(talk: Talk) -> None:
    sent = await talk.ask(
        "send",
        talk.client.send_message(sending("open", "work busy", "chunk one", "last two", "data d", "done bye")),
    )
    task_id = sent.task.id
    for length in (None, 0, 1, 2, 100):
        request = hub.GetTaskRequest(id=task_id)
        if length is not None:
            request.history_length = length
        await talk.ask(f"get {length}", talk.client.get_task(request))


@scenario
async def send_with_history_length(talk: Talk) -> None:
    for length in (0, 1):
        request = sending("open", "work busy", "done bye")
        request.configuration.history_length = length
        await talk.ask(f"send {length}", talk.client.send_message(request))
        await talk.watch(f"stream {length}", talk.client.send_streaming_message(request))


@scenario
async def streamed_task(talk: Talk) -> None:
    script = ("open", "work busy", "chunk one", "chunk two", "last three", "data d", "done bye")
    await talk.watch("stream", talk.client.send_streaming_message(sending(*script)))


@scenario
async def ends(talk: Talk) -> None:
    for end in ("done well", "fail badly", "reject you"):
        await talk.ask(end, talk.client.send_message(sending("open", end)))
        await talk.watch(end, talk.client.send_streaming_message(sending("open", "work", end)))


@scenario
async def immediate_and_subscribed(talk: Talk) -> None:
    gate = unique("gate")
    client = talk.client
    sent = await talk.ask(
        "send", client.send_message(sending("open", f"hold {gate}", "chunk a", "done", immediately=True))
    )
    task_id = sent.task.id
    await talk.ask("get", client.get_task(hub.GetTaskRequest(id=task_id)))
    events = client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id))
    async with asyncio.timeout(PATIENCE):
        talk.note("snapshot", await anext(events))
    await talk.ask("free", client.send_message(sending(f"free {gate}", "say freed")))
    await talk.watch("rest", events)
    await talk.ask("after", client.get_task(hub.GetTaskRequest(id=task_id)))


@scenario
async def two_subscribers(talk: Talk) -> None:
    gate = unique("gate")
    client = talk.client
    script = ("open", f"hold {gate}", *(f"chunk {number}" for number in range(20)), "done")
    sent = await talk.ask("send", client.send_message(sending(*script, immediately=True)))
    request = hub.SubscribeToTaskRequest(id=sent.task.id)
    streams = [client.subscribe_to_task(request) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        for stream in streams:
            talk.note("snapshot", await anext(stream))
    await talk.ask("free", client.send_message(sending(f"free {gate}", "say freed")))
    seen = [await talk.watch(f"subscriber {number}", stream) for number, stream in enumerate(streams)]
    assert seen[0] == seen[1]


@scenario
async def a_subscriber_leaves(talk: Talk) -> None:
    gate = unique("gate")
    client = talk.client
    sent = await talk.ask(
        "send", client.send_message(sending("open", f"hold {gate}", "chunk a", "done", immediately=True))
    )
    request = hub.SubscribeToTaskRequest(id=sent.task.id)
    leaving, staying = client.subscribe_to_task(request), client.subscribe_to_task(request)
    async with asyncio.timeout(PATIENCE):
        await anext(leaving)
        await anext(staying)
        await leaving.aclose()
    await talk.ask("free", client.send_message(sending(f"free {gate}", "say freed")))
    await talk.watch("staying", staying)


@scenario
async def the_sender_leaves(talk: Talk) -> None:
    gate = unique("gate")
    client = talk.client
    seen = await talk.watch(
        "stream",
        client.send_streaming_message(sending("open", "work", f"hold {gate}", "chunk a", "done")),
        limit=2,
    )
    await talk.ask("free", client.send_message(sending(f"free {gate}", "say freed")))
    await finished(talk, "finished", seen[0].task.id)


@scenario
async def cancelled(talk: Talk) -> None:
    gate = unique("gate")
    client = talk.client
    sent = await talk.ask(
        "send", client.send_message(sending("open", "work", f"hold {gate}", "done", immediately=True))
    )
    request = hub.CancelTaskRequest(id=sent.task.id)
    request.metadata.update({"why": ["because", 1]})
    await talk.ask("cancel", client.cancel_task(request))
    await talk.ask("get", client.get_task(hub.GetTaskRequest(id=sent.task.id)))
    done = await talk.ask("other", client.send_message(sending("open", "done")))
    await talk.ask("cancel done", client.cancel_task(hub.CancelTaskRequest(id=done.task.id)))


@scenario
async def several_turns(talk: Talk) -> None:
    client = talk.client
    first = await talk.ask("ask", client.send_message(sending("open", "ask which one?")))
    task = first.task
    await talk.ask("get", client.get_task(hub.GetTaskRequest(id=task.id)))
    await talk.ask(
        "wrong context", client.send_message(sending("done", task_id=task.id, context_id="another"))
    )
    await talk.watch(
        "again",
        client.send_streaming_message(
            sending("work", "auth who are you?", task_id=task.id, context_id=task.context_id)
        ),
    )
    await talk.ask("cancel", client.cancel_task(hub.CancelTaskRequest(id=task.id)))
    await talk.ask(
        "too late", client.send_message(sending("done", task_id=task.id, context_id=task.context_id))
    )


@scenario
async def an_answer_completes(talk: Talk) -> None:
    client = talk.client
    first = await talk.ask("ask", client.send_message(sending("open", "ask which one?")))
    answer = sending("work", "chunk x", "done", task_id=first.task.id, context_id=first.task.context_id)
    await talk.ask("answer", client.send_message(answer))
    await talk.ask(
        "same context", client.send_message(sending("open", "done", context_id=first.task.context_id))
    )


@scenario
async def push_configs(talk: Talk) -> None:
    client = talk.client
    sent = await talk.ask("send", client.send_message(sending("open", "ask what?")))
    task_id = sent.task.id
    for number in (1, 2):
        config = hub.TaskPushNotificationConfig(
            task_id=task_id, id=f"p{number}", url=f"https://hook.example/{number}"
        )
        config.token = "t"  # noqa: S105
        if number == 2:
            config.authentication.scheme = "Bearer"
            config.authentication.credentials = "c"
        await talk.ask(f"create {number}", client.create_task_push_notification_config(config))
    get = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p2")
    await talk.ask("get", client.get_task_push_notification_config(get))
    listing = hub.ListTaskPushNotificationConfigsRequest(task_id=task_id)
    await talk.ask("list", client.list_task_push_notification_configs(listing))
    delete = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="p2")
    await talk.ask("delete", client.delete_task_push_notification_config(delete))
    await talk.ask("get deleted", client.get_task_push_notification_config(get))
    await talk.ask("delete again", client.delete_task_push_notification_config(delete))
    await talk.ask("list again", client.list_task_push_notification_configs(listing))


@scenario
async def extended_card(talk: Talk) -> None:
    await talk.ask("card", talk.client.get_extended_agent_card())


@scenario
async def lists(talk: Talk) -> None:
    client = talk.client
    context_id = unique("context")
    for number in range(5):
        end = ("done", "ask more?")[number % 2]
        await talk.ask(
            f"send {number}",
            client.send_message(sending("open", "work", f"chunk {number}", end, context_id=context_id)),
        )
    request = hub.ListTasksRequest(context_id=context_id, page_size=2)
    for page in range(3):
        answer = await talk.ask(f"page {page}", client.list_tasks(request))
        request.page_token = answer.next_page_token
    for name, filters in {
        "status": {"status": hub.TASK_STATE_INPUT_REQUIRED},
        "artifacts": {"include_artifacts": True},
        "no history": {"history_length": 0},
        "history": {"history_length": 1, "include_artifacts": False},
        "all": {},
    }.items():
        await talk.ask(name, client.list_tasks(hub.ListTasksRequest(context_id=context_id, **filters)))
    after = hub.ListTasksRequest(context_id=context_id)
    after.status_timestamp_after.FromJsonString("2999-01-01T00:00:00Z")
    await talk.ask("nothing after", client.list_tasks(after))
    after.status_timestamp_after.FromJsonString("1999-01-01T00:00:00.5Z")
    await talk.ask("everything after", client.list_tasks(after))


@scenario
async def bad_lists(talk: Talk) -> None:
    client = talk.client
    for name, filters in {
        "token": {"page_token": "not a token"},
        "size 101": {"page_size": 101},
        "size -1": {"page_size": -1},
        "history -1": {"history_length": -1},
    }.items():
        await talk.ask(name, client.list_tasks(hub.ListTasksRequest(**filters)))


@scenario
async def unknown_tasks(talk: Talk) -> None:
    client = talk.client
    name = "no-such-task"
    await talk.ask("get", client.get_task(hub.GetTaskRequest(id=name)))
    await talk.ask("cancel", client.cancel_task(hub.CancelTaskRequest(id=name)))
    await talk.watch("subscribe", client.subscribe_to_task(hub.SubscribeToTaskRequest(id=name)))
    await talk.ask("send", client.send_message(sending("done", task_id=name)))
    await talk.watch("stream", client.send_streaming_message(sending("done", task_id=name)))
    await talk.ask(
        "push create",
        client.create_task_push_notification_config(
            hub.TaskPushNotificationConfig(task_id=name, id="p", url="https://hook.example/")
        ),
    )
    await talk.ask(
        "push get",
        client.get_task_push_notification_config(
            hub.GetTaskPushNotificationConfigRequest(task_id=name, id="p")
        ),
    )
    await talk.ask(
        "push list",
        client.list_task_push_notification_configs(hub.ListTaskPushNotificationConfigsRequest(task_id=name)),
    )
    await talk.ask(
        "push delete",
        client.delete_task_push_notification_config(
            hub.DeleteTaskPushNotificationConfigRequest(task_id=name, id="p")
        ),
    )


@scenario
async def ended_tasks(talk: Talk) -> None:
    client = talk.client
    sent = await talk.ask("send", client.send_message(sending("open", "done")))
    task_id = sent.task.id
    await talk.watch("subscribe", client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id)))
    await talk.ask("send more", client.send_message(sending("done", task_id=task_id)))
    await talk.watch("stream more", client.send_streaming_message(sending("done", task_id=task_id)))
    await talk.ask("cancel", client.cancel_task(hub.CancelTaskRequest(id=task_id)))


@scenario
async def incomplete_requests(talk: Talk) -> None:
    client = talk.client
    requests = {
        "nothing": hub.SendMessageRequest(),
        "no parts": hub.SendMessageRequest(message=message(parts=[])),
        "no role": hub.SendMessageRequest(message=message("done", role=hub.ROLE_UNSPECIFIED)),
        "no message id": hub.SendMessageRequest(message=message("done", message_id="")),
        "empty part": hub.SendMessageRequest(message=message(parts=[hub.Part(text="a"), hub.Part()])),
        "several": hub.SendMessageRequest(message=hub.Message(message_id="m")),
    }
    requests["negative history"] = sending("open", "done")
    requests["negative history"].configuration.history_length = -1
    for name, request in requests.items():
        await talk.ask(name, client.send_message(request))
        await talk.watch(f"stream {name}", client.send_streaming_message(request))


def raising(reason: str) -> Scenario:
    async def raised(talk: Talk) -> None:
        client = talk.client
        await talk.ask("send", client.send_message(sending(f"raise {reason} some words")))
        await talk.watch("stream", client.send_streaming_message(sending(f"raise {reason} some words")))
        await talk.watch(
            "midway", client.send_streaming_message(sending("open", "work", f"raise {reason} some words"))
        )
        await talk.ask("blocking", client.send_message(sending("open", "work", f"raise {reason} some words")))

    return raised


for _reason in RAISED:
    assert _reason in Reason.__members__
    SCENARIOS[f"raises_{_reason}"] = raising(_reason)


@scenario
async def crashes(talk: Talk) -> None:
    client = talk.client
    await talk.ask("send", client.send_message(sending("crash")))
    await talk.watch("stream", client.send_streaming_message(sending("crash")))
    await talk.watch("midway", client.send_streaming_message(sending("open", "work", "crash")))
    await talk.ask("blocking", client.send_message(sending("open", "work", "crash")))
