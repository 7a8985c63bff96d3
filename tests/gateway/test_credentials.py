"""The credentials that a gateway sends to its agent: tokens from a real token endpoint, and never the edge's."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from starlette.applications import Starlette

from a2a_bridge import connect, interface
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway, serve_service
from a2a_bridge.auth import BearerTokens, KeySetSource
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards.select import Candidate, select
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.credentials.grants import ClientCredentials, TokenExchange
from a2a_bridge.gateway.credentials.sending import StaticCredentials, UpstreamCredentials, mismatch
from a2a_bridge.gateway.credentials.token_endpoint import REJECTIONS
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.auth.identity_provider import AUDIENCE, Provider, new_key, provider_running
from tests.gateway.credentials_scene import (
    MESSAGE,
    SECRET,
    Clock,
    Edge,
    agent_checking,
    endpoint,
    gateway,
    said,
)
from tests.gateway.test_gateway import card as probe_card
from tests.interop.sdk_agent import ScriptedExecutor
from tests.interop.sdk_agent import card as sdk_card
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS, uvicorn_running


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_running() as running:
        yield running


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_client_credentials_open_the_agent_with_one_token_for_all(
    provider: Provider, upstream: str
) -> None:
    credentials = ClientCredentials(endpoint(provider), scope="a b", audience=AUDIENCE)
    async with agent_checking(provider, upstream) as agent, gateway(agent.card, credentials) as server:
        for front in BINDINGS:
            assert await said(server.card, front) == "bridge"
        async with connect(server.card) as peer:
            answers = await asyncio.gather(*(peer.send("hi") for _ in range(20)))
    assert {answer.text for answer in answers} == {"bridge"}
    assert provider.grants == [
        {
            "grant_type": "client_credentials",
            "scope": "a b",
            "audience": AUDIENCE,
            "method": "client_secret_basic",
        }
    ]


async def test_concurrent_first_callers_cause_one_request(provider: Provider) -> None:
    credentials = ClientCredentials(endpoint(provider))
    provider.may_answer.clear()
    waiting = [asyncio.create_task(credentials.of(CallContext())) for _ in range(50)]
    async with asyncio.timeout(PATIENCE):
        while "/token" not in provider.asked:  # noqa: ASYNC110  the provider has no event
            await asyncio.sleep(0)
        waiting[0].cancel()  # a caller that leaves does not end the request of the others
        provider.may_answer.set()
        found = await asyncio.gather(*waiting[1:])
    assert len({one["authorization"] for one in found}) == 1
    assert len(provider.grants) == 1


@pytest.mark.parametrize(
    ("methods", "used"),
    [
        (["client_secret_basic", "client_secret_post"], "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
    ],
)
async def test_the_discovery_document_says_where_and_how(
    provider: Provider, methods: list[str], used: str
) -> None:
    provider.methods = methods
    found = endpoint(provider, url="", issuer=provider.issuer)
    await ClientCredentials(found, resource="https://r.example").of(CallContext())
    assert provider.grants == [
        {"grant_type": "client_credentials", "resource": "https://r.example", "method": used}
    ]


async def test_the_method_of_the_operator_counts(provider: Provider) -> None:
    await ClientCredentials(endpoint(provider, method="post")).of(CallContext())
    assert provider.grants[0]["method"] == "client_secret_post"


async def test_a_discovery_document_cannot_lead_into_the_network(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    inner = provider.issuer.replace("127.0.0.1", "127.0.0.2") + "/token"
    document = f'{{"issuer": "{provider.issuer}", "token_endpoint": "{inner}"}}'
    provider.answers["/.well-known/openid-configuration"] = 200, document.encode()
    with pytest.raises(A2AError, match="no credentials"):
        await ClientCredentials(endpoint(provider, url="", issuer=provider.issuer)).of(CallContext())
    assert "127.0.0.2, which is not public" in caplog.text
    assert provider.grants == []


async def test_a_token_is_renewed_before_it_expires_and_beside_the_calls(provider: Provider) -> None:
    clock = Clock()
    credentials = ClientCredentials(endpoint(provider, clock), clock=clock)
    first = await credentials.of(CallContext())
    clock.now += 239
    assert await credentials.of(CallContext()) == first
    clock.now += 2  # it has 59 of its 300 seconds left
    assert await credentials.of(CallContext()) == first
    async with asyncio.timeout(PATIENCE):
        while await credentials.of(CallContext()) == first:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert len(provider.grants) == 2
    clock.now += 1000  # nobody called in time: the call waits for a new one
    second = await credentials.of(CallContext())
    assert len(provider.grants) == 3
    assert second != first


async def test_an_old_token_serves_while_the_endpoint_is_down(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    credentials = ClientCredentials(endpoint(provider, clock, chance=lambda: 1.0), clock=clock)
    first = await credentials.of(CallContext())
    provider.answers["/token"] = 503, b"down"
    clock.now += 280
    for _ in range(20):
        assert await credentials.of(CallContext()) == first
        await asyncio.sleep(0)
    clock.now += 100
    for _ in range(5):
        with pytest.raises(A2AError) as failed:
            await credentials.of(CallContext())
    assert failed.value.reason is Reason.UNAVAILABLE
    assert failed.value.message == "this gateway has no credentials for the agent at present"
    assert failed.value.retry_after is not None
    asked = len(provider.grants)
    assert asked <= 3  # pauses of 1, 2, … s; five calls cause no five requests
    del provider.answers["/token"]
    clock.now += 10
    await credentials.of(CallContext())
    assert len(provider.grants) == asked + 1
    lines = [record.getMessage() for record in caplog.records if record.name == "a2a_bridge.gateway"]
    assert len(lines) == 2
    assert "gives no token: it answers 503; --upstream-token-url or --upstream-issuer names it" in lines[0]
    assert lines[1].endswith("answers again")


LIES = {
    "no JSON": (200, b"<html>"),
    "an array": (200, b"[]"),
    "no token": (200, b"{}"),
    "another kind": (200, b'{"access_token": "a", "token_type": "mac"}'),
    "a header in the token": (200, b'{"access_token": "a\\r\\nx: y", "token_type": "bearer"}'),
    "a token of another type": (200, b'{"access_token": 1, "token_type": "bearer"}'),
    "a negative time": (200, b'{"access_token": "a", "token_type": "bearer", "expires_in": -1}'),
    "no time": (200, b'{"access_token": "a", "token_type": "bearer", "expires_in": NaN}'),
    "a redirect": (302, b""),
    "too much": (200, b'{"access_token": "a", "token_type": "bearer", "x": "' + b"y" * 2**21 + b'"}'),
    "too deep": (200, b"[" * 100_000),
}


@pytest.mark.parametrize("answer", LIES.values(), ids=LIES)
async def test_a_broken_answer_is_no_token(provider: Provider, answer: tuple[int, bytes]) -> None:
    provider.answers["/token"] = answer
    with rejected(Reason.UNAVAILABLE) as failed:
        await ClientCredentials(endpoint(provider)).of(CallContext())
    assert failed.value.message == "this gateway has no credentials for the agent at present"


@pytest.mark.parametrize("stated", ['"120"', "120", "1e300", "null"])
async def test_lifetimes_in_several_variants_are_read(provider: Provider, stated: str) -> None:
    body = f'{{"access_token": "a", "token_type": "Bearer", "expires_in": {stated}}}'
    provider.answers["/token"] = 200, body.encode()
    assert await ClientCredentials(endpoint(provider)).of(CallContext()) == {"authorization": "Bearer a"}


async def test_a_wrong_secret_is_logged_without_it_and_a_rotated_one_is_read_again(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    clock, secrets = Clock(), ["wrong-secret"]
    found = endpoint(provider, clock, secret=lambda: secrets[0])
    with pytest.raises(A2AError):
        await ClientCredentials(found, clock=clock).of(CallContext())
    assert "it rejects this gateway: invalid_client" in caplog.text
    assert "wrong-secret" not in caplog.text
    assert SECRET not in caplog.text
    secrets[0] = SECRET
    clock.now += 2
    token = (await ClientCredentials(found, clock=clock).of(CallContext()))["authorization"].split()[1]
    assert token not in caplog.text


class Doors:
    """An agent that lets in who has one of its tokens."""

    def __init__(self) -> None:
        self.open_for: set[str] = set()
        self.probe = Probe()
        self.probe.on_unary = self._answer
        self.probe.on_stream = self._stream
        self.rejections = 0

    def _check(self, call: Any) -> None:
        if call.context.parameters.get("authorization", "").removeprefix("Bearer ") not in self.open_for:
            self.rejections += 1
            raise A2AError(Reason.UNAUTHENTICATED, "a text of the agent")

    async def _answer(self, call: Any) -> Any:
        self._check(call)
        return hub.SendMessageResponse(message=MESSAGE)

    async def _stream(self, call: Any) -> Any:
        self._check(call)
        yield hub.StreamResponse(message=MESSAGE)


@asynccontextmanager
async def doors_behind(
    provider: Provider, upstream: str, clock: Clock
) -> AsyncIterator[tuple[Doors, Server]]:
    doors = Doors()
    credentials = ClientCredentials(endpoint(provider, clock), clock=clock)
    async with (
        serve_service(doors.probe, probe_card(), [interface(upstream)], ServeOptions(grace=0)) as agent,
        gateway(agent.card, credentials) as server,
    ):
        yield doors, server


#: what the proxy in front of an agent asks for
CHALLENGES = ['Bearer realm="agents", scope="call"', 'DPoP algs="ES256"', f'Digest realm="{"x" * 1009}"']
#: and challenges that no caller gets: one byte too long, or not printable ASCII
UNSOUND = [f'Digest realm="{"x" * 1010}"', 'Bearer realm="b\xfcro"', 'Bearer realm="a\tb"']


class Guarded:
    """An ASGI application that is open to the bearers of a token of the provider, as a proxy would have it."""

    def __init__(self, app: Any, provider: Provider, status: int = 401) -> None:
        self._app, self._status = app, status
        keys = KeySetSource(provider.issuer)
        self._tokens = BearerTokens(provider.issuer, [AUDIENCE], keys)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        try:
            known = await self._tokens.identify(Presented(headers)) is not None
        except A2AError:
            known = False
        if known:
            await self._app(scope, receive, send)
            return
        head = [
            (b"content-type", b"text/plain"),
            *((b"www-authenticate", one.encode("latin-1")) for one in UNSOUND + CHALLENGES),
        ]
        await send({"type": "http.response.start", "status": self._status, "headers": head})
        await send({"type": "http.response.body", "body": b"no token"})


@asynccontextmanager
async def sdk_agent_behind_proxy(
    provider: Provider, upstream: str, status: int = 401
) -> AsyncIterator[tuple[hub.AgentCard, Guarded]]:
    handler = DefaultRequestHandler(
        agent_executor=ScriptedExecutor(), task_store=InMemoryTaskStore(), agent_card=sdk_card([])
    )
    routes = create_jsonrpc_routes(handler, "/") + create_rest_routes(handler)
    guarded = Guarded(Starlette(routes=routes), provider, status)
    async with uvicorn_running(guarded, lifespan="off") as url:
        place = interface(upstream, url if upstream == "HTTP+JSON" else f"{url}/")
        yield probe_card(supported_interfaces=[place]), guarded


async def challenges(server: Server, key: str) -> list[list[str]]:
    """What a caller is asked for that the agent does not know, in the answers to calls and streams."""
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    framed = {"jsonrpc": "2.0", "id": 1, "params": message}
    headers = {"A2A-Version": "1.0", "X-API-Key": key}
    async with httpx.AsyncClient(base_url=f"http://{server.http}", headers=headers) as http:
        answers = [
            await http.post("/", json={**framed, "method": "SendMessage"}),
            await http.post("/", json={**framed, "method": "SendStreamingMessage"}),
            await http.post("/message:send", json=message),
            await http.post("/message:stream", json=message),
        ]
    return [[f"{answer.status_code}", *answer.headers.get_list("www-authenticate")] for answer in answers]


@pytest.mark.parametrize("upstream", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("status", [401, 403])
async def test_the_agents_challenge_reaches_callers_whose_credentials_do(
    provider: Provider, tmp_path: Path, upstream: str, status: int
) -> None:
    edge = Edge(tmp_path, provider)
    checked: dict[str, Any] = {"authentication": edge.authentication}
    own = ['Bearer realm="a2a"'] if status == 401 else []
    header = DialOptions(timeout=None, parameters={"authorization": "Bearer of-the-gateway"})
    async with sdk_agent_behind_proxy(provider, upstream, status) as (card, _):
        for members, expected in (
            ({}, CHALLENGES),
            ({**checked, "pass_credentials": True}, CHALLENGES),
            (checked, own),
            ({"dial": header}, own),
        ):
            async with gateway(card, None, **members) as server:
                assert await challenges(server, edge.key) == [[f"{status}", *expected]] * 4


async def test_a_challenge_to_an_exchanged_token_is_not_for_the_caller(
    provider: Provider, tmp_path: Path
) -> None:
    edge = Edge(tmp_path, provider)
    async with sdk_agent_behind_proxy(provider, "JSONRPC") as (card, guarded):
        guarded._tokens = BearerTokens(provider.issuer, ["another"], KeySetSource(provider.issuer))
        exchange = TokenExchange(endpoint(provider))
        async with (
            gateway(card, exchange, authentication=edge.authentication) as server,
            httpx.AsyncClient(base_url=f"http://{server.http}") as http,
        ):
            frame = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
            headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {edge.token}"}
            answer = await http.post("/", json=frame, headers=headers)
    assert (answer.status_code, answer.headers.get_list("www-authenticate")) == (401, ['Bearer realm="a2a"'])


@pytest.mark.parametrize("upstream", ["JSONRPC", "HTTP+JSON"])
async def test_an_agent_of_the_official_sdk_behind_a_proxy_that_asks_for_tokens(
    provider: Provider, upstream: str
) -> None:
    async with sdk_agent_behind_proxy(provider, upstream) as (card, guarded):
        async with gateway(card, ClientCredentials(endpoint(provider))) as server:
            for front in BINDINGS:
                assert await said(server.card, front) == "hi"
            # The keys of the provider have changed: the agent rejects the old token, once.
            provider.keys = [new_key()]
            guarded._tokens = BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer))
            assert await said(server.card) == "hi"
        assert len(provider.grants) == 2
        async with gateway(card, StaticCredentials({})) as server, connect(server.card) as peer:
            with pytest.raises(A2AError, match="does not accept the credentials"):
                await peer.send("hi")


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_a_rejected_token_is_replaced_once(
    provider: Provider, upstream: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    for number, body in enumerate((b"first", b"second", b"third")):
        provider.answers[f"/{number}"] = 200, b'{"access_token": "%s", "token_type": "bearer"}' % body
    provider.answers["/token"] = provider.answers["/0"]
    async with doors_behind(provider, upstream, clock) as (doors, server):
        doors.open_for = {"first"}
        assert await said(server.card) == "hello"
        # The agent has new keys: its rejection shows it, and the call is repeated.
        doors.open_for = {"second"}
        provider.answers["/token"] = provider.answers["/1"]
        assert await said(server.card) == "hello"
        assert (doors.rejections, len(provider.grants)) == (1, 2)
        # An agent that rejects every token does not cause a request for each call.
        clock.now += REJECTIONS + 1
        doors.open_for = set()
        problems = []
        for front in BINDINGS * 2:
            async with connect(server.card, binding=front) as peer:
                with pytest.raises(A2AError) as failed:
                    await peer.send("hi")
                problems.append((failed.value.reason, failed.value.message))
        assert set(problems) == {
            (Reason.UNAVAILABLE, "the agent does not accept the credentials of this gateway")
        }
        assert len(provider.grants) == 3
        async with connect(server.card) as peer:
            with pytest.raises(A2AError, match="does not accept"):
                [text async for text in peer.stream_text("hi")]
    assert "a text of the agent" in caplog.text


def kinds(provider: Provider) -> dict[str, UpstreamCredentials | None]:
    return {
        "default": None,
        "none": StaticCredentials({}),
        "static": StaticCredentials({"x-agent-key": "K"}),
        "client-credentials": ClientCredentials(endpoint(provider)),
    }


@pytest.mark.parametrize("upstream", BINDINGS)
@pytest.mark.parametrize("kind", ["default", "none", "static", "client-credentials"])
async def test_credentials_of_the_edge_never_reach_the_agent(
    provider: Provider, tmp_path: Path, kind: str, upstream: str
) -> None:
    edge = Edge(tmp_path, provider)
    credentials = kinds(provider)[kind]
    dial = DialOptions(timeout=None, forward=DialOptions().forward | {"x-api-key", "x-user"})
    async with (
        serve_service(edge.probe, probe_card(), [interface(upstream)], ServeOptions(grace=0)) as agent,
        gateway(agent.card, credentials, dial=dial, authentication=edge.authentication) as server,
    ):
        for front in BINDINGS:
            for way in edge.ways:
                assert await said(server.card, front, **way) == "hello"
    assert len(edge.probe.calls) == 2 * len(BINDINGS) * len(edge.ways)
    for secret in (edge.key, edge.token, "ann-by-proxy"):
        assert secret not in edge.received
    sent = {call.context.parameters.get("authorization", "")[:10] for call in edge.probe.calls}
    assert sent == ({"Bearer eyJ"} if kind == "client-credentials" else {""})
    if kind == "static":
        assert {call.context.parameters["x-agent-key"] for call in edge.probe.calls} == {"K"}


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_credentials_pass_through_without_an_edge_or_where_the_operator_says_so(
    provider: Provider, tmp_path: Path, upstream: str
) -> None:
    edge = Edge(tmp_path, provider)
    async with serve_service(edge.probe, probe_card(), [interface(upstream)], ServeOptions(grace=0)) as agent:
        async with gateway(agent.card, None) as server:
            await said(server.card, authorization="Basic YTpi")
        passing = {"authentication": edge.authentication, "pass_credentials": True}
        async with gateway(agent.card, None, **passing) as server:
            await said(server.card, authorization=f"Bearer {edge.token}")
        async with gateway(agent.card, StaticCredentials({})) as server:
            await said(server.card, authorization="Basic YTpi")
    sent = [call.context.parameters.get("authorization") for call in edge.probe.calls]
    assert sent == ["Basic YTpi"] * 2 + [f"Bearer {edge.token}"] * 2 + [None] * 2


async def test_an_agent_that_wants_more_than_it_gets_does_not_blame_the_caller(provider: Provider) -> None:
    doors, problems = Doors(), set()
    async with (
        serve_service(doors.probe, probe_card(), [interface("JSONRPC")], ServeOptions(grace=0)) as agent,
        gateway(agent.card, StaticCredentials({})) as server,
    ):
        for front in BINDINGS:
            async with connect(server.card, binding=front) as peer:
                with pytest.raises(A2AError) as failed:
                    await peer.send("hi")
            problems.add((failed.value.reason, failed.value.message))
    assert problems == {(Reason.UNAVAILABLE, "the agent does not accept the credentials of this gateway")}
    assert doors.rejections == len(BINDINGS)


async def test_an_interface_that_only_the_card_names_gets_no_token(provider: Provider) -> None:
    probe = Probe()
    probe.on_unary = answering(hub.SendMessageResponse(message=MESSAGE))
    credentials = ClientCredentials(endpoint(provider))
    async with serve_service(probe, probe_card(), [interface("JSONRPC")], ServeOptions(grace=0)) as agent:
        (known,) = select(agent.card, known=BINDINGS)
        foreign = Candidate(known.interface, known.dialect, credentials=False)
        options = ServeOptions(grace=0, upstream=UpstreamOptions(credentials=credentials))
        caller = DialOptions(parameters={"authorization": "x"})
        async with (
            serve_gateway(agent.card, [foreign], options=options) as server,
            connect(server.card, options=caller) as peer,
        ):
            await peer.send("hi")
    assert probe.last.context.parameters.get("authorization") is None
    assert provider.grants == []


async def test_a_header_for_all_calls_beside_a_token_is_rejected(provider: Provider) -> None:
    async with agent_checking(provider) as agent:
        dial = DialOptions(parameters={"authorization": "x"})
        with pytest.raises(A2AError, match="authorization is set for all calls, and by the credentials"):
            async with gateway(agent.card, ClientCredentials(endpoint(provider)), dial=dial):
                pass


def test_a_card_that_asks_for_something_else_is_noticed(provider: Provider) -> None:
    def asking(**schemes: hub.SecurityScheme) -> hub.AgentCard:
        card = hub.AgentCard(name="agent", security_schemes=schemes)
        for name in schemes:
            card.security_requirements.add().schemes[name].SetInParent()
        return card

    key = hub.SecurityScheme(
        api_key_security_scheme=hub.APIKeySecurityScheme(location="header", name="X-Agent-Key")
    )
    bearer = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))
    login = hub.SecurityScheme(
        oauth2_security_scheme=hub.OAuth2SecurityScheme(
            flows=hub.OAuthFlows(authorization_code=hub.AuthorizationCodeOAuthFlow())
        )
    )
    mtls = hub.SecurityScheme(mtls_security_scheme=hub.MutualTlsSecurityScheme())
    none, static = StaticCredentials({}), StaticCredentials({}, also=frozenset({"x-agent-key"}))
    client, exchange = ClientCredentials(endpoint(provider)), TokenExchange(endpoint(provider))

    def found(card: hub.AgentCard, credentials: UpstreamCredentials, *, certificate: bool = False) -> str:
        return mismatch(card, credentials.fits, certificate=certificate)

    assert found(asking(), none) == ""
    assert found(asking(k=key), none) == "k (API key in header 'X-Agent-Key')"
    assert (found(asking(k=key), static), found(asking(k=key, b=bearer), client)) == ("", "")
    assert found(asking(l=login), client) == "l (OAuth 2, authorization code)"
    assert found(asking(l=login), exchange) == ""
    assert found(asking(m=mtls), exchange) == "m (client certificate)"
    assert found(asking(m=mtls), none, certificate=True) == ""
    assert (
        found(asking(k=key, m=mtls), none) == "k (API key in header 'X-Agent-Key'), or m (client certificate)"
    )


async def test_the_cards_of_the_gateway_ask_for_what_callers_need(provider: Provider, tmp_path: Path) -> None:
    edge = Edge(tmp_path, provider)
    scheme = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))
    asking = probe_card(security_schemes={"agent": scheme})
    asking.security_requirements.add().schemes["agent"].SetInParent()
    asking.skills.add(id="s").security_requirements.add().schemes["agent"].SetInParent()
    edge.probe.on_unary = answering(asking)
    async with serve_service(edge.probe, asking, [interface("JSONRPC")], ServeOptions(grace=0)) as agent:
        for credentials, authentication, schemes in (
            (None, None, ["agent"]),
            (StaticCredentials({}), None, []),
            (ClientCredentials(endpoint(provider)), None, []),
            (ClientCredentials(endpoint(provider)), edge.authentication, ["apikey", "bearer"]),
        ):
            caller = DialOptions(parameters=edge.ways[0])
            async with (
                gateway(agent.card, credentials, authentication=authentication) as server,
                connect(server.card, options=caller) as peer,
            ):
                for card in (server.card, await peer.get_extended_agent_card()):
                    named = {name for one in card.security_requirements for name in one.schemes}
                    assert sorted(card.security_schemes) == sorted(named)
                    assert sorted(name.lower() for name in named) == schemes
                    asked = bool(card.skills[0].security_requirements)
                    assert asked == (credentials is None)


async def test_the_mismatch_is_one_warning_at_start(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_checking(provider) as agent, gateway(agent.card, StaticCredentials({})):
        pass
    lines = [record.getMessage() for record in caplog.records if "asks for" in record.getMessage()]
    assert lines == [
        "the card of 'shows' asks for bearer (OpenID Connect), and the configured credentials are none of that"
    ]
