"""Conversations in the terms of 0.3, functions of a Talk, for every client and agent of any version.

Their agents play scripts (tests/interop/script.py, scripted_v0.py). `needs`: operations that a client must
have.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.peers.callers import (
    CANCEL,
    EXTENDED_CARD,
    GET,
    PUSH_DELETE,
    PUSH_GET,
    PUSH_LIST,
    PUSH_SET,
    RESUBSCRIBE,
    SEND,
    STREAM,
)
from tests.peers.transcript import Talk

PREFIX = "script:"


@dataclass(frozen=True)
class Conversation:
    """name, the operations that a client must have, and the function."""

    name: str
    needs: frozenset[str]
    hold: Callable[[Talk], Awaitable[None]]


CONVERSATIONS: dict[str, Conversation] = {}


def conversation(*needs: str) -> Callable[[Callable[[Talk], Awaitable[None]]], Any]:
    def add(function: Callable[[Talk], Awaitable[None]]) -> Any:
        name = function.__name__
        CONVERSATIONS[name] = Conversation(name, frozenset(needs), function)
        return function

    return add


def sending(*steps: str, parts: list[Any] | None = None, **members: Any) -> dict[str, Any]:
    """Params that send a script, and further parts, and wait; `blocking` is set because the defaults differ."""
    script = [{"kind": "text", "text": f"{PREFIX} {'; '.join(steps)}"}] if steps else []
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": script + (parts or [])}
    return {"message": message | members, "configuration": {"blocking": True}}


def unique(name: str) -> str:
    return f"{name}-{uuid4().hex}"


def rich_parts() -> list[Any]:
    """A part of each kind, with all members of a part of 0.3."""
    return [
        {"kind": "text", "text": 'plain é ✓ 😀\n\t"quoted" \\', "metadata": {"k": {"a": [1, 2.5, "x"]}}},
        {
            "kind": "file",
            "file": {
                "bytes": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1/v8=",
                "name": "ü.bin",
                "mimeType": "application/octet-stream",
            },
            "metadata": {"part": "file"},
        },
        {
            "kind": "file",
            "file": {"uri": "https://example.org/a%20b?c=d#e", "name": "a b", "mimeType": "image/png"},
        },
        {
            "kind": "data",
            "data": {"n": 7, "half": 0.5, "none": None, "list": [1, {"deep": True}], "é": "✓😀"},
            "metadata": {"schema": "s"},
        },
    ]


#: members of a message besides its parts
MEMBERS = {
    "metadata": {"top": [1, 2, {"three": 3}]},
    "extensions": ["https://e.example/1"],
    "referenceTaskIds": ["r1", "r2"],
}


@conversation(SEND)
async def direct_message(talk: Talk) -> None:
    await talk.ask("send", SEND, sending(parts=rich_parts(), **MEMBERS))
    await talk.ask("say", SEND, sending("say hello"))


@conversation(STREAM)
async def a_streamed_message(talk: Talk) -> None:
    await talk.watch("stream", STREAM, sending(parts=rich_parts(), **MEMBERS))
    await talk.watch("say", STREAM, sending("say hello"))


@conversation(SEND, GET)
async def a_task(talk: Talk) -> None:
    sent = await talk.ask("send", SEND, sending("open", "work busy", "chunk one", "last two", "done bye"))
    await talk.ask("get", GET, {"id": task_id(sent)})


@conversation(SEND, GET)
async def a_task_with_everything(talk: Talk) -> None:
    request = sending("open", "copy", "data d", "done", parts=rich_parts(), metadata={"of": ["message", 1]})
    sent = await talk.ask("send", SEND, request)
    await talk.ask("get", GET, {"id": task_id(sent)})


@conversation(STREAM)
async def a_streamed_task(talk: Talk) -> None:
    script = ("open", "work busy", "chunk one", "chunk two", "last three", "data d", "copy", "done bye")
    await talk.watch("stream", STREAM, sending(*script, parts=rich_parts()))


@conversation(SEND, STREAM)
async def ends(talk: Talk) -> None:
    for end in ("done well", "fail badly", "reject you"):
        await talk.ask(end, SEND, sending("open", end))
        await talk.watch(end, STREAM, sending("open", "work", end))


@conversation(SEND, STREAM, GET)
async def several_turns(talk: Talk) -> None:
    task = await talk.ask("ask", SEND, sending("open", "ask which one?"))
    at = {"taskId": task_id(task), "contextId": context_id(task)}
    await talk.ask("get", GET, {"id": task_id(task)})
    # A streamed turn comes last: the 0.x SDKs have not quite finished it when they report its end.
    await talk.ask("again", SEND, sending("work", "ask and now?", **at))
    await talk.watch("answer", STREAM, sending("work", "last x", "done", **at))
    await talk.ask("get", GET, {"id": task_id(task)})


@conversation(STREAM, CANCEL, GET)
async def cancelled(talk: Talk) -> None:
    # The events of the stream are not noted: agents of the 0.x SDKs leave it open for ever.
    async with talk.following("stream", STREAM, sending("open", "work", f"hold {unique('gate')}")) as events:
        task = await events.take("first")
        await events.take("working")
        await talk.ask("cancel", CANCEL, {"id": task_id(task)})
    await talk.ask("get", GET, {"id": task_id(task)})


@conversation(SEND, CANCEL, GET)
async def cancelled_while_asking(talk: Talk) -> None:
    task = await talk.ask("ask", SEND, sending("open", "ask what?"))
    await talk.ask("cancel", CANCEL, {"id": task_id(task)})
    await talk.ask("get", GET, {"id": task_id(task)})


@conversation(STREAM, SEND, RESUBSCRIBE)
async def resubscribed(talk: Talk) -> None:
    gate, last = unique("gate"), unique("gate")
    script = ("open", f"tick {gate}", "chunk a", "last b", f"hold {last}", "done")
    async with talk.following("stream", STREAM, sending(*script)) as events:
        task = await events.take("first")
        async with talk.following("again", RESUBSCRIBE, {"id": task_id(task)}) as others:
            await others.begun()
            await talk.ask("free", SEND, sending(f"free {gate}", "say freed"))
            for number in (1, 2):
                await others.take(f"chunk {number}", ticking=True)
            await talk.ask("free", SEND, sending(f"free {last}", "say freed"))
            await others.rest()
        await events.rest(ticking=True)


@conversation(SEND, PUSH_SET, PUSH_GET)
async def push_configs(talk: Talk) -> None:
    task = await talk.ask("send", SEND, sending("open", "ask what?"))
    await talk.ask("set", PUSH_SET, push_config(task_id(task), "p1"))
    await talk.ask("get", PUSH_GET, {"id": task_id(task), "pushNotificationConfigId": "p1"})


@conversation(SEND, PUSH_SET, PUSH_LIST, PUSH_DELETE)
async def push_config_lists(talk: Talk) -> None:
    task = await talk.ask("send", SEND, sending("open", "ask what?"))
    for number in (1, 2):
        await talk.ask(f"set {number}", PUSH_SET, push_config(task_id(task), f"p{number}"))
    await talk.ask("list", PUSH_LIST, {"id": task_id(task)})
    await talk.ask("delete", PUSH_DELETE, {"id": task_id(task), "pushNotificationConfigId": "p1"})
    await talk.ask("list again", PUSH_LIST, {"id": task_id(task)})


@conversation(EXTENDED_CARD)
async def extended_card(talk: Talk) -> None:
    await talk.ask("card", EXTENDED_CARD, None)


@conversation(GET, CANCEL, SEND, STREAM)
async def unknown_tasks(talk: Talk) -> None:
    name = "no-such-task"
    await talk.ask("get", GET, {"id": name})
    await talk.ask("cancel", CANCEL, {"id": name})
    await talk.ask("send", SEND, sending("done", taskId=name))
    await talk.watch("stream", STREAM, sending("done", taskId=name))


@conversation(SEND, STREAM)
async def errors(talk: Talk) -> None:
    for reason in ("CONTENT_TYPE_NOT_SUPPORTED", "UNSUPPORTED_OPERATION", "INVALID_PARAMS"):
        await talk.ask(reason, SEND, sending(f"raise {reason} some words"))
        await talk.watch(f"stream {reason}", STREAM, sending(f"raise {reason} some words"))
        await talk.watch(f"midway {reason}", STREAM, sending("open", "work", f"raise {reason} some words"))


def push_config(task: str, name: str) -> dict[str, Any]:
    config = {
        "id": name,
        "url": f"https://hook.example/{name}",
        "token": "t",
        "authentication": {"schemes": ["Bearer"], "credentials": "c"},
    }
    return {"taskId": task, "pushNotificationConfig": config}


def task_id(task: Any) -> str:
    return task.get("id", "none") if isinstance(task, dict) else "none"


def context_id(task: Any) -> str:
    return task.get("contextId", "none") if isinstance(task, dict) else "none"
