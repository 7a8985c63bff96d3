"""An identity provider, an agent that checks its tokens, and gateways in front of it. No tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_bridge import Agent, connect, interface, serve
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, BearerTokens, KeyFile, KeySetSource, ProxyHeader
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards.select import select
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.credentials.sending import UpstreamCredentials
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.auth.identity_provider import AUDIENCE, Provider
from tests.runtime.scene import BINDINGS

SECRET = "s3cret:+/"  # noqa: S105  the one of the test's provider
MESSAGE = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text="hello")])


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Showing:
    """Answers with the name of its caller, and who acts for it."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        principal = run.context.principal
        assert principal is not None
        yield run.artifact(f"{principal.name.rpartition('#')[2]} {principal.claims.get('act', '')}".strip())
        yield run.status("completed")


def endpoint(provider: Provider, clock: Any = None, **changes: Any) -> TokenEndpoint:
    members: dict[str, Any] = {"url": f"{provider.issuer}/token", "client_id": "bridge", **changes}
    members.setdefault("secret", lambda: SECRET)
    return TokenEndpoint(**members, **({"clock": clock} if clock else {}))


def checking(provider: Provider) -> ServeOptions:
    """An agent that lets callers in who have a token of the provider."""
    keys = KeySetSource(provider.issuer)
    return ServeOptions(authentication=Authentication([BearerTokens(provider.issuer, [AUDIENCE], keys)]))


@asynccontextmanager
async def agent_checking(provider: Provider, *bindings: str) -> AsyncIterator[Server]:
    declared = [interface(one) for one in bindings or BINDINGS]
    async with serve(Agent(Showing(), name="shows"), declared, options=checking(provider)) as server:
        yield server


@asynccontextmanager
async def gateway(
    agent: hub.AgentCard,
    credentials: UpstreamCredentials | None,
    *,
    binding: str = "",
    dial: DialOptions | None = None,
    **options: Any,
) -> AsyncIterator[Server]:
    served = ServeOptions(grace=0, upstream=UpstreamOptions(credentials=credentials), **options)
    offered = select(agent, known=BINDINGS, binding=binding)
    async with serve_gateway(
        agent, offered, options=served, dial_options=dial or DialOptions(timeout=None)
    ) as server:
        yield server


async def said(card: hub.AgentCard, binding: str = "JSONRPC", **parameters: str) -> str:
    options = DialOptions(parameters=parameters)
    async with connect(card, binding=binding, options=options) as peer:
        answer = (await peer.send("hi")).text
        assert [text async for text in peer.stream_text("hi")] == [answer]
    return answer


class Edge:
    """A gateway that identifies its callers in every way, in front of an agent that records what it gets."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.probe = Probe()
        self.probe.on_unary = answering(hub.SendMessageResponse(message=MESSAGE))
        self.probe.on_stream = yielding(hub.StreamResponse(message=MESSAGE))
        keys = KeyFile(folder / "keys.json")
        self.key = keys.create("ann").text
        self.token = provider.token()
        self.authentication = Authentication(
            [
                ApiKeys(keys),
                BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer)),
                ProxyHeader("x-user", ("127.0.0.1",)),
            ]
        )
        self.ways = (
            {"x-api-key": self.key},
            {"authorization": f"Bearer {self.token}"},
            {"x-user": "ann-by-proxy"},
            {"x-api-key": self.key, "authorization": f"Bearer {self.token}", "x-user": "ann-by-proxy"},
        )

    @property
    def received(self) -> str:
        return "\n".join(str(dict(call.context.parameters)) for call in self.probe.calls)
