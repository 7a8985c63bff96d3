"""Ours, under each server that can host it: as `a2a-bridge` runs it, mounted in ASGI servers, and in Envoy.

It starts processes and measures nothing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf import json_format

from a2a_bridge.cards import interface
from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks.processes import ROOT, Server, free_port

MODULE = "benchmarks/servers/ours.py:measured_agent"
MOUNTED = "benchmarks.servers.mounted:app"
CARD = ROOT / ".build" / "bench" / "card.json"
ANY_PORT = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class Host:
    """One way to serve the same agent.

    needs: the module that has to be installed. grpc: whether it serves gRPC.
    """

    name: str
    needs: str = ""
    grpc: bool = True

    @property
    def is_installed(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    def start(self, core: int | None, upstream: str = "", *, legacy: bool = False) -> Server:
        """The server; upstream: the agent behind a gateway. legacy: 0.3 is served too."""
        match self.name:
            case "builtin":
                return _command(core, upstream, legacy, *_TWO_PORTS, "--loop", "asyncio")
            case "uvloop":
                return _command(core, upstream, legacy, *_TWO_PORTS, "--loop", "uvloop")
            case "Envoy":
                return _command(core, upstream, legacy, "--server", "envoy", "--listen", ANY_PORT)
            case "uvicorn":
                flags = (
                    "--loop",
                    "uvloop",
                    "--http",
                    "httptools",
                    "--no-access-log",
                    "--log-level",
                    "warning",
                )
                return _mounted("uvicorn", core, upstream, legacy, flags)
            case "granian":
                flags = ("--interface", "asgi", "--loop", "uvloop", "--workers", "1", "--no-ws")
                return _mounted("granian", core, upstream, legacy, (*flags, "--log-level", "warning"))
            case _:
                raise ValueError(f"{self.name} is no host")


HOSTS = (
    Host("builtin"),
    Host("uvloop", needs="uvloop"),
    Host("uvicorn", needs="uvicorn", grpc=False),
    Host("granian", needs="granian", grpc=False),
    Host("Envoy", needs="pyvoy"),
)
_TWO_PORTS = ("--http", ANY_PORT, "--grpc", ANY_PORT)


def gateway_workers(count: int, upstream: str) -> Server:
    """A gateway of several processes, on any core."""
    return _command(None, upstream, False, *_TWO_PORTS, "--loop", "uvloop", "--workers", str(count))


def counted_gateway(upstream: str, tool: Sequence[str]) -> Server:
    """A gateway on asyncio, on any core, that a tool runs."""
    return _command(None, upstream, True, *_TWO_PORTS, "--loop", "asyncio", tool=tool)


def installed(family: str) -> list[Host]:
    """The hosts of this machine that serve "http" or "grpc"."""
    return [host for host in HOSTS if host.is_installed and (host.grpc or family == "http")]


def upstream_card(upstream: str) -> hub.AgentCard:
    """The card of the agent behind a gateway: of gRPC at `host:port`, of JSON-RPC at `http://host:port`."""
    return hub.AgentCard(
        name="Measured",
        description="Answers as fast as it can.",
        version="1",
        capabilities=hub.AgentCapabilities(streaming=True),
        supported_interfaces=[interface("JSONRPC" if upstream.startswith("http://") else "GRPC", upstream)],
    )


def _command(core: int | None, upstream: str, legacy: bool, *flags: str, tool: Sequence[str] = ()) -> Server:
    versions = "1.0,0.3" if legacy else "1.0"
    if upstream:
        CARD.parent.mkdir(parents=True, exist_ok=True)
        CARD.write_text(json_format.MessageToJson(upstream_card(upstream)))
        target: tuple[str, ...] = ("gateway", upstream, "--card", str(CARD))
    else:
        target = ("serve", MODULE, "--store", "memory://")
    command = (*tool, sys.executable, "-m", "a2a_bridge", *target, "--versions", versions, *flags)
    # Tools such as Valgrind take minutes to start it on a busy machine.
    return Server("ours", core, command=command, patience=300.0 if tool else 60.0)


def _mounted(server: str, core: int | None, upstream: str, legacy: bool, flags: Sequence[str]) -> Server:
    port = free_port()
    command = (sys.executable, "-m", server, "--host", "127.0.0.1", "--port", str(port), *flags, MOUNTED)
    environment = {"MEASURED_UPSTREAM": upstream, "MEASURED_LEGACY": "1" if legacy else ""}
    words = {"http": f"127.0.0.1:{port}"}
    return Server(server, core, command=command, words=words, environment=environment)
