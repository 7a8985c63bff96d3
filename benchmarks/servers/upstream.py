"""The agent behind the measured gateways: answers every message with the same prepared bytes, over gRPC and
JSON-RPC, where it streams, too.

A real agent would cost as much as a gateway on the core of the load generator, and would distort the
measurement.
"""

from __future__ import annotations

import asyncio
import re

import grpc

from a2a_bridge.codec import dumps, encoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks import agent
from benchmarks.servers.bare import STREAM, Http
from benchmarks.servers.listening import LOOPBACK, listen, ready

ANSWER = hub.SendMessageResponse(
    message=hub.Message(
        message_id="0d0f5bd1-9c2b-4d3e-8f5a-6b1c2d3e4f50",
        context_id="c6a0f4b2-1d0b-4c1e-8f43-0f7f0a9f2f6a",
        role=hub.ROLE_AGENT,
        parts=[hub.Part(text=agent.ECHO)],
    )
)
GRPC_ANSWER = ANSWER.SerializeToString()
RESULT = dumps(encoder(hub.SendMessageResponse)(ANSWER))
#: the id of a JSON-RPC request of the measured clients, which is a number
_ID = re.compile(rb'"id":(\d+)')


async def answer(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
    return GRPC_ANSWER


def _events() -> list[bytes]:
    """A stream as `benchmarks.agent` says."""
    task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_SUBMITTED))
    messages = [hub.StreamResponse(task=task)]
    for number in range(agent.CHUNKS):
        piece = hub.TaskArtifactUpdateEvent(task_id="t", context_id="c", append=number > 0)
        piece.artifact.artifact_id, piece.artifact.name = "a", agent.ARTIFACT
        piece.artifact.parts.add(text=agent.CHUNK)
        messages.append(hub.StreamResponse(artifact_update=piece))
    for at, state in ((1, hub.TASK_STATE_WORKING), (agent.EVENTS - 1, hub.TASK_STATE_COMPLETED)):
        update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c", status=hub.TaskStatus(state=state))
        messages.insert(at, hub.StreamResponse(status_update=update))
    encode = encoder(hub.StreamResponse)
    return [dumps(encode(message)) for message in messages]


EVENTS = _events()


class Agent(Http):
    """A connection for JSON-RPC."""

    def __init__(self) -> None:
        super().__init__(None)

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        found = _ID.search(body)
        assert found is not None
        if b'"SendStreamingMessage"' in body:
            self._start(self._stream(found[1]))
            return
        data = _response(found[1], RESULT)
        self._write(HEAD % len(data) + data)

    async def _stream(self, id_: bytes) -> None:
        self._write(STREAM)
        for event in EVENTS:
            line = b"data: %b\n\n" % _response(id_, event)
            self._write(b"%x\r\n%b\r\n" % (len(line), line))
            await asyncio.sleep(0)
        self._write(b"0\r\n\r\n")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def _response(id_: bytes, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result)


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"SendMessage": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers),))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    opened, http = listen()
    await asyncio.get_running_loop().create_server(Agent, sock=opened)
    ready(http=http, grpc=port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
