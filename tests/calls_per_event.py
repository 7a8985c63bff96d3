"""Counts Python calls and resumptions of generators per event of a stream, in our code only.

`python -m tests.calls_per_event` prints them. The peers are raw sockets and raw gRPC; each event is sent when
the one before has arrived, so that the numbers are exact.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import grpc.aio

from a2a_bridge import agent, interface, serve
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.cards import Candidate
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.dialects import V1_0
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub

ROOT = Path(__file__).parents[1]
OURS = tuple(f"{ROOT / folder}/" for folder in ("a2a_bridge", "transports"))
#: events before counting begins, and events that are counted
WARM_UP, COUNTED = 8, 32
STREAM = "/lf.a2a.v1.A2AService/SendStreamingMessage"

#: waits until the next event may be sent
Turn = Callable[[], Awaitable[None]]


@dataclass
class Count:
    #: new calls of functions
    calls: float
    #: resumptions of suspended coroutines and generators
    resumptions: float


class Counter:
    """Counts while it is on. It sees every frame of this thread."""

    def __init__(self) -> None:
        self.calls = self.resumptions = 0
        self._seen: set[FrameType] = set()

    def start(self) -> None:
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        self._seen.clear()

    def _note(self, frame: FrameType, what: str, _: Any) -> None:
        if what != "call" or not frame.f_code.co_filename.startswith(OURS):
            return
        if frame.f_lasti <= 0 or not frame.f_code.co_flags & 0x2A0:
            self.calls += 1
        elif frame.f_code.co_flags & 0x2A0 and frame not in self._seen and frame.f_lasti < 8:
            self._seen.add(frame)  # the first step of a generator that was just called
        else:
            self.resumptions += 1


class Steps:
    """Lets the server send one event at a time."""

    def __init__(self) -> None:
        self._allowed = asyncio.Semaphore(1)

    async def turn(self) -> None:
        await self._allowed.acquire()

    def arrived(self) -> None:
        self._allowed.release()


async def _read(address: str, body: dict[str, Any], headers: str, steps: Steps) -> Count:
    """Reads a stream over a raw socket, and counts in the middle of it."""
    host, port = address.rsplit(":", 1)
    data = json.dumps(body).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + data)
    counter = Counter()
    seen = 0
    try:
        while True:
            line = await reader.readline()
            if not line:
                raise RuntimeError(f"the stream ended after {seen} events")
            if not line.startswith(b"data:"):
                continue
            seen += 1
            if seen == WARM_UP:
                counter.start()
            if seen == WARM_UP + COUNTED:
                counter.stop()
                return Count(counter.calls / COUNTED, counter.resumptions / COUNTED)
            steps.arrived()
    finally:
        counter.stop()
        writer.close()


@asynccontextmanager
async def _raw_agent(steps: Steps) -> AsyncIterator[str]:
    """A gRPC agent of 1.0 that sends an artifact in chunks."""

    async def stream(_: bytes, context: Any) -> None:
        first = hub.StreamResponse(task=hub.Task(id="t", context_id="c"))
        first.task.status.state = hub.TASK_STATE_WORKING
        await context.send_initial_metadata((("a2a-event-id", "1"),))
        await context.write(first.SerializeToString())
        while True:
            await steps.turn()
            piece = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=True)
            piece.artifact.artifact_id = "a"
            piece.artifact.parts.add(text="some text")
            await context.write(hub.StreamResponse(artifact_update=piece).SerializeToString())

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio is untyped
        def service(self, details: Any) -> Any:
            return grpc.unary_stream_rpc_method_handler(stream) if details.method == STREAM else None

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _message(version: str) -> dict[str, Any]:
    older = version == "0.3"
    part = {"kind": "text", "text": "go"} if older else {"text": "go"}
    message = {"messageId": "m", "role": "user" if older else "ROLE_USER", "parts": [part]}
    if older:
        message["kind"] = "message"
    method = "message/stream" if older else "SendStreamingMessage"
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


async def gateway(version: str, *, resumes: bool) -> Count:
    """A caller of JSON-RPC through a gateway to an agent of 1.0 over gRPC. resumes: as its card offers."""
    steps = Steps()
    card = hub.AgentCard(name="raw", version="1", capabilities=hub.AgentCapabilities(streaming=True))
    if resumes:
        card.capabilities.extensions.add(uri=RESUME_URI)
    headers = "" if version == "0.3" else "A2A-Version: 1.0\r\n"
    async with _raw_agent(steps) as address:
        candidates = [Candidate(interface("GRPC", address), V1_0)]
        async with serve_gateway(
            card,
            candidates,
            [interface("JSONRPC"), interface("JSONRPC", version="0.3")],
            options=ServeOptions(grace=0),
        ) as server:
            return await _read(str(server.http), _message(version), headers, steps)


async def engine(store: str) -> Count:
    """A caller of JSON-RPC and an agent in this process."""
    steps = Steps()

    @agent
    async def counting(run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        while True:
            await steps.turn()
            yield run.artifact("some text", artifact_id="a", append=True)

    async with serve(counting, [interface("JSONRPC")], options=ServeOptions(grace=0, store=store)) as server:
        return await _read(str(server.http), _message("1.0"), "A2A-Version: 1.0\r\n", steps)


async def counts() -> dict[str, Count]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "gateway, JSON-RPC 1.0 to gRPC, the agent resumes": await gateway("1.0", resumes=True),
            "gateway, JSON-RPC 0.3 to gRPC, the agent resumes": await gateway("0.3", resumes=True),
            "gateway, JSON-RPC 0.3 to gRPC, the agent does not resume": await gateway("0.3", resumes=False),
            "engine, JSON-RPC 1.0, in memory": await engine("memory://"),
            "engine, JSON-RPC 1.0, SQLite": await engine(f"sqlite:///{folder}/tasks.db"),
        }


def main() -> None:
    print("per event of a stream, each sent alone:       calls  resumptions")
    for title, count in asyncio.run(counts()).items():
        print(f"  {title:58} {count.calls:5.1f} {count.resumptions:8.1f}")


if __name__ == "__main__":
    main()
