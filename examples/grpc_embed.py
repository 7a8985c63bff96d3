"""An agent on a grpc.aio server that is already there, next to its other services.

python examples/grpc_embed.py [HOST:PORT]
a2a-bridge send -a grpc://127.0.0.1:50051 Oslo --stream
"""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc.aio
from weather import weather

from a2a_bridge import add_to_server


async def main(address: str) -> None:
    server = grpc.aio.server()
    # Your own services: my_pb2_grpc.add_MyServiceServicer_to_server(MyService(), server)
    engine = add_to_server(weather, server, health=True, reflection=True)
    port = server.add_insecure_port(address)
    await server.start()
    print(f"ready grpc={address.rpartition(':')[0]}:{port}", flush=True)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(grace=5)
    await engine.close(5)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
