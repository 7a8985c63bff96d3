"""The answers of an agent to clients of every version and binding, through the command `a2a-bridge gateway`."""

import asyncio
import uuid
from itertools import product
from typing import Any

from a2a_bridge import connect
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import interface
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.dialects import KNOWN
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import ANY_PORT, Running, serving
from tests.frameworks.programs import ANSWER
from tests.patience import PATIENCE

CELLS = tuple(product(("1.0", "0.3", "0.2.5"), ("JSONRPC", "HTTP+JSON", "GRPC")))


def texts(message: Any) -> list[str]:
    """All text of parts anywhere in a message."""
    found = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else [value]:
            if isinstance(one, hub.Part):
                found.append(one.text)
            elif hasattr(one, "ListFields"):
                found += texts(one)
    return found


def request(words: str = "a question") -> hub.SendMessageRequest:
    message = hub.Message(message_id=uuid.uuid4().hex, role=hub.ROLE_USER, parts=[hub.Part(text=words)])
    return hub.SendMessageRequest(message=message)


async def converse(client: Client, *, streaming: bool, tasks: bool) -> list[str]:
    """The faults of a message, GetTask, and a streamed message. tasks: whether the agent has GetTask."""
    wrong = []
    answer = await client.send_message(request())
    told = texts(answer)
    if answer.HasField("task") and tasks:
        task = answer.task
        while task.status.state not in TERMINAL:  # an agent that does not wait, whatever the configuration is
            task = await client.get_task(hub.GetTaskRequest(id=answer.task.id))
        told = texts(await client.get_task(hub.GetTaskRequest(id=answer.task.id)))
    if ANSWER not in "".join(told):
        wrong.append(f"send: {answer}")
    if streaming:
        events = [event async for event in client.send_streaming_message(request())]
        if ANSWER not in "".join(text for event in events for text in texts(event)):
            wrong.append(f"stream: {events}")
    return wrong


async def through_a_gateway(target: str, *flags: str, tasks: bool = True) -> dict[str, list[str]]:
    """The faults by cell of calls through the command to an agent. tasks: see `converse`."""
    async with serving("gateway", target, *ANY_PORT, *flags) as running, connect(running.http) as peer:
        streaming = peer.card.capabilities.streaming
        return {
            f"{version} {binding}": await _cell(running, version, binding, streaming=streaming, tasks=tasks)
            for version, binding in CELLS
        }


async def _cell(running: Running, version: str, binding: str, *, streaming: bool, tasks: bool) -> list[str]:
    [dialect] = [one for one in KNOWN if one.version == version]
    place = running.grpc if binding == "GRPC" else running.http
    dialling = find(binding).dial(
        interface(binding, place, version=version), dialect, DialOptions(timeout=PATIENCE)
    )
    try:
        async with asyncio.timeout(PATIENCE), dialling as service:
            return await converse(Client(service), streaming=streaming, tasks=tasks)
    except A2AError as error:
        return [repr(error)]
