"""0.1 on a server: beside other versions at one URL, with a card, with push notifications, through a gateway."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

import a2a_bridge
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import Server, connect, serve_agent, serve_gateway
from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.bindings.memory import ENTRY, Tables
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import dumps
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import text_of
from a2a_bridge.dialects import by_version
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.stores.memory import MemoryStore
from tests.agents import ScriptedAgent
from tests.gateway.legacy_client import Failed, LegacyAgent, LegacyClient, sending, served, session
from tests.patience import PATIENCE
from tests.sites import site

VERSIONS = ("1.0", "0.3", "0.1")
OPTIONS = ServeOptions(
    http=ListenAddress("127.0.0.1", 0),
    grace=0.0,
    push_options=PushOptions(allow=("127.0.0.1",)),
    allow_unauthenticated=True,
)


@asynccontextmanager
async def hosted(*versions: str) -> AsyncIterator[str]:
    agent = ScriptedAgent()
    scheme = agent.card.security_schemes["Bearer"].http_auth_security_scheme
    scheme.scheme = "Bearer"
    agent.card.security_requirements.add().schemes["Bearer"].SetInParent()
    offered = [interface("JSONRPC", version=one) for one in versions or VERSIONS]
    async with serve_agent(agent, offered, OPTIONS) as server:
        yield url_of(server)


def url_of(server: Server) -> str:
    assert server.http is not None
    return f"http://127.0.0.1:{server.http.port}/"


class Receiver:
    """Takes push notifications: token and body."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.Response:
        token = request.headers.get("X-A2A-Notification-Token", "")
        await self.received.put((token, json.loads(await request.text())))
        return web.Response()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with site({"POST /": self.handle}) as url:
            yield f"{url}/"


async def test_one_url_serves_callers_of_0_1_and_of_later_versions() -> None:
    async with hosted() as url, session() as opened, connect(url, version="1.0") as newest:
        client = LegacyClient(opened, url)
        task = await client.send("mine", "input name?", "s")
        assert task["status"]["state"] == "input-required"
        assert (await client.get("mine"))["id"] == "mine"
        listed = await newest.list_tasks(hub.ListTasksRequest(), CallContext())
        (known,) = listed.tasks
        assert known.id != "mine"
        with pytest.raises(A2AError):
            await newest.get_task(hub.GetTaskRequest(id="mine"), CallContext())
        assert (await client.send("mine", "Ann", "s"))["status"]["state"] == "completed"


async def test_names_count_in_the_memory_account_of_an_agent() -> None:
    store = MemoryStore()
    offered = [interface("JSONRPC", version="0.1")]
    grown = []
    async with (
        serve_agent(ScriptedAgent(), offered, replace(OPTIONS, store=store)) as server,
        session() as opened,
    ):
        client = LegacyClient(opened, url_of(server))
        for name in ("short", "long " + "x" * 1000):
            before = Tables.of(store.memory).idle
            await client.send(name, "input name?", "s")
            grown.append(Tables.of(store.memory).idle - before)
    short, long = grown
    assert short > ENTRY
    assert long - short > 900


async def test_the_same_method_answers_a_caller_of_0_3_in_its_own_way() -> None:
    async with hosted() as url, session() as opened, connect(url, version="1.0") as newest:
        said = hub.Message(role=hub.ROLE_USER, message_id="m", parts=[hub.Part(text="task out")])
        sent = await newest.send_message(hub.SendMessageRequest(message=said), CallContext())
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": sent.task.id}}
        async with opened.post(url, json=body) as response:
            result = (await response.json())["result"]
    assert (result["kind"], result["contextId"]) == ("task", sent.task.context_id)
    assert result["artifacts"][0]["parts"] == [{"kind": "text", "text": "out"}]


@pytest.mark.parametrize("versions", [VERSIONS, ("0.1",)])
async def test_the_card_names_the_schemes_as_0_1_does(versions: tuple[str, ...]) -> None:
    async with hosted(*versions) as url, session() as opened:
        tree = await LegacyClient(opened, url).card()
    assert tree["authentication"] == {"schemes": ["Bearer"]}
    assert tree["url"].rstrip("/") == url.rstrip("/")
    assert {"name", "version", "capabilities", "skills"} <= tree.keys()
    card = parse_bytes(dumps(tree), url)
    found = {by_version(one.protocol_version) for one in card.supported_interfaces}
    assert {by_version(one) for one in versions} == found


async def test_our_own_client_speaks_0_1_when_nothing_else_is_offered() -> None:
    async with hosted("0.1") as url, connect(url) as peer:
        said = hub.Message(role=hub.ROLE_USER, message_id="m", parts=[hub.Part(text="task out")])
        task = (await peer.send_message(hub.SendMessageRequest(message=said), CallContext())).task
        assert text_of(task) == "out"
        again = await peer.get_task(hub.GetTaskRequest(id=task.id), CallContext())
        assert (again.id, again.artifacts[0].artifact_id) == (task.id, "answer")
        assert again.history[0].parts[0].text == "task out"


async def test_a_direct_message_is_one_again_for_our_own_client() -> None:
    async with hosted("0.1") as url, connect(url) as peer, asyncio.timeout(PATIENCE):
        said = hub.Message(role=hub.ROLE_USER, message_id="m", parts=[hub.Part(text="message hi")])
        request = hub.SendMessageRequest(message=said)
        answer = await peer.send_message(request, CallContext())
        assert answer.message.parts[0].text == "hi"
        events = [one async for one in peer.send_streaming_message(request, CallContext())]
        assert [one.message.parts[0].text for one in events] == ["hi"]


async def test_a_push_notification_is_a_task_of_0_1_under_the_callers_name() -> None:
    receiver = Receiver()
    async with hosted() as url, session() as opened, receiver.listening() as target:
        client = LegacyClient(opened, url)
        config = {"url": target, "token": "k"}
        await client.send("mine", "task out", "s", pushNotification=config)
        async with asyncio.timeout(PATIENCE):
            while True:
                token, body = await receiver.received.get()
                assert (token, body["id"], body["sessionId"]) == ("k", "mine", "s")
                assert "kind" not in body
                if body["status"]["state"] == "completed":
                    break


async def test_a_gateway_gives_clients_of_all_versions_an_agent_of_0_1() -> None:
    agent, dialect = LegacyAgent(), by_version("0.1")
    assert dialect is not None
    async with served(agent) as upstream, session() as opened:
        tree = await LegacyClient(opened, upstream).card()
        card = parse_bytes(dumps(tree), upstream)
        candidates = [Candidate(card.supported_interfaces[0], dialect)]
        offered = [interface("JSONRPC", version=one) for one in VERSIONS]
        async with serve_gateway(card, candidates, offered, OPTIONS) as server:
            client = LegacyClient(opened, url_of(server))
            task = await client.send("mine", "parts", "s")
            assert task["artifacts"] == next(iter(agent.tasks.values()))["artifacts"]
            events = [e async for e in client.stream("tasks/sendSubscribe", sending("other", "chunks"))]
            assert events[-1]["final"] is True
            with pytest.raises(Failed) as raised:
                await client.call("tasks/cancel", {"id": "mine"})
            assert raised.value.code == -32002
            async with connect(url_of(server), version="1.0") as newest:
                said = hub.Message(role=hub.ROLE_USER, message_id="m", parts=[hub.Part(text="hello")])
                sent = await newest.send_message(hub.SendMessageRequest(message=said), CallContext())
                assert text_of(sent.task) == "hello"


def test_the_version_is_known_to_the_library() -> None:
    assert a2a_bridge.__version__
    assert by_version("0.1.0") is by_version("0.1")
