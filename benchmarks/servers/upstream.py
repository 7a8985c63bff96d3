"""The gRPC agent behind the measured gateways: answers every message with the same prepared bytes.

A real agent would cost as much as a gateway on the core of the load generator, and would distort the
measurement.
"""

from __future__ import annotations

import asyncio

import grpc

from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks import agent
from benchmarks.servers.listening import LOOPBACK, ready

ANSWER = hub.SendMessageResponse(
    message=hub.Message(
        message_id="0d0f5bd1-9c2b-4d3e-8f5a-6b1c2d3e4f50",
        context_id="c6a0f4b2-1d0b-4c1e-8f43-0f7f0a9f2f6a",
        role=hub.ROLE_AGENT,
        parts=[hub.Part(text=agent.ECHO)],
    )
).SerializeToString()


async def answer(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
    return ANSWER


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"SendMessage": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers),))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    ready(grpc=port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
