"""Servers that identify their callers: the same answers over every binding, version and host."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor
from a2a.client.auth.credentials import CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.errors import A2AClientError
from a2a.types import Message, Part, Role, SendMessageRequest

from a2a_bridge import Agent, add_to_server, asgi, connect, interface, serve
from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import ServeOptions, serve_gateway
from a2a_bridge.auth import (
    ApiKeys,
    Authentication,
    BearerTokens,
    KeyFile,
    KeySetSource,
    ProxyHeader,
    Rule,
    UncheckedCredentialsError,
)
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards.select import select
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.auth.identity_provider import AUDIENCE, Provider, provider_running
from tests.runtime.scene import BINDINGS, PATIENCE, WELL_KNOWN, uvicorn_running

CELLS = [(binding, version) for binding in BINDINGS for version in VERSIONS]


class Showing:
    """Answers with the name of its caller and with the credentials that it sees."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        principal = run.context.principal
        yield run.status("working")
        yield run.artifact(principal.name if principal is not None else "nobody")
        yield run.status("completed")


def agent() -> Agent:
    scheme = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Basic"))
    extended = hub.AgentCard(name="extended", description="d", version="1", security_schemes={"own": scheme})
    return Agent(Showing(), name="shows", extended_card=extended)


class Edge:
    """A key file, a provider, and options that use both."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.file = KeyFile(folder / "keys.json")
        self.key = self.file.create("ann", scopes=["read", "send"]).text
        self.other = self.file.create("bob").text
        self.provider = provider
        keys = KeySetSource(provider.issuer)
        self.authentication = Authentication(
            [ApiKeys(self.file), BearerTokens(provider.issuer, [AUDIENCE], keys)]
        )
        self.options = ServeOptions(authentication=self.authentication)


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    async with provider_running() as provider:
        yield Edge(tmp_path, provider)


def with_key(key: str) -> DialOptions:
    return DialOptions(parameters={"x-api-key": key})


def with_token(token: str) -> DialOptions:
    return DialOptions(parameters={"authorization": f"Bearer {token}"})


async def failure(card: hub.AgentCard, options: DialOptions, binding: str, version: str) -> A2AError:
    async with connect(card, binding=binding, version=version, options=options) as peer:
        with pytest.raises(A2AError) as failed:
            await peer.send("hi")
    return failed.value


@pytest.mark.parametrize(("binding", "version"), CELLS)
async def test_every_cell_asks_for_credentials(edge: Edge, binding: str, version: str) -> None:
    token = edge.provider.token()
    async with serve(agent(), options=edge.options) as server:
        card = server.card
        for options, name in (
            (with_key(edge.key), "ann"),
            (with_token(token), f"{edge.provider.issuer}#ann"),
        ):
            async with connect(card, binding=binding, version=version, options=options) as peer:
                assert (await peer.send("hi")).text == name
                assert [text async for text in peer.stream_text("hi")] == [name]
        problems = [
            await failure(card, options, binding, version)
            for options in (
                DialOptions(),
                with_key("ann.wrong"),
                with_token("wrong"),
                with_token(edge.provider.token(aud="other")),
                DialOptions(parameters={"x-api-key": "ann.wrong", "authorization": f"Bearer {token}"}),
            )
        ]
    assert {error.reason for error in problems} == {Reason.UNAUTHENTICATED}
    assert [error.message for error in problems] == [
        "Authentication is required",
        "The API key is not valid",
        "The bearer token is not valid",
        "The bearer token is not valid",
        "The API key is not valid",
    ]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_streams_ask_before_the_first_event(edge: Edge, binding: str) -> None:
    async with serve(agent(), options=edge.options) as server, connect(server.card, binding=binding) as peer:
        with pytest.raises(A2AError) as failed:
            [text async for text in peer.stream_text("hi")]
    assert failed.value.reason is Reason.UNAUTHENTICATED


async def test_http_says_how_to_authenticate_and_reads_no_body(edge: Edge) -> None:
    challenges = ['ApiKey realm="a2a", header="X-API-Key"', 'Bearer realm="a2a"']
    async with (
        serve(agent(), options=edge.options) as server,
        httpx.AsyncClient(base_url=f"http://{server.http}") as http,
    ):
        for version, path in (
            ("1.0", "/"),
            ("0.3", "/"),
            ("1.0", "/message:send"),
            ("0.3", "/v1/message:send"),
        ):
            # The body is no JSON: a server that read it would say so.
            answer = await http.post(path, content=b"{", headers={"A2A-Version": version})
            assert answer.status_code == 401
            assert answer.headers.get_list("www-authenticate") == challenges
            error = answer.json()["error"]
            assert error["message"] == "Authentication is required"
            assert error["code"] == (-32603 if path == "/" else 401)
        bad = await http.post("/", content=b"{", headers={"Authorization": "Bearer x"})
        assert bad.headers["www-authenticate"] == 'Bearer realm="a2a", error="invalid_token"'
        card = await http.get(WELL_KNOWN)
        assert card.status_code == 200
        assert (await http.get("/livez")).status_code == 200
        assert (await http.get("/extendedAgentCard")).status_code == 401
        assert (await http.get("/agent/authenticatedExtendedCard")).status_code == 401
        headers = {"X-API-Key": edge.key, "A2A-Version": "1.0"}
        extended = (await http.get("/extendedAgentCard", headers=headers)).json()
    assert (
        sorted(card.json()["securitySchemes"]) == sorted(extended["securitySchemes"]) == ["apiKey", "bearer"]
    )


async def test_cards_of_every_version_say_what_is_asked(edge: Edge) -> None:
    async with (
        serve(agent(), options=edge.options) as server,
        httpx.AsyncClient(base_url=f"http://{server.http}") as http,
    ):
        found = {
            version: (await http.get(WELL_KNOWN, params={"version": version})).json() for version in VERSIONS
        }
    url = f"{edge.provider.issuer}/.well-known/openid-configuration"
    assert found["1.0"]["securityRequirements"] == [{"schemes": {"apiKey": {}}}, {"schemes": {"bearer": {}}}]
    assert found["1.0"]["securitySchemes"]["bearer"]["openIdConnectSecurityScheme"]["openIdConnectUrl"] == url
    for version in ("0.3", "0.2.5"):
        schemes = found[version]["securitySchemes"]
        assert found[version]["security"] == [{"apiKey": []}, {"bearer": []}]
        assert (schemes["apiKey"]["type"], schemes["apiKey"]["name"]) == ("apiKey", "X-API-Key")
        assert (schemes["bearer"]["type"], schemes["bearer"]["openIdConnectUrl"]) == ("openIdConnect", url)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_in_an_asgi_application(edge: Edge, binding: str) -> None:
    async with uvicorn_running(asgi(agent(), options=edge.options)) as url:
        async with connect(url, binding=binding, options=with_key(edge.key)) as peer:
            assert (await peer.send("hi")).text == "ann"
        async with connect(url, binding=binding) as peer:
            with pytest.raises(A2AError) as failed:
                await peer.send("hi")
    assert failed.value.reason is Reason.UNAUTHENTICATED


async def test_grpc_web_in_an_asgi_application(edge: Edge) -> None:
    request = hub.GetTaskRequest(id="none").SerializeToString()
    frame = b"\0" + len(request).to_bytes(4, "big") + request
    head = {"Content-Type": "application/grpc-web+proto", "A2A-Version": "1.0"}
    async with uvicorn_running(asgi(agent(), options=edge.options)) as url, httpx.AsyncClient() as http:
        path = f"{url}/lf.a2a.v1.A2AService/GetTask"
        answers = [
            await http.post(path, content=frame, headers=head | more)
            for more in ({}, {"X-API-Key": edge.key})
        ]
    statuses = [
        line
        for answer in answers
        for line in (*map(": ".join, answer.headers.items()), *answer.text.splitlines())
        if "grpc-status:" in line.replace(" ", "")
    ]
    assert [int(line.rpartition(":")[2]) for line in statuses] == [16, 5]


async def test_on_a_grpc_server_of_the_application(edge: Edge) -> None:
    server = grpc.aio.server()
    engine = add_to_server(agent(), server, options=edge.options)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        card = hub.AgentCard(supported_interfaces=[interface("GRPC", f"127.0.0.1:{port}")])
        async with connect(card, options=with_key(edge.key)) as peer:
            assert (await peer.send("hi")).text == "ann"
        assert (await failure(card, DialOptions(), "GRPC", "1.0")).reason is Reason.UNAUTHENTICATED
    finally:
        await server.stop(0)
        await engine.close(0)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_another_callers_task_is_like_an_absent_one(edge: Edge, binding: str) -> None:
    async with serve(agent(), options=edge.options) as server:
        async with connect(server.card, binding=binding, options=with_key(edge.key)) as ann:
            task = (await ann.send("hi")).task
            assert task is not None
            assert [one.id for one in (await ann.list_tasks(hub.ListTasksRequest())).tasks] == [task.id]
        async with connect(server.card, binding=binding, options=with_key(edge.other)) as bob:
            assert not (await bob.list_tasks(hub.ListTasksRequest())).tasks
            texts = set()
            for task_id in (task.id, str(uuid.uuid4())):
                with pytest.raises(A2AError) as failed:
                    await bob.get_task(hub.GetTaskRequest(id=task_id))
                texts.add((failed.value.reason, failed.value.message.replace(task_id, "ID")))
    assert len(texts) == 1


@pytest.mark.parametrize("binding", BINDINGS)
async def test_access_rules(edge: Edge, binding: str) -> None:
    rules = (
        Rule(("send",), scopes=("send",)),
        Rule(("read",), scopes=("read",)),
        Rule(("CancelTask",), principals=("b*",)),
    )
    async with serve(agent(), options=replace(edge.options, access_rules=rules)) as server:
        async with connect(server.card, binding=binding, options=with_key(edge.key)) as ann:
            assert (await ann.send("hi")).text == "ann"
            rejected = [await rejection(ann.cancel_task(hub.CancelTaskRequest(id="x")))]
        async with connect(server.card, binding=binding, options=with_key(edge.other)) as bob:
            rejected += [
                await rejection(bob.send("hi")),
                await rejection(bob.get_task(hub.GetTaskRequest(id="x"))),
            ]
            missing = await rejection(bob.cancel_task(hub.CancelTaskRequest(id="x")))
    assert [(error.reason, error.message) for error in rejected] == [
        (Reason.PERMISSION_DENIED, "CancelTask is not allowed for this caller"),
        (Reason.PERMISSION_DENIED, "SendMessage is not allowed for this caller"),
        (Reason.PERMISSION_DENIED, "GetTask is not allowed for this caller"),
    ]
    assert missing.reason is Reason.TASK_NOT_FOUND


async def rejection(call: Any) -> A2AError:
    with pytest.raises(A2AError) as failed:
        await call
    return failed.value


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_caller_without_rights_learns_nothing_of_an_operation(edge: Edge, binding: str) -> None:
    """Not even what its requests look like: the errors of the body come later."""
    options = replace(edge.options, access_rules=(Rule(("read",)), Rule(principals=("ann",))))
    wrong: Any = {"SendMessage": {"message": {"parts": 7}}, "SubscribeToTask": {"id": {}}}
    async with serve(agent(), options=options) as server, httpx.AsyncClient() as http:
        for key, expected in ((edge.other, Reason.PERMISSION_DENIED), (edge.key, Reason.INVALID_PARAMS)):
            head = {"X-API-Key": key, "A2A-Version": "1.0"}
            if binding == "GRPC":
                async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
                    call = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(
                        b"\xff", metadata=[(name.lower(), value) for name, value in head.items()]
                    )
                    with pytest.raises(grpc.aio.AioRpcError) as failed:
                        await call
                    assert failed.value.code().name in expected.grpc.name, failed.value
                continue
            if binding == "JSONRPC":
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": wrong["SendMessage"]}
                answer = (await http.post(f"http://{server.http}/", json=body, headers=head)).json()
                shown = json.dumps(answer["error"])
            else:
                url = f"http://{server.http}/message:send"
                shown = (await http.post(url, json=wrong["SendMessage"], headers=head)).text
            assert expected.name in shown
            assert ("parts" in shown) == (expected is Reason.INVALID_PARAMS)


async def test_a_missing_scope_is_named_to_http_callers(edge: Edge) -> None:
    options = replace(edge.options, access_rules=(Rule(("send",), scopes=("send",)),))
    async with serve(agent(), options=options) as server, httpx.AsyncClient() as http:
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
        head = {"X-API-Key": edge.other, "A2A-Version": "1.0"}
        answer = await http.post(f"http://{server.http}/message:send", json=body, headers=head)
    assert answer.status_code == 403
    assert 'error="insufficient_scope", scope="send"' in answer.headers["www-authenticate"]


def test_only_stars_and_question_marks_make_a_pattern_of_a_name() -> None:
    rule = Rule(principals=("ci[1]", "bot-?"), agents=("*",))
    assert rule.allows("GetTask", Principal("ci[1]"))
    assert rule.allows("GetTask", Principal("bot-7"))
    assert not rule.allows("GetTask", Principal("ci1"))


def test_rules_name_operations_that_exist() -> None:
    with pytest.raises(ValueError, match="'SendMesage' is none of"):
        Rule(("SendMesage",))


@each(
    ("trusted", "header", "name"),
    [
        (("127.0.0.1",), "carol", "carol"),
        (("127.0.0.0/8",), "carol", "carol"),
        (("10.0.0.0/8",), "carol", None),
        (("127.0.0.1",), "", None),
    ],
)
@each("binding", BINDINGS)
async def test_a_proxy_that_names_the_caller(
    binding: str, trusted: tuple[str, ...], header: str, name: str | None
) -> None:
    options = ServeOptions(authentication=Authentication([ProxyHeader("X-User", trusted)]))
    async with (
        serve(agent(), options=options) as server,
        connect(server.card, binding=binding, options=DialOptions(parameters={"x-user": header})) as peer,
    ):
        if name is not None:
            assert (await peer.send("hi")).text == name
            return
        assert (await rejection(peer.send("hi"))).reason is Reason.UNAUTHENTICATED


@each("name", ["ann\u00a0", "\u2003ann", "ann\u3000", "\x0bann"])
async def test_only_the_white_space_of_http_is_around_the_name_of_a_caller(name: str) -> None:
    method = ProxyHeader("X-User", ("127.0.0.1",))
    assert await method.identify(Presented({"x-user": " ann\t"}, "127.0.0.1")) == Principal("ann")
    with pytest.raises(A2AError, match="does not name one caller"):
        await method.identify(Presented({"x-user": name}, "127.0.0.1"))


def test_a_proxy_header_needs_trusted_proxies() -> None:
    with pytest.raises(ValueError, match="name their addresses"):
        ProxyHeader("X-User", ())


# --- gateways ---
@asynccontextmanager
async def gateway(card: hub.AgentCard, options: ServeOptions) -> AsyncIterator[hub.AgentCard]:
    candidates = select(card, known=list(BINDINGS))
    async with serve_gateway(card, candidates, options=options) as server:
        yield server.card


class Seeing:
    """Answers with the credentials that came with the call."""

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        names = ("authorization", "x-api-key")
        yield run.reply(json.dumps([run.context.parameters.get(name) for name in names]))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_gateway_keeps_the_credentials_of_its_edge(edge: Edge, binding: str) -> None:
    token = edge.provider.token()
    async with serve(Agent(Seeing(), name="sees"), [interface(binding)]) as behind:
        for options, expected in (
            (edge.options, None),
            (replace(edge.options, pass_credentials=True), f"Bearer {token}"),
            (ServeOptions(), f"Bearer {token}"),
        ):
            async with (
                gateway(behind.card, options) as card,
                connect(card, binding=binding, options=with_token(token)) as peer,
            ):
                assert json.loads((await peer.send("hi")).text) == [expected, None]


async def test_a_gateway_asks_for_credentials_in_its_card(edge: Edge) -> None:
    async with serve(agent()) as behind, gateway(behind.card, edge.options) as card:
        assert sorted(card.security_schemes) == ["apiKey", "bearer"]
        assert (await failure(card, DialOptions(), "GRPC", "1.0")).reason is Reason.UNAUTHENTICATED


# --- the official SDK ---
class Given(CredentialService):
    """The credentials of a test, by the name of the scheme."""

    def __init__(self, credentials: dict[str, str]) -> None:
        self.credentials = credentials

    async def get_credentials(self, security_scheme_name: str, context: Any) -> str | None:
        return self.credentials.get(security_scheme_name)


async def texts_of(url: str, binding: str, credentials: dict[str, str]) -> list[str]:
    """The texts that the client of the official SDK gets, which reads our card to know what to send."""
    config = ClientConfig(
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
        httpx_client=httpx.AsyncClient(timeout=PATIENCE),
    )
    card = await A2ACardResolver(config.httpx_client, url).get_agent_card()
    client = ClientFactory(config).create(card, interceptors=[AuthInterceptor(Given(credentials))])
    message = Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[Part(text="hi")])
    try:
        return [
            text
            for event in [one async for one in client.send_message(SendMessageRequest(message=message))]
            for text in shown(event)
        ]
    finally:
        await client.close()
        await config.httpx_client.aclose()


def shown(event: Any) -> Iterable[str]:
    if event.HasField("artifact_update"):
        yield from (part.text for part in event.artifact_update.artifact.parts)


@pytest.mark.sdk
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_official_client_learns_from_the_card_what_to_send(edge: Edge, binding: str) -> None:
    async with serve(agent(), options=edge.options) as server:
        url = f"http://{server.http}"
        assert await texts_of(url, binding, {"apiKey": edge.key}) == ["ann"]
        assert await texts_of(url, binding, {"bearer": edge.provider.token()}) == [
            f"{edge.provider.issuer}#ann"
        ]
        with pytest.raises(A2AClientError):
            await texts_of(url, binding, {})
        with pytest.raises(A2AClientError):
            await texts_of(url, binding, {"apiKey": "ann.wrong"})


# --- cards that nobody checks ---
def asking() -> Agent:
    scheme = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))
    made = agent()
    made.card.security_schemes["token"].CopyFrom(scheme)
    made.card.security_requirements.add().schemes["token"].SetInParent()
    return made


async def test_a_card_that_asks_for_credentials_which_nothing_checks_is_rejected(edge: Edge) -> None:
    with pytest.raises(UncheckedCredentialsError, match=r"'shows' asks for credentials \(token\)"):
        async with serve(asking()):
            pass
    with pytest.raises(UncheckedCredentialsError):
        asgi(asking())
    with pytest.raises(UncheckedCredentialsError):
        add_to_server(asking(), grpc.aio.server())
    for options in (edge.options, ServeOptions(allow_unauthenticated=True)):
        async with serve(asking(), options=options):
            pass


async def test_the_keys_of_a_provider_are_read_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """So that a wrong issuer is known before the first caller comes. The start does not wait for it."""
    async with provider_running() as provider:
        source = KeySetSource(provider.issuer)
        checking = Authentication([BearerTokens(provider.issuer, [AUDIENCE], source)])
        async with asyncio.timeout(PATIENCE), serve(agent(), options=ServeOptions(authentication=checking)):
            while not source.generation:  # noqa: ASYNC110  the reading sets no event
                await asyncio.sleep(0)
        provider.may_answer.clear()
        checking = Authentication([BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer))])
        async with asyncio.timeout(PATIENCE), serve(agent(), options=ServeOptions(authentication=checking)):
            pass
        provider.may_answer.set()
    gone = Authentication([BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer))])
    async with asyncio.timeout(PATIENCE), serve(agent(), options=ServeOptions(authentication=gone)):
        while "no signature can be checked" not in caplog.text:  # noqa: ASYNC110  as above
            await asyncio.sleep(0)
    lines = [one.getMessage() for one in caplog.records if "cannot be read" in one.getMessage()]
    assert len(lines) == 1
    assert "--jwt-issuer" in lines[0]
