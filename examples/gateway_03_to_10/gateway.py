"""A gateway in code: clients of 0.3 and of 1.0, in front of one agent that speaks one of them.

python examples/gateway_03_to_10/gateway.py http://127.0.0.1:9999 [HOST:PORT [HOST:PORT]]
"""

from __future__ import annotations

import asyncio
import signal
import sys

from a2a_bridge import interface
from a2a_bridge.ext import DialOptions, binding_names, http_fetch, resolve, select, serve_gateway


async def main(upstream: str, http: str = "127.0.0.1:8080", grpc: str = "127.0.0.1:50051") -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # The card names the version of the agent, in the form of 0.3 or 1.0.
    async with http_fetch(DialOptions()) as fetch:
        card = await resolve(upstream, fetch)
    candidates = select(card, known=binding_names())
    # Both versions share the addresses: the request shows its version.
    interfaces = [
        interface(binding, address, version=version)
        for version in ("1.0", "0.3")
        for binding, address in (("JSONRPC", f"http://{http}"), ("GRPC", grpc))
    ]
    async with serve_gateway(card, candidates, interfaces) as server:
        print(f"ready http=http://{server.http} grpc={server.grpc}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
