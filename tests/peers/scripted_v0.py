"""A scripted agent on the types that a2a-sdk 0.2 and 0.3 share, without code of ours, for both.

The steps are those of tests/interop/script.py. A status update that ends a turn is `final`; `auth` does not
end the stream: an agent may continue when it has got the authorization.
"""

import argparse
import asyncio
import base64
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import grpc.aio
import uvicorn
from a2a import types
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.utils.errors import ServerError

PREFIX = "script:"
#: seconds after which an agent gives up on a `hold`
PATIENCE = 240.0
#: seconds between two events of a `tick`, so that a subscriber gets one soon
TICK = 0.05

#: step -> the state it sets, and whether the turn ends there
STATES = {
    "work": ("working", False),
    "ask": ("input-required", True),
    "auth": ("auth-required", False),
    "done": ("completed", True),
    "fail": ("failed", True),
    "reject": ("rejected", True),
    "cancel": ("canceled", True),
}


def now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat().replace("+00:00", "Z")


def text_part(text: str) -> Any:
    return types.Part(root=types.TextPart(text=text))


def steps_of(message: Any) -> list[tuple[str, str]]:
    """The steps in a message: `[("echo", "")]` if it is no script."""
    text = next((part.root.text for part in message.parts if part.root.kind == "text"), "")
    if not text.startswith(PREFIX):
        return [("echo", "")]
    steps = []
    for step in text.removeprefix(PREFIX).split(";"):
        verb, _, rest = step.strip().partition(" ")
        steps.append((verb, rest.strip()))
    return steps


def failure(reason: str, text: str) -> Exception:
    """TASK_NOT_FOUND -> the SDK's TaskNotFoundError, as an executor raises it."""
    encoded = {"JSON_PARSE": "JSONParseError", "INTERNAL_ERROR": "InternalError"}
    name = encoded.get(reason) or "".join(word.capitalize() for word in reason.split("_")) + "Error"
    return ServerError(error=getattr(types, name)(message=text))


def status_update(task_id: str, context_id: str, step: str, text: str) -> Any:
    state, final = STATES[step]
    message = None
    if text:
        message = types.Message(
            message_id=f"status-{state}",
            role=types.Role.agent,
            parts=[text_part(text)],
            task_id=task_id,
            context_id=context_id,
        )
    status = types.TaskStatus(state=types.TaskState(state), message=message, timestamp=now())
    return types.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status, final=final)


def artifact_update(task_id: str, context_id: str, artifact: Any, **members: Any) -> Any:
    return types.TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact, **members)


def data_artifact(name: str) -> Any:
    data = {"n": 7, "list": [None, True, {"deep": "x"}], "half": 0.5}
    raw = base64.b64encode(b"\x00\xff" * 8).decode()
    parts = [
        types.DataPart(data=data),
        types.FilePart(file=types.FileWithBytes(bytes=raw, name="x.bin", mime_type="image/png")),
        types.FilePart(file=types.FileWithUri(uri="https://example.org/x.png")),
    ]
    return types.Artifact(artifact_id="data", name=name, parts=[types.Part(root=part) for part in parts])


class Gates:
    """Named events that one message waits for and another one sets."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())

    async def wait(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.event(name).wait()


async def play(message: Any, task_id: str, context_id: str, gates: Gates) -> AsyncIterator[Any]:
    artifact_open = False
    for verb, text in steps_of(message):
        if verb in STATES:
            yield status_update(task_id, context_id, verb, text)
        elif verb == "open":
            status = types.TaskStatus(state=types.TaskState.submitted, timestamp=now())
            yield types.Task(id=task_id, context_id=context_id, history=[message], status=status)
        elif verb in ("chunk", "last"):
            artifact = types.Artifact(artifact_id="out", parts=[text_part(text)])
            yield artifact_update(
                task_id, context_id, artifact, append=artifact_open, last_chunk=verb == "last"
            )
            artifact_open = verb != "last"
        elif verb == "data":
            artifact = data_artifact(text)
            yield artifact_update(task_id, context_id, artifact, last_chunk=True, metadata={"step": "data"})
        elif verb == "copy":
            artifact = types.Artifact(
                artifact_id="copy", name="copy", parts=message.parts, metadata=message.metadata
            )
            yield artifact_update(task_id, context_id, artifact, last_chunk=True)
        elif verb == "hold":
            await gates.wait(text)
        elif verb == "tick":
            while not gates.event(text).is_set():
                yield status_update(task_id, context_id, "work", "")
                await asyncio.sleep(TICK)
        elif verb == "free":
            gates.event(text).set()
        elif verb == "say":
            yield types.Message(
                message_id="said", role=types.Role.agent, parts=[text_part(text)], context_id=context_id
            )
        elif verb == "echo":
            yield types.Message(
                message_id="echo",
                role=types.Role.agent,
                parts=message.parts,
                context_id=context_id,
                metadata=message.metadata,
                extensions=message.extensions,
                reference_task_ids=message.reference_task_ids,
            )
        elif verb == "raise":
            reason, _, rest = text.partition(" ")
            raise failure(reason, rest)
        elif verb == "crash":
            raise RuntimeError("a secret of the agent's")
        else:
            raise AssertionError(f"no such step: {verb!r}")


class ScriptedExecutor(AgentExecutor):
    """Plays the script of each message."""

    def __init__(self) -> None:
        self._gates = Gates()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        async for event in play(context.message, context.task_id, context.context_id, self._gates):
            await event_queue.enqueue_event(event)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(status_update(context.task_id, context.context_id, "cancel", ""))


def request_handler() -> DefaultRequestHandler:
    return DefaultRequestHandler(
        agent_executor=ScriptedExecutor(),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )


def card(url: str, more_skills: bool, **members: Any) -> Any:
    """The agent's card; the extended one has one skill more."""
    skills = [types.AgentSkill(id="script", name="Script", description="Plays a script", tags=["test"])]
    if more_skills:
        skills.append(
            types.AgentSkill(id="more", name="More", description="For those who may", tags=["extended"])
        )
    return types.AgentCard(
        name="Scripted (SDK 0.x)",
        description="Does what it is told",
        url=url,
        version="1.2.3",
        capabilities=types.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=skills,
        supports_authenticated_extended_card=True,
        **members,
    )


async def serve(
    bindings: list[str], build: Callable[[list[str], str, str], tuple[Any, Callable[[Any], None]]]
) -> None:
    """Runs an agent until standard input ends.

    build: (bindings, HTTP origin, gRPC address) -> an ASGI application, and a function that adds the gRPC
    service to a server.
    """
    logging.disable(logging.CRITICAL)
    # Of protocol TCP by name: asyncio turns Nagle's algorithm off for no other, which costs 40 ms a call.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    grpc_address = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    application, add_service = build(bindings, http, grpc_address)
    if "GRPC" in bindings:
        add_service(grpc_server)
        await grpc_server.start()
    server = uvicorn.Server(
        uvicorn.Config(application, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    # The socket listens already: a connection made before the server runs waits in its queue.
    print(f"ready http={http} grpc={grpc_address}", flush=True)

    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # Streams that the SDK never ends would keep the servers from ending, too.
    serving.cancel()
    os._exit(0)


def main(known: tuple[str, ...], build: Callable[..., Any]) -> None:
    """The program: `--binding` as often as wanted, all of `known` by default."""
    # The output of the SDK, with tracebacks of rejected requests, is of no use to a test.
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115, PTH123  open as long as the process lives
    parser = argparse.ArgumentParser()
    parser.add_argument("--binding", action="append", choices=known)
    asyncio.run(serve(parser.parse_args().binding or list(known), build))
