"""The bridge at work: an agent that speaks JSON-RPC only, called over three bindings by two clients.

    python examples/demo.py

1. starts an agent written with the official SDK (sdk_agent.py), which offers JSON-RPC and nothing else;
2. starts `a2a-bridge gateway` in front of it;
3. does the same things with it directly, and through the gateway over JSONRPC, HTTP+JSON and GRPC, each time
   with the official client and with ours;
4. prints whether all results are equal. Ids and times differ from run to run by nature and are not compared.

Ends with 0 if everything is equal, with 1 if not, with 2 if something could not be started.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import A2A_ERROR_REASONS
from a2a.utils.errors import A2AError as OfficialError
from google.protobuf.json_format import MessageToDict

import a2a_bridge
from a2a_bridge.cli.canonical import canonical, differences
from a2a_bridge.pb import lf_a2a_v1

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
SECONDS = 50.0
HERE = Path(__file__).parent


class Caller(Protocol):
    """Either client. Requests, answers and events are the official SDK's protobuf messages."""

    async def call(self, operation: str, request: Any) -> Any: ...

    def stream(self, operation: str, request: Any) -> AsyncIterator[Any]: ...


class NotStarted(Exception):  # noqa: N818  the story's word
    """A program ended, or said nothing, before it was ready."""


class Refused(Exception):  # noqa: N818  the story's word
    """What a client raised: the name of the A2A error, and its text."""


# ---------------------------------------------------------------- the two clients


class Official:
    """The official client. It has one method for both kinds of send, and a client decides which it is."""

    def __init__(self, unary: Any, streaming: Any) -> None:
        self._unary = unary
        self._streaming = streaming

    async def call(self, operation: str, request: Any) -> Any:
        with self._errors():
            if operation != "send_message":
                return await getattr(self._unary, operation)(request)
            (answer,) = [event async for event in self._unary.send_message(request)]
            return answer

    async def stream(self, operation: str, request: Any) -> AsyncIterator[Any]:
        names = {"send_streaming_message": "send_message", "subscribe_to_task": "subscribe"}
        with self._errors():
            async with aclosing(getattr(self._streaming, names[operation])(request)) as events:
                async for event in events:
                    yield event

    @staticmethod
    @contextlib.contextmanager
    def _errors() -> Any:
        try:
            yield
        except OfficialError as error:
            raise Refused(A2A_ERROR_REASONS[type(error)], error.message) from None


class Ours:
    """The bridge's client, given and giving the SDK's classes; the bytes of both are the same."""

    def __init__(self, peer: a2a_bridge.Client) -> None:
        self._peer = peer

    async def call(self, operation: str, request: Any) -> Any:
        try:
            return _theirs(await getattr(self._peer, operation)(_ours(request)))
        except a2a_bridge.A2AError as error:
            raise Refused(error.name, error.message) from None

    async def stream(self, operation: str, request: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(getattr(self._peer, operation)(_ours(request))) as events:
                async for event in events:
                    yield _theirs(event)
        except a2a_bridge.A2AError as error:
            raise Refused(error.name, error.message) from None


def _ours(message: Any) -> Any:
    return getattr(lf_a2a_v1, message.DESCRIPTOR.name).FromString(message.SerializeToString())


def _theirs(message: Any) -> Any:
    kind = getattr(a2a, message.DESCRIPTOR.name, None)
    return None if kind is None else kind.FromString(message.SerializeToString())


@asynccontextmanager
async def official(url: str, binding: str) -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        unary, streaming = (
            ClientFactory(
                ClientConfig(
                    streaming=streaming,
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    supported_protocol_bindings=[binding],
                )
            ).create(card)
            for streaming in (False, True)
        )
        async with unary, streaming:
            yield Official(unary, streaming)


@asynccontextmanager
async def ours(url: str, binding: str) -> AsyncIterator[Caller]:
    async with a2a_bridge.connect(url, binding=binding) as peer:
        yield Ours(peer)


CLIENTS = {"official": official, "our": ours}

# ---------------------------------------------------------------- what is done with the agent


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
    return await client.call("list_tasks", a2a.ListTasksRequest(context_id=context, include_artifacts=True))


async def two_turns(client: Caller, _: dict[str, Any]) -> Any:
    asked = (await client.call("send_message", said("ask me"))).task
    return [asked, await client.call("send_message", said("the end", task_id=asked.id))]


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


async def all_steps(client: Caller) -> dict[str, Any]:
    """Every step's canonical result, or the error it ended with."""
    memory: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for name, step in STEPS.items():
        try:
            result = await step(client, memory)
        except Refused as error:
            reason, text = error.args
            results[name] = {"refused": reason, "text": text.replace(memory.get("ended", "none"), "<id>")}
        else:
            results[name] = canonical([_tree(one) for one in _listed(result)])
    return results


def _listed(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def _tree(message: Any) -> Any:
    return {} if message is None else MessageToDict(message)


def in_words(result: Any) -> str:
    """A result in a few words, for the table."""
    if isinstance(result, dict):
        return str(result["refused"])
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


# ---------------------------------------------------------------- running and comparing


@asynccontextmanager
async def running(title: str, *command: str) -> AsyncIterator[dict[str, str]]:
    """A program, from the addresses in its `ready` line until it has been told to end; killed if it will not."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None  # noqa: S101  it is a pipe, as asked for
        try:
            line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        except TimeoutError:
            line = ""
        if not line.startswith("ready "):
            raise NotStarted(f"the {title.strip()} did not start")
        print(f"{title}: {line.strip()}")
        yield dict(item.split("=", 1) for item in line.split()[1:])
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def demo() -> bool:
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(
            running("agent  ", sys.executable, str(HERE / "sdk_agent.py"), "0")
        )
        command = (sys.executable, "-m", "a2a_bridge", "gateway", agent["http"])
        gateway = await stack.enter_async_context(
            running("gateway", *command, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        )
        async with official(agent["http"], "JSONRPC") as client:
            direct = await all_steps(client)
        bridged: dict[tuple[str, str], dict[str, Any]] = {}
        for binding in BINDINGS:
            for name, open_client in CLIENTS.items():
                async with open_client(gateway["http"], binding) as client:
                    bridged[binding, name] = await all_steps(client)
    return report(direct, bridged, time.monotonic() - started)


def report(direct: dict[str, Any], bridged: dict[tuple[str, str], dict[str, Any]], seconds: float) -> bool:
    """Prints the table, and what differs. Whether nothing does."""
    rows: list[list[str]] = []
    wrong: list[str] = []
    for step, expected in direct.items():
        cells = []
        for binding in BINDINGS:
            marks = []
            for name in CLIENTS:
                lines = differences(expected, bridged[binding, name][step])
                marks.append("✗" if lines else "✓")
                wrong += [f"{step}, {binding}, {name} client: {line}" for line in lines]
            cells.append(" ".join(marks))
        rows.append([step, in_words(expected), *cells])
    header = ["operation", "the agent's answer", *BINDINGS]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print()
    for row in (header, ["─" * width for width in widths], *rows):
        texts = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
        marks = [text.center(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        print("  ".join(texts + marks))
    print("\n✓ equal to what the agent answers when called directly, by the official client and by ours")
    for line in wrong:
        print(f"✗ {line}")
    verdict = "all are equal" if not wrong else f"there are {len(wrong)} differences"
    print(f"{len(direct) * len(bridged)} results came through the gateway, {verdict} ({seconds:.1f} s)")
    return not wrong


async def in_time() -> bool:
    async with asyncio.timeout(SECONDS):
        return await demo()


def main() -> int:
    try:
        return 0 if asyncio.run(in_time()) else 1
    except NotStarted as error:
        print(f"demo: {error}", file=sys.stderr)
    except TimeoutError:
        print(f"demo: not done after {SECONDS:.0f} s", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
