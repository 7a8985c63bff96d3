"""A gateway in code: a client, mounted in the place of an agent.

python examples/gateway_jsonrpc_to_grpc/gateway.py http://127.0.0.1:9999 [HOST:PORT]
"""

from __future__ import annotations

import asyncio
import signal
import sys

from a2a_bridge import connect, interface
from a2a_bridge.ext import serve_service


async def main(upstream: str, address: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        connect(upstream, binding="JSONRPC") as peer,
        serve_service(peer.service, peer.card, [interface("GRPC", address)], rewrites_card=True) as server,
    ):
        print(f"ready grpc={server.grpc}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:50051"))
