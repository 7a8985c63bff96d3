"""The socket and the end of a measured server, the same for all of them."""

from __future__ import annotations

import os
import socket
import sys
import threading

LOOPBACK = "127.0.0.1"
#: the environment variable that tells a server of ours which metrics and traces to make
VARIABLE = "BENCHMARK_OBSERVED"
#: and where the files are that it checks callers with: API keys, and the keys of an issuer of tokens
FOLDER, KEYS, JWKS = "BENCHMARK_CREDENTIALS", "keys.json", "jwks.json"
ISSUER, AUDIENCE = "https://issuer.example", "https://agent.example"


def listen() -> tuple[socket.socket, int]:
    """A listening TCP socket on a free loopback port, and the port."""
    # With the protocol named: asyncio sets TCP_NODELAY on such sockets only, and without it every response
    # that is written in two pieces waits 40 ms for an acknowledgement.
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((LOOPBACK, 0))
    opened.listen(1024)
    return opened, opened.getsockname()[1]


def ready(*, http: int = 0, grpc: int = 0) -> None:
    """Tells the harness that the ports accept connections, and ends this process when the harness ends.

    The harness holds the other end of standard input; it closes when the harness is done, and also when it
    dies.
    """
    words = [f"{name}={LOOPBACK}:{port}" for name, port in (("http", http), ("grpc", grpc)) if port]
    threading.Thread(target=_end_with_input, daemon=True).start()
    print("ready", *words, flush=True)


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    # No orderly end: clients may still hold streams open, and no state outlives a run.
    os._exit(0)
