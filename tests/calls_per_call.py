"""Counts Python frames of a server's loop thread, and asyncio tasks, per call and per event.

`python -m tests.calls_per_call [--functions ROW]` prints them, for a row by function. A resumption of a
coroutine is a frame, too. The client is a raw socket in another thread, which does not count.
"""

import argparse
import asyncio
import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import grpc

from a2a_bridge import Agent, agent, interface, serve
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.cards import Candidate
from a2a_bridge.dialects import V1_0
from a2a_bridge.hosting import Run
from a2a_bridge.hosting.task_run import TaskRun
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.protocol import Connection

ROOT = Path(__file__).parents[1]
_OURS = ("a2a_bridge/", "transports/", "<a2a_bridge.")
#: calls before counting begins, and calls that are counted
WARM_UP, COUNTED = 20, 20
#: events of a stream that are counted as a whole
EVENTS = 103
SEND = "/lf.a2a.v1.A2AService/SendMessage"


@dataclass
class Frames:
    """The cost of one call for the server."""

    #: Python frames, new ones and resumed ones
    frames: float = 0.0
    #: calls of functions in C
    native: float = 0.0
    #: asyncio tasks
    tasks: float = 0.0
    #: the frames by function
    by_function: dict[str, float] = field(default_factory=dict)

    @property
    def ours(self) -> float:
        """The frames of this project, generated functions included: they depend on no other library."""
        return sum(count for name, count in self.by_function.items() if name.startswith(_OURS))


class _Profile:
    """Counts everything in the thread that it is started in."""

    def __init__(self) -> None:
        self.codes: Counter[CodeType] = Counter()
        self.native = 0

    def __call__(self, frame: FrameType, what: str, _: Any) -> None:
        if what == "call":
            self.codes[frame.f_code] += 1
        elif what == "c_call":
            self.native += 1

    def result(self, calls: int) -> Frames:
        named: Counter[str] = Counter()
        for code, count in self.codes.items():
            named[_name(code)] += count
        return Frames(
            sum(self.codes.values()) / calls,
            self.native / calls,
            0.0,
            {name: count / calls for name, count in named.most_common()},
        )


def _name(code: CodeType) -> str:
    path = Path(code.co_filename)
    if path.is_relative_to(ROOT) and ".venv" not in path.parts[len(ROOT.parts)]:
        file = str(path.relative_to(ROOT))
    else:
        file = "/".join(path.parts[-2:])
    return f"{file}:{code.co_firstlineno} {code.co_qualname}"


@agent
async def echo(text: str) -> str:
    """Answers directly."""
    return text


@agent
async def working(run: Run) -> AsyncIterator[Any]:
    yield run.status("working")
    yield run.artifact("some text")
    yield run.status("completed")


class Executor:
    """An executor as the benchmark has it: the four events of a task."""

    async def execute(self, run: Run, /) -> AsyncIterator[Any]:
        yield run.start()
        yield run.status("working")
        yield run.artifact(run.text)
        yield run.status("completed")


class Chunks:
    """A stream of `EVENTS` events."""

    async def execute(self, run: Run, /) -> AsyncIterator[Any]:
        yield run.start()
        yield run.status("working")
        for number in range(EVENTS - 3):
            yield run.artifact("some text", artifact_id="a", append=bool(number))
        yield run.status("completed")


def send(method: str = "SendMessage", **configuration: Any) -> dict[str, Any]:
    """A request of 1.0."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    params: dict[str, Any] = {"message": message}
    if configuration:
        params["configuration"] = configuration
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def older(**configuration: Any) -> dict[str, Any]:
    """A request of 0.3."""
    message = {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [{"kind": "text", "text": "hello"}],
    }
    params: dict[str, Any] = {"message": message}
    if configuration:
        params["configuration"] = configuration
    return {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}


class _Client:
    """A raw connection that sends one call after the other."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._file = self._socket.makefile("rb")

    def call(self, body: dict[str, Any], headers: str = "A2A-Version: 1.0\r\n") -> bytes:
        data = json.dumps(body).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
        self._socket.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        length = -1
        while line := self._file.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if length >= 0:
            return self._file.read(length)
        parts = []
        while size := int(self._file.readline(), 16):
            parts.append(self._file.read(size))
            self._file.readline()
        self._file.readline()
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@asynccontextmanager
async def _gateway() -> AsyncIterator[Any]:
    """A gateway to an agent of 1.0 over gRPC, which works in other threads."""

    def answer(_: bytes, __: Any) -> bytes:
        message = hub.Message(message_id="a", role=hub.ROLE_AGENT, parts=[hub.Part(text="hello")])
        return bytes(hub.SendMessageResponse(message=message).SerializeToString())

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio is untyped
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer) if details.method == SEND else None

    agent_server = grpc.server(ThreadPoolExecutor(1))
    agent_server.add_generic_rpc_handlers((Handlers(),))
    port = agent_server.add_insecure_port("127.0.0.1:0")
    agent_server.start()
    card = hub.AgentCard(name="raw", version="1", capabilities=hub.AgentCapabilities(streaming=True))
    candidates = [Candidate(interface("GRPC", f"127.0.0.1:{port}"), V1_0)]
    try:
        async with serve_gateway(card, candidates, _interfaces(), options=ServeOptions(grace=0)) as server:
            yield server
    finally:
        agent_server.stop(None)


def _interfaces() -> list[hub.AgentInterface]:
    return [interface("JSONRPC"), interface("JSONRPC", version="0.3")]


async def measure(
    served: Any,
    request: dict[str, Any],
    headers: str = "A2A-Version: 1.0\r\n",
    *,
    first: dict[str, Any] | None = None,
    check: Callable[[dict[str, Any]], bool] = lambda answer: "result" in answer,
    calls: int = COUNTED,
) -> Frames:
    """The frames of one call. served: an agent; None: a gateway. first: a call that makes its task."""
    loop, profile = asyncio.get_running_loop(), _Profile()
    idle = asyncio.Semaphore(0)
    options = ServeOptions(grace=0, store="memory://")
    serving = _gateway() if served is None else serve(served, _interfaces(), options=options)
    async with serving as server:
        address = str(server.http)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                client = _Client(address)
                body = request
                if first is not None:
                    task = json.loads(client.call(first))["result"]["task"]["id"]
                    body = {**request, "params": {"id": task}}
                answer = b""
                for _ in range(WARM_UP):
                    answer = client.call(body, headers)
                text = answer if answer.startswith(b"{") else answer.rpartition(b"data: ")[2]
                if not check(json.loads(text)):
                    raise RuntimeError(f"an unexpected answer: {answer[:1000]!r}")  # noqa: TRY301
                switched = threading.Event()

                def switch(on: bool) -> None:
                    sys.setprofile(profile if on else None)
                    switched.set()

                loop.call_soon_threadsafe(switch, True)
                switched.wait(60)
                for _ in range(calls):
                    client.call(body, headers)
                switched.clear()
                loop.call_soon_threadsafe(switch, False)
                switched.wait(60)
                client.close()
            except BaseException as error:  # noqa: BLE001  raised in the other thread
                failures.append(error)
            finally:
                loop.call_soon_threadsafe(idle.release)

        made = _Made()
        loop.set_task_factory(made)
        thread = threading.Thread(target=work)
        thread.start()
        await idle.acquire()
        thread.join()
        loop.set_task_factory(None)
    if failures:
        raise failures[0]
    result = profile.result(calls)
    # The task factory is a frame of each task that the loop makes; requests and task runs make their own.
    factory = result.by_function.pop(_name(_Made.__call__.__code__), 0.0)
    result.frames -= factory
    makers = (TaskRun._start_next.__code__, Connection._start.__code__)
    result.tasks = factory + sum(result.by_function.get(_name(code), 0.0) for code in makers)
    return result


class _Made:
    """A task factory, to be seen by the profile."""

    def __call__(self, loop: Any, work: Any, **options: Any) -> Any:
        return asyncio.Task(work, loop=loop, **options)


def rows() -> dict[str, Callable[[], Any]]:
    """The measurements by title."""
    task = Agent(Executor(), name="task")
    get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}
    plain = ""
    return {
        "message": lambda: measure(echo, send()),
        "message, 0.3": lambda: measure(echo, older(), plain),
        "message, 0.3, blocking": lambda: measure(echo, older(blocking=True), plain),
        "task": lambda: measure(task, send()),
        "task, 0.3, blocking": lambda: measure(task, older(blocking=True), plain),
        "GetTask": lambda: measure(task, get, first=send()),
        "gateway to gRPC": lambda: measure(None, send()),
        f"SSE, {EVENTS} events": lambda: measure(
            Agent(Chunks(), name="chunks"), send("SendStreamingMessage"), calls=5
        ),
    }


async def counts() -> dict[str, Frames]:
    return {title: await row() for title, row in rows().items()}


def main() -> None:
    """Prints the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--functions", metavar="ROW", help="list the frames of this row by function")
    chosen = parser.parse_args().functions
    if chosen:
        found = asyncio.run(rows()[chosen]())
        for name, count in found.by_function.items():
            print(f"{count:8.2f}  {name}")
        print(f"{found.frames:8.2f}  frames, {found.native:.1f} calls of C, {found.tasks:.1f} tasks")
        return
    show()


def show() -> None:
    print("per call, whole server:          frames    ours  calls of C  tasks")
    for title, count in asyncio.run(counts()).items():
        print(f"  {title:30} {count.frames:7.1f} {count.ours:7.1f} {count.native:9.1f} {count.tasks:7.1f}")


if __name__ == "__main__":
    main()
