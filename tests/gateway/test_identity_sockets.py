"""0.1 over real sockets, against a client and an agent without code of the product."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.codec import dumps
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.messages import text_of
from a2a_bridge.core.service import Service, compose
from a2a_bridge.dialects import KNOWN, by_version
from a2a_bridge.gateway.failover import dial_failover
from a2a_bridge.gateway.legacy import adapt_dial, build_legacy
from a2a_bridge.gateway.polyfill import add_polyfill
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.gateway.upstream import dial
from a2a_bridge.hosting import Engine
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.agents import ScriptedAgent
from tests.gateway.legacy_client import PARTS, Failed, LegacyAgent, LegacyClient, sending, served, session
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.sites import listening

V0_1 = by_version("0.1")
assert V0_1 is not None


@asynccontextmanager
async def mounted(service: Service) -> AsyncIterator[str]:
    """A service for callers of all versions at one URL."""
    whole = compose(service, *build_legacy(KNOWN).middleware, stream_compat(KNOWN))
    async with listening(whole, "JSONRPC", KNOWN) as address:
        yield f"http://{address}/"


@asynccontextmanager
async def hosted() -> AsyncIterator[LegacyClient]:
    """A client of 0.1 to an agent of 1.0 that is hosted here."""
    engine = Engine(ScriptedAgent())
    async with mounted(service_of(engine)) as url, session() as opened:
        yield LegacyClient(opened, url)
    await engine.close(0)


@asynccontextmanager
async def to_legacy(agent: LegacyAgent) -> AsyncIterator[Service]:
    """The client side for an agent of 0.1, as a gateway has it."""
    async with served(agent) as url:
        assert V0_1 is not None
        candidate = Candidate(interface("JSONRPC", url, version="0.1"), V0_1)
        dial_it = add_polyfill(dial=adapt_dial(dial, Tasks))
        async with dial_failover([candidate], DialOptions(), dial=dial_it) as service:
            yield service


@asynccontextmanager
async def through(agent: LegacyAgent) -> AsyncIterator[LegacyClient]:
    """A client of 0.1 to an agent of 0.1, through the bridge."""
    async with to_legacy(agent) as service, mounted(service) as url, session() as opened:
        yield LegacyClient(opened, url)


async def collected(client: LegacyClient, method: str, params: Any) -> list[dict[str, Any]]:
    return [event async for event in client.stream(method, params)]


# --- A client of 0.1, an agent of 1.0 ---
async def test_a_task_under_the_clients_names() -> None:
    async with hosted() as client:
        task = await client.send("mine", "task out", "my session")
        assert (task["id"], task["sessionId"], task["status"]["state"]) == ("mine", "my session", "completed")
        (artifact,) = task["artifacts"]
        assert (artifact["index"], artifact["name"]) == (0, "Answer")
        assert artifact["parts"] == [{"type": "text", "text": "out"}]


async def test_a_task_can_be_looked_at_although_later_versions_share_the_method() -> None:
    async with hosted() as client:
        await client.send("mine", "task out", "s")
        task = await client.get("mine")
        assert (task["id"], task["sessionId"]) == ("mine", "s")
        assert not task.get("history")
        assert task["artifacts"][0]["parts"] == [{"type": "text", "text": "out"}]
        history = (await client.get("mine", historyLength=5))["history"]
        assert history[0]["parts"] == [{"type": "text", "text": "task out"}]
        assert "messageId" not in history[0]


async def test_a_task_of_several_turns() -> None:
    async with hosted() as client:
        asked = await client.send("mine", "input name?", "s")
        assert asked["status"]["state"] == "input-required"
        assert asked["status"]["message"]["parts"] == [{"type": "text", "text": "name?"}]
        told = await client.send("mine", "Ann", "s", historyLength=10)
        assert told["status"]["state"] == "completed"
        assert told["artifacts"][0]["parts"] == [{"type": "text", "text": "Ann"}]
        assert {one["role"] for one in told["history"]} == {"user", "agent"}


async def test_a_message_is_a_completed_task() -> None:
    async with hosted() as client:
        task = await client.send("mine", "message hello")
        assert (task["id"], task["status"]["state"]) == ("mine", "completed")
        assert task["status"]["message"]["parts"] == [{"type": "text", "text": "hello"}]


async def test_a_stream_has_only_updates_and_ends_with_the_final_one() -> None:
    async with hosted() as client:
        events = await collected(client, "tasks/sendSubscribe", sending("mine", "chunks 3", "s"))
        assert {one["id"] for one in events} == {"mine"}
        states = [one["status"]["state"] for one in events if "status" in one]
        assert states == ["submitted", "working", "completed"]
        assert [one.get("final") for one in events if "status" in one] == [False, False, True]
        chunks = [one["artifact"] for one in events if "artifact" in one]
        assert [(one["index"], one.get("append"), one.get("lastChunk")) for one in chunks] == [
            (0, None, None),
            (0, True, None),
            (0, True, True),
        ]


async def test_a_message_in_a_stream_is_a_final_status() -> None:
    async with hosted() as client:
        (event,) = await collected(client, "tasks/sendSubscribe", sending("mine", "message hello"))
        assert (event["id"], event["status"]["state"], event["final"]) == ("mine", "completed", True)


async def test_cancelling_and_subscribing_by_the_clients_name() -> None:
    async with hosted() as client:
        stream = client.stream("tasks/sendSubscribe", sending("mine", "slow"))
        await anext(stream)
        again = client.stream("tasks/resubscribe", {"id": "mine"})
        first = await anext(again)
        assert (first["id"], first["status"]["state"]) in (("mine", "submitted"), ("mine", "working"))
        task = await client.call("tasks/cancel", {"id": "mine"})
        assert (task["id"], task["status"]["state"]) == ("mine", "canceled")
        last = [event async for event in again][-1]
        assert (last["status"]["state"], last["final"]) == ("canceled", True)
        await stream.aclose()


@pytest.mark.parametrize(
    ("text", "shown", "true"), [("reject", "failed", "rejected"), ("auth", "input-required", "auth-required")]
)
async def test_states_that_0_1_lacks(text: str, shown: str, true: str) -> None:
    async with hosted() as client:
        task = await client.send("mine", text)
        assert task["status"]["state"] == shown
        assert task["metadata"]["urn:a2a-bridge:v0.1"] == {"state": true}


async def test_a_push_config_without_an_id() -> None:
    async with hosted() as client:
        await client.send("mine", "input more?")
        assert await client.call("tasks/pushNotification/get", {"id": "mine"}) == {
            "id": "mine",
            "pushNotificationConfig": None,
        }
        config = {"url": "http://127.0.0.1:9/p", "token": "k", "authentication": {"schemes": ["Bearer"]}}
        params = {"id": "mine", "pushNotificationConfig": config}
        for _ in range(2):
            assert await client.call("tasks/pushNotification/set", params) == params
        assert await client.call("tasks/pushNotification/get", {"id": "mine"}) == params


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tasks/get", {"id": "nobody"}, -32001),
        ("tasks/send", {"message": {"role": "user", "parts": []}}, -32602),
        ("tasks/send", {"id": "x", "message": {"role": "user", "parts": [{"type": "text"}]}}, -32602),
        ("tasks/send", {"id": "x", "message": {"role": "user"}}, -32602),
        ("tasks/send", {"id": "x"}, -32602),
        ("tasks/send", [], -32602),
        ("tasks/pushNotification/get", {"id": "nobody"}, -32001),
    ],
)
async def test_bad_calls_have_the_numbers_of_0_1(method: str, params: Any, code: int) -> None:
    async with hosted() as client:
        with pytest.raises(Failed) as raised:
            await client.call(method, params)
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tasks/sendSubscribe", {"message": {"role": "user", "parts": []}}, -32602),
        ("tasks/sendSubscribe", sending("x", "error UNSUPPORTED_OPERATION"), -32004),
        ("tasks/sendSubscribe", sending("x", "error RESOURCE_EXHAUSTED"), -32010),
        ("tasks/resubscribe", {"id": "nobody"}, -32001),
    ],
)
async def test_refused_streams_have_the_numbers_of_0_1(method: str, params: Any, code: int) -> None:
    async with hosted() as client:
        with pytest.raises(Failed) as raised:
            await collected(client, method, params)
        assert raised.value.code == code


async def test_an_error_names_members_as_0_1_does() -> None:
    async with hosted() as client:
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": 5}]
        with pytest.raises(Failed) as raised:
            await client.call(
                "tasks/send", {"id": "x", "sessionId": 5, "message": {"role": "user", "parts": parts}}
            )
        text = str(raised.value.error)
        assert "message.parts[1].text" in text
        assert "sessionId" in text
        assert "contextId" not in text


async def test_an_unknown_type_of_part_reaches_the_agent_and_comes_back() -> None:
    async with hosted() as client:
        form = {"type": "form", "fields": [{"name": "age"}], "metadata": {"m": 1}}
        params = {"id": "x", "message": {"role": "user", "parts": [form]}}
        task = await client.call("tasks/send", params)
        assert task["status"]["message"]["parts"] == [form]


# --- A client of 1.0, an agent of 0.1 ---
def message(text: str, **members: Any) -> hub.SendMessageRequest:
    said = hub.Message(role=hub.ROLE_USER, message_id="m", parts=[hub.Part(text=text)], **members)
    return hub.SendMessageRequest(message=said)


CONTEXT = CallContext()


async def test_an_agent_of_0_1_looks_like_one_of_1_0() -> None:
    agent = LegacyAgent()
    async with to_legacy(agent) as service:
        task = (await Client(service).send_message(message("hello"), CallContext())).task
        assert (text_of(task), task.status.state) == ("hello", hub.TASK_STATE_COMPLETED)
        assert task.artifacts[0].artifact_id == "index-0"
        assert task.history[0].parts[0].text == "hello"
        (request,) = agent.requests
        assert (request["method"], request["params"]["id"]) == ("tasks/send", task.id)
        assert request["params"]["sessionId"] == task.context_id
        again = await Client(service).get_task(
            hub.GetTaskRequest(id=task.id, history_length=0), CallContext()
        )
        assert (again.id, again.context_id, len(again.history)) == (task.id, task.context_id, 0)


async def test_a_conversation_with_an_agent_of_0_1() -> None:
    async with to_legacy(LegacyAgent()) as service:
        client = Client(service)
        task = (await client.send_message(message("ask"), CallContext())).task
        assert task.status.state == hub.TASK_STATE_INPUT_REQUIRED
        assert task.status.message.parts[0].text == "what?"
        task = (await client.send_message(message("this", task_id=task.id), CallContext())).task
        assert (text_of(task), len(task.history)) == ("this", 2)


async def test_a_stream_of_an_agent_of_0_1_begins_with_a_task_and_has_contexts() -> None:
    async with to_legacy(LegacyAgent()) as service, asyncio.timeout(PATIENCE):
        client = Client(service)
        events = [one async for one in client.send_streaming_message(message("chunks"), CallContext())]
        kinds = [one.WhichOneof("payload") for one in events]
        assert kinds == ["task", "status_update", *["artifact_update"] * 3, "status_update"]
        pieces = [one.artifact_update for one in events if one.HasField("artifact_update")]
        assert [(one.append, one.last_chunk) for one in pieces] == [
            (False, False),
            (True, False),
            (True, True),
        ]
        assert {one.context_id for one in pieces} == {events[0].task.context_id}
        assert events[0].task.context_id


async def test_parts_of_an_agent_of_0_1() -> None:
    async with to_legacy(LegacyAgent()) as service:
        task = (await Client(service).send_message(message("parts"), CallContext())).task
        text, file, form = task.artifacts[0].parts
        assert (text.text, file.raw, file.filename, file.media_type) == ("see", b"hi", "f", "text/plain")
        assert form.data.struct_value["fields"][0]["name"] == "age"
        assert form.media_type == "application/x-a2a-form+json"


async def test_an_agent_of_0_1_does_not_begin_an_unknown_task() -> None:
    agent = LegacyAgent()
    async with to_legacy(agent) as service:
        with rejected(Reason.TASK_NOT_FOUND):
            await Client(service).send_message(message("hello", task_id="unknown"), CallContext())
        assert agent.tasks == {}


async def test_errors_of_an_agent_of_0_1_have_the_meaning_of_0_1() -> None:
    async with to_legacy(LegacyAgent()) as service:
        with rejected(Reason.RESOURCE_EXHAUSTED) as raised:
            await Client(service).send_message(message("limit"), CallContext())
        assert raised.value.metadata == {"legacyCode": "-32010"}


async def test_push_configs_of_an_agent_of_0_1() -> None:
    agent = LegacyAgent()
    async with to_legacy(agent) as service:
        client = Client(service)
        task = (await client.send_message(message("ask"), CallContext())).task
        missing = hub.GetTaskPushNotificationConfigRequest(task_id=task.id, id="p")
        with rejected(Reason.TASK_NOT_FOUND):
            await client.get_task_push_notification_config(missing, CallContext())
        config = hub.TaskPushNotificationConfig(task_id=task.id, id="p", url="http://h/p")
        made = await client.create_task_push_notification_config(config, CallContext())
        assert made == config
        assert await client.get_task_push_notification_config(missing, CallContext()) == config
        assert agent.configs[task.id]["url"] == "http://h/p"


async def test_operations_that_0_1_lacks_are_rejected_and_lists_are_kept_by_the_bridge() -> None:
    async with to_legacy(LegacyAgent()) as service:
        client = Client(service)
        task = (await client.send_message(message("hello"), CallContext())).task
        listed = await client.list_tasks(hub.ListTasksRequest(), CallContext())
        assert [one.id for one in listed.tasks] == [task.id]
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await client.get_extended_agent_card(hub.GetExtendedAgentCardRequest(), CallContext())


async def test_the_card_of_an_agent_of_0_1_is_read_as_one() -> None:
    async with served(LegacyAgent()) as url, session() as opened:
        tree = await LegacyClient(opened, url).card()
    card = parse_bytes(dumps(tree), url)
    (only,) = card.supported_interfaces
    assert (only.url, only.protocol_binding, by_version(only.protocol_version)) == (url, "JSONRPC", V0_1)
    assert card.security_schemes["Bearer"].http_auth_security_scheme.scheme == "Bearer"


# --- A client of 0.1, an agent of 0.1, the bridge in between ---
async def test_the_tree_that_went_in_comes_out() -> None:
    agent = LegacyAgent()
    async with through(agent) as client:
        task = await client.send("mine", "parts", "my session")
        (theirs,) = agent.tasks.values()
        # A time without a zone is UTC, and is written with a zone from then on.
        assert task["status"] == theirs["status"] | {"timestamp": theirs["status"]["timestamp"] + "Z"}
        assert (task["artifacts"], task["artifacts"][0]["parts"]) == (theirs["artifacts"], PARTS)
        assert (task["id"], task["sessionId"], task["metadata"]) == ("mine", "my session", None)
        assert agent.requests[0]["params"]["message"]["parts"] == [{"type": "text", "text": "parts"}]
        assert agent.requests[0]["params"].keys() == {"id", "sessionId", "message"}
        assert (await client.get("mine"))["artifacts"] == theirs["artifacts"]


async def test_the_events_that_went_in_come_out() -> None:
    agent = LegacyAgent()
    async with through(agent) as client:
        events = await collected(client, "tasks/sendSubscribe", sending("mine", "chunks", "s"))
        assert [one["id"] for one in events] == ["mine"] * 5
        assert [one.get("final") for one in events] == [False, None, None, None, True]
        assert [one["artifact"]["append"] for one in events if "artifact" in one] == [False, True, True]
        assert all(one["metadata"] is None for one in events)


async def test_errors_pass_with_their_numbers() -> None:
    async with through(LegacyAgent()) as client:
        with pytest.raises(Failed) as raised:
            await client.send("mine", "limit")
        assert (raised.value.code, raised.value.status) == (-32010, 429)
        await client.send("mine", "hello")
        with pytest.raises(Failed) as raised:
            await client.call("tasks/cancel", {"id": "mine"})
        assert raised.value.code == -32002
