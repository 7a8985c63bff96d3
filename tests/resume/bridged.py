"""A scripted agent behind a gateway, with a network on both sides that a test can cut. No test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.option_classes import ReplayOptions
from a2a_bridge.core.resume import offer_resume
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.resume.cutting import Cutter, cutting
from tests.resume.scripted import Log
from tests.sites import listening

CARD = hub.AgentCard(
    name="Scripted",
    description="Does what a test says",
    version="1",
    capabilities=hub.AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)


@dataclass(frozen=True)
class Bridge:
    """service: a client side of the gateway. near, far: the proxies before and behind the gateway."""

    probe: Probe
    service: Service
    near: Cutter
    far: Cutter

    def play(self, log: Log) -> Log:
        """Puts another agent behind the gateway, without its knowledge."""
        self.probe.on_stream, self.probe.on_unary = log.stream, log.unary
        self.probe.calls.clear()
        return log


@asynccontextmanager
async def bridged(
    front: str,
    upstream: str,
    *,
    caller: Dialect = V1_0,
    agent: Dialect = V1_0,
    replay: ReplayOptions | None = None,
    resumes: bool = True,
) -> AsyncIterator[Bridge]:
    """The client, `near`, the gateway, `far`, the agent. resumes: whether the card offers to resume."""
    probe = Probe()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(probe, upstream, [agent]))
        far = await stack.enter_async_context(cutting(address.host, address.port))
        agents = [far.address]
        through = reached(front, agents, upstream, caller=caller, agent=agent, replay=replay, resumes=resumes)
        async with through as (service, near):
            yield Bridge(probe, service, near, far)


@asynccontextmanager
async def reached(
    front: str,
    agents: list[str],
    upstream: str,
    *,
    caller: Dialect = V1_0,
    agent: Dialect = V1_0,
    replay: ReplayOptions | None = None,
    resumes: bool = True,
) -> AsyncIterator[tuple[Service, Cutter]]:
    """A client side of a gateway to an agent, and the proxies between them."""
    candidates = [
        Candidate(
            interface(upstream, one if upstream == "GRPC" else f"http://{one}", version=agent.version), agent
        )
        for one in agents
    ]
    options = ServeOptions(grace=0, replay=replay or ReplayOptions(pause=0.02))
    async with AsyncExitStack() as stack:
        served = [interface(front, version=caller.version)]
        card = offer_resume(CARD) if resumes else CARD
        server = await stack.enter_async_context(serve_gateway(card, candidates, served, options))
        here = server.grpc if front == "GRPC" else server.http
        assert here is not None
        near = await stack.enter_async_context(cutting(here.host, here.port))
        url = near.address if front == "GRPC" else f"http://{near.address}"
        there = interface(front, url, version=caller.version)
        yield await stack.enter_async_context(find(front).dial(there, caller, DialOptions())), near


def sending(text: str = "go") -> Call[hub.SendMessageRequest, hub.StreamResponse]:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    return Call(ops.SEND_STREAMING_MESSAGE, hub.SendMessageRequest(message=message), CallContext())
