"""A scripted agent of a2a-sdk 0.3, as a program without code of ours: JSON-RPC, HTTP+JSON (`/v1`), gRPC.

    .build/peers/0.3/bin/python tests/peers/agent_0_3.py [--binding JSONRPC] [--binding HTTP+JSON] [--binding GRPC]

It prints one line, `ready http=http://HOST:PORT grpc=HOST:PORT`, and runs until its standard input ends.
"""

from collections.abc import Callable
from typing import Any

from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import GrpcHandler
from a2a.types import AgentInterface
from scripted_v0 import card, main, request_handler

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


def build(bindings: list[str], http: str, grpc_address: str) -> tuple[Any, Callable[[Any], None]]:
    urls = {"JSONRPC": http + "/", "HTTP+JSON": http, "GRPC": grpc_address}
    interfaces = [AgentInterface(transport=binding, url=urls[binding]) for binding in bindings]
    where = {
        "preferred_transport": bindings[0],
        "additional_interfaces": interfaces,
        "protocol_version": "0.3.0",
    }
    public = card(urls[bindings[0]], more_skills=False, **where)
    extended = card(urls[bindings[0]], more_skills=True, **where)
    handler = request_handler()
    json_rpc = A2AStarletteApplication(agent_card=public, http_handler=handler, extended_agent_card=extended)
    if "HTTP+JSON" in bindings:
        application: Any = A2ARESTFastAPIApplication(
            agent_card=public, http_handler=handler, extended_agent_card=extended
        ).build()
        if "JSONRPC" in bindings:
            json_rpc.add_routes_to_app(application)
    else:
        application = json_rpc.build()

    def add_service(server: Any) -> None:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(public, handler), server)

    return application, add_service


if __name__ == "__main__":
    main(BINDINGS, build)
