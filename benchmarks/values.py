"""The cost of many small values: microseconds of a call for each accepted value, milliseconds for each
rejected MB, and the longest time that the event loop is held. `python -m benchmarks.values` runs it alone,
`--quick` with a few cells.

The agent's server and the gateways are two processes, and each is measured alone; the client that sends and
reads bytes is a third. A value of a call is counted once, although an accepted one comes back in the
response. Times are CPU times of the process; the hold is CPU time of the loop's own thread between two of its
turns.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import grpc.aio
import orjson

from a2a_bridge import Agent, Run, interface, serve
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.cards import Candidate
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, by_version
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks.measured import Measured

VALUES = 90_000
REFUSED_BYTES = 8 * 1024 * 1024
#: goals: microseconds for each value, milliseconds for each MB rejected, milliseconds that the loop is held
GOALS = (4.0, 40.0, 50.0)
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
VERSIONS = ("1.0", "0.3", "0.2.5")
DIRECT = "direct"


class Echo:
    """Gives the caller's parts and metadata back."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        reply = run.reply("ok")
        reply.metadata.CopyFrom(run.message.metadata)
        yield reply

    async def cancel(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("canceled")


#: the shapes: the text of one item, and its number of values
SHAPES: dict[str, tuple[bytes, int]] = {
    "integers": (b"7", 1),
    "1.0": (b"1.0", 1),
    "fractions": (b"0.1", 1),
    "strings": (b'"ab"', 1),
    "objects": (b'{"key":1}', 2),
    "nested lists": (b"[[[[1]]]]", 5),
    "large integers": (b"9007199254740993", 1),
    "nulls": (b"null", 1),
}


def listed(shape: str, values: int) -> bytes:
    """A JSON list of so many values."""
    text, each = SHAPES[shape]
    return b"[" + b",".join([text] * max(1, values // each)) + b"]"


def json_body(binding: str, version: str, content: bytes, *, unknown: bool = False) -> bytes:
    """A request to send a message that has the content in its metadata, or else in an unknown
    member.
    """
    place = b'"stranger":{"x":%b}' % content if unknown else b'"metadata":{"x":%b}' % content
    if version == "1.0":
        message = b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],%b}' % place
    elif binding == "JSONRPC":
        message = (
            b'{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}],%b}'
            % place
        )
    else:
        message = b'{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"}],%b}' % place
    name = b"request" if (binding, version) == ("HTTP+JSON", "0.2.5") else b"message"
    params = b'{"%b":%b,"configuration":{"blocking":true}}' % (name, message)
    if binding != "JSONRPC":
        return params
    method = b"SendMessage" if version == "1.0" else b"message/send"
    return b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method, params)


def grpc_body(version: str, content: bytes, *, unknown: bool = False) -> bytes:
    """The same in protobuf, as far as protobuf can express it."""
    from a2a_bridge.codec import decoder
    from a2a_bridge.pb.google_protobuf import Struct

    metadata = decoder(Struct)({"x": orjson.loads(content)})
    if version == "1.0":
        request: Any = hub.SendMessageRequest()
        message = request.message
        message.parts.add(text="x")
    else:
        request = v0.SendMessageRequest()
        request.configuration.blocking = True
        message = request.request
        message.content.add(text="x")
    message.message_id, message.role = "m", 1
    if unknown:
        raw_bytes = metadata.SerializeToString()
        return bytes(request.SerializeToString() + _field(99, raw_bytes))
    message.metadata.CopyFrom(metadata)
    return bytes(request.SerializeToString())


def _field(number: int, raw_bytes: bytes) -> bytes:
    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out += bytes((value & 0x7F | 0x80,))
            value >>= 7
        return out + bytes((value,))

    return varint(number << 3 | 2) + varint(len(raw_bytes)) + raw_bytes


class Target:
    """An address to send bytes to."""

    def __init__(self, http: str, session: aiohttp.ClientSession, channel: Any) -> None:
        self._http, self._session = http, session
        self._channel = channel

    async def send(self, binding: str, version: str, body: bytes) -> bool:
        """Whether a request was accepted."""
        if binding == "GRPC":
            package = "lf.a2a.v1" if version == "1.0" else "a2a.v1"
            declared = () if version == "1.0" else (("a2a-version", version),)
            call = self._channel.unary_unary(f"/{package}.A2AService/SendMessage")
            try:
                await call(body, metadata=declared, timeout=_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                _expect(error.code() in _REJECTIONS, f"{error.code()} {error.details()}")
                return False
            return True
        path = "/" if binding == "JSONRPC" else "/message:send" if version == "1.0" else "/v1/message:send"
        headers = {"Content-Type": "application/json", "A2A-Version": version}
        async with self._session.post(self._http + path, data=body, headers=headers) as response:
            answer = await response.read()
        taken = response.status == 200 and b'"error"' not in answer[:200]
        _expect(taken or response.status in (200, 400, 413, 422), f"{response.status} {answer[:300]!r}")
        return taken


_REJECTIONS = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise RuntimeError(f"an answer that says nothing about the limit: {what}")


#: where servers listen: a name → the HTTP address, the gRPC address, and the card in bytes
Addresses = dict[str, tuple[str, str, bytes]]
_SERVED = [interface(kind, version=version) for kind in BINDINGS for version in VERSIONS]
_KINDS: dict[str, Any] = {"JSONRPC": JSONRPC, "HTTP+JSON": HTTP_JSON, "GRPC": GRPC}
_TIMEOUT = 60.0


@asynccontextmanager
async def _agent() -> AsyncIterator[Addresses]:
    async with serve(Agent(Echo(), name="Echo"), _SERVED, ServeOptions()) as server:
        yield {DIRECT: _addresses(server)}


def _addresses(server: Any) -> tuple[str, str, bytes]:
    return f"http://{server.http}", str(server.grpc), server.card.SerializeToString()


@asynccontextmanager
async def _gateways(agent: Addresses, upstreams: Sequence[tuple[str, str]]) -> AsyncIterator[Addresses]:
    """A gateway to the agent for each binding and version."""
    http, rpc, raw_bytes = agent[DIRECT]
    card = hub.AgentCard.FromString(raw_bytes)
    found: Addresses = {}
    async with AsyncExitStack() as stack:
        for binding, version in upstreams:
            dialect = by_version(version)
            if dialect is None or dialect.form(_KINDS[binding]) is None:
                continue
            at = interface(binding, rpc if binding == "GRPC" else http, version=version)
            gateway = await stack.enter_async_context(
                serve_gateway(card, [Candidate(at, dialect)], _SERVED, ServeOptions())
            )
            found[f"→ {version} {binding}"] = _addresses(gateway)
        yield found


@asynccontextmanager
async def targets(upstreams: Sequence[tuple[str, str]]) -> AsyncIterator[dict[str, tuple[Target, Measured]]]:
    """The server itself, and a gateway to it for each binding and version, each with its process."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_TIMEOUT))
        )
        agent = Measured("agent", _agent)
        stack.callback(agent.stop)
        gateways = Measured("gateways", _gateways, agent.addresses, upstreams)
        stack.callback(gateways.stop)
        found = {}
        for process in (agent, gateways):
            for name, (http, rpc, _) in process.addresses.items():
                channel = await stack.enter_async_context(grpc.aio.insecure_channel(rpc, options=_UNLIMITED))
                found[name] = (Target(http, session, channel), process)
        yield found


_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


async def measured(
    target: Target, process: Measured, binding: str, version: str, body: bytes
) -> tuple[bool, float, float]:
    """Whether it was accepted, CPU seconds of the server, and its longest hold in seconds."""
    process.begin()
    taken = await target.send(binding, version, body)
    spent = process.end()
    return taken, spent.cpu, spent.held


def cells(*, quick: bool) -> Iterator[tuple[str, str, str]]:
    """Binding, version and shape of the requests."""
    for shape in ("1.0", "objects") if quick else SHAPES:
        for version in ("1.0", "0.3") if quick else VERSIONS:
            for binding in BINDINGS:
                yield binding, version, shape


async def measure(
    *, quick: bool = False, only: str = "", show: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    """One row per cell and target, each printed at once. only: cells whose titles begin with it."""
    upstreams = [("JSONRPC", "0.3")] if quick else [(b, v) for v in VERSIONS[:2] for b in BINDINGS]
    found = []
    async with targets(upstreams) as known:
        for binding, version, shape in cells(quick=quick):
            if not f"{version} {binding}".startswith(only):
                continue
            for unknown in (False, True) if version != "1.0" else (False,):
                content = listed(shape, VALUES)
                size = REFUSED_BYTES // (len(SHAPES[shape][0]) + 1) * SHAPES[shape][1]
                many = listed(shape, size)
                if binding == "GRPC":
                    body = grpc_body(version, content, unknown=unknown)
                    many = grpc_body(version, listed(shape, min(size, 1_000_000)), unknown=unknown)
                else:
                    body = json_body(binding, version, content, unknown=unknown)
                    many = json_body(binding, version, many, unknown=unknown)
                for name, (target, process) in known.items():
                    warm = (
                        grpc_body(version, b"1") if binding == "GRPC" else json_body(binding, version, b"1")
                    )
                    await measured(target, process, binding, version, warm)
                    taken, spent, hold = await measured(target, process, binding, version, body)
                    rejected, cost, other = await measured(target, process, binding, version, many)
                    found.append(
                        {
                            "title": f"{version} {binding} {name}: {shape}{', unknown' if unknown else ''}",
                            "direct": name == DIRECT,
                            "taken": taken,
                            "value_us": round(spent / VALUES * 1e6, 2),
                            "rejected": not rejected,
                            "mb_ms": round(cost / (len(many) / 2**20) * 1e3, 1),
                            "hold_ms": round(max(hold, other) * 1e3, 1),
                        }
                    )
                    show(found[-1])
    return found


def rows() -> list[dict[str, Any]]:
    """The worst of a few cells, for the table of all benchmarks."""
    found = asyncio.run(measure(quick=True, show=lambda _: None))
    value, megabyte, hold = GOALS
    worst = {
        "values: each one taken": ("us", max(one["value_us"] for one in found if one["direct"]), value),
        "values: each MB rejected": ("ms", max(one["mb_ms"] for one in found), megabyte),
        "values: the loop held": ("ms", max(one["hold_ms"] for one in found), hold),
    }
    return [
        {"title": title, "unit": unit, "ours": ours, "target": goal, "reached": ours <= goal}
        for title, (unit, ours, goal) in worst.items()
    ]


def _show(row: dict[str, Any]) -> None:
    taken = f"{'' if row['taken'] else 'not '}taken {row['value_us']:6} us/value"
    rejected = f"{'' if row['rejected'] else 'not '}rejected {row['mb_ms']:5} ms/MB"
    print(f"{row['title']:52} {taken:26} {rejected:26} hold {row['hold_ms']:5} ms", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.values", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells")
    parser.add_argument(
        "--only", default="", metavar="TITLE", help="cells of this version, or version and binding"
    )
    given = parser.parse_args()
    asyncio.run(measure(quick=given.quick, only=given.only, show=_show))
