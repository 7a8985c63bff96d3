"""Agents and gateways of several versions over real sockets, composed as in the runtime. No tests."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, find, http_post
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.agent_api import service_of
from a2a_bridge.core.service import Service, compose
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.v0_3 import DIALECT as V0_3
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.gateway.polyfill import add_polyfill
from a2a_bridge.gateway.webhooks import PATH, Relay
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.middleware import validate
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.push import PushOptions, Registrations, Webhook, push_memory, push_service
from a2a_bridge.stores import MemoryStore
from tests.patience import PATIENCE

#: the receivers of tests are on this machine
ALLOWED = PushOptions(allow=("127.0.0.1",), first=0.001)
BOTH = (V1_0, V0_3)
VERSIONS = {"1.0": V1_0, "0.3": V0_3}


class Front:
    """The address of a service for callers of both versions, over JSON-RPC unless another kind is named."""

    def __init__(self, url: str, kind: str = "JSONRPC") -> None:
        self.url, self.kind = url, kind

    def candidate(self, version: str) -> Candidate:
        """To dial it in a version."""
        dialect = VERSIONS[version]
        return Candidate(interface(self.kind, self.url, version=dialect.version), dialect)

    async def call(self, method: str, params: Any, version: str = "0.3") -> Any:
        """The result of a raw call, or its error."""
        answer = json.loads(await self._post(method, params, version))
        assert answer["id"] == 7
        return answer["result"] if "result" in answer else answer["error"]

    async def stream(self, method: str, params: Any, version: str = "0.3") -> list[Any]:
        """All results of a raw stream, or the one error, in any framing."""
        lines = (await self._post(method, params, version)).decode().splitlines()
        if lines[0].startswith("{"):
            lines[0] = f"data:{lines[0]}"
        answers = [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]
        return [answer.get("result") or answer["error"] for answer in answers]

    async def _post(self, method: str, params: Any, version: str) -> bytes:
        frame = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        headers = {"Content-Type": "application/json"}
        if version == "1.0":
            headers["A2A-Version"] = "1.0"
        async with http_post(DialOptions(timeout=PATIENCE)) as post:
            return (await post(self.url, headers, json.dumps(frame).encode())).body


@asynccontextmanager
async def served(
    service: Service, dialects: Sequence[Dialect] = BOTH, registrations: Registrations | None = None
) -> AsyncIterator[Front]:
    """Any service, with the middleware of every server."""
    async with AsyncExitStack() as stack:
        front, _ = await _mounted(stack, service, dialects, registrations or Registrations())
        yield front


async def _mounted(
    stack: AsyncExitStack,
    service: Service,
    dialects: Sequence[Dialect],
    registrations: Registrations | None,
    kind: str = "JSONRPC",
) -> tuple[Front, list[Any]]:
    binding = find(kind)
    host: Any = binding.host(ListenAddress(), HostOptions())
    memory = () if registrations is None else (push_memory(registrations, dialects),)
    guarded = compose(service, *memory, stream_compat(dialects), validate())
    binding.mount(host, "", guarded, dialects)
    receive: list[Any] = []

    async def received(*posted: Any) -> int:
        status: int = await receive[0](*posted)
        return status

    if kind != "GRPC":
        host.receive(PATH, received)
    await host.start()
    stack.push_async_callback(host.drain, 0)
    return Front(str(host.address) if kind == "GRPC" else f"http://{host.address}/", kind), receive


@asynccontextmanager
async def hosted(
    agent: Agent, dialects: Sequence[Dialect] = BOTH, kind: str = "JSONRPC"
) -> AsyncIterator[Front]:
    """An agent that sends push notifications."""
    async with AsyncExitStack() as stack:
        store = MemoryStore()
        push = await stack.enter_async_context(push_service(store.outbox, store.task_at, ALLOWED))
        engine = Engine(agent, store=store, push_sender=push.sender)
        stack.push_async_callback(engine.close)
        front, _ = await _mounted(stack, service_of(engine), dialects, None, kind)
        yield front


@asynccontextmanager
async def bridged(
    upstream: Candidate, *, relayed: bool = False, kind: str = "JSONRPC"
) -> AsyncIterator[Front]:
    """A gateway to an agent of one version, for callers of both."""
    async with AsyncExitStack() as stack:
        dial = dial_failover([upstream], DialOptions(timeout=PATIENCE), dial=add_polyfill())
        service: Any = await stack.enter_async_context(dial)
        post = await stack.enter_async_context(http_post(DialOptions(timeout=PATIENCE)))
        relay = Relay(service, Webhook(post, pause=0.001), "") if relayed else None
        if relay is not None:
            service = relay
        front, receive = await _mounted(stack, service, BOTH, Registrations(), kind)
        if relay is not None:
            relay.public_url = front.url
            receive.append(relay.receive)
        yield front
