"""A scripted agent of a2a-sdk 0.2, as a program without code of ours: JSON-RPC at `/`, and gRPC.

    .build/peers/0.2/bin/python tests/peers/agent_0_2.py [--binding JSONRPC] [--binding GRPC]

It prints one line, `ready http=http://HOST:PORT grpc=HOST:PORT`, and runs until its standard input ends.
"""

from collections.abc import Callable
from typing import Any

from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import GrpcHandler
from a2a.types import AgentInterface
from scripted_v0 import card, main, request_handler

BINDINGS = ("JSONRPC", "GRPC")


def build(bindings: list[str], http: str, grpc_address: str) -> tuple[Any, Callable[[Any], None]]:
    urls = {"JSONRPC": http + "/", "GRPC": grpc_address}
    where = {
        "preferred_transport": bindings[0],
        "additional_interfaces": [AgentInterface(transport=one, url=urls[one]) for one in bindings[1:]],
    }
    public = card(urls[bindings[0]], more_skills=False, **where)
    extended = card(urls[bindings[0]], more_skills=True, **where)
    handler = request_handler()
    application = A2AStarletteApplication(
        agent_card=public, http_handler=handler, extended_agent_card=extended
    )

    def add_service(server: Any) -> None:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(public, handler), server)

    return application.build(), add_service


if __name__ == "__main__":
    main(BINDINGS, build)
