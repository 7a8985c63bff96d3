"""Known losses of others, over sockets, numbered as in tests/dialects/v0_3/test_sdk_payloads_kind.py."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import aiohttp
import grpc
import pytest

from a2a_bridge import A2AError, Client, Reason, interface
from a2a_bridge.app.runtime import ServeOptions, Server, serve_agent
from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.dialects import by_version
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from tests.agents import ScriptedAgent
from tests.gateway.raw_echo import chained
from tests.patience import PATIENCE
from tests.push.delivery_scene import receiving

EVERYTHING = [
    interface(binding, version=version)
    for version, binding in product(("1.0", "0.3"), ("JSONRPC", "HTTP+JSON", "GRPC"))
]
TEXT = [{"kind": "text", "text": "data"}, {"kind": "data", "data": {"a": 1.5}}]
MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": TEXT, "metadata": {"k": "v"}}


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, Any]]:
    """The scripted agent in all versions, and its JSON: (path, tree, headers) -> (status, tree)."""
    async with (
        serve_agent(
            ScriptedAgent(), EVERYTHING, ServeOptions(push_options=PushOptions(allow=("127.0.0.1",)))
        ) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
    ):

        async def post(path: str, tree: Any, **headers: str) -> tuple[int, Any]:
            async with session.post(f"http://{server.http}{path}", json=tree, headers=headers) as response:
                return response.status, json.loads(await response.read())

        yield server, post


def call(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


async def test_payload_26_the_kind_shape_over_http_json_keeps_role_and_parts() -> None:
    async with served() as (_, post):
        status, answer = await post("/v1/message:send", {"message": MESSAGE})
    assert status == 200
    answer = answer.get("message", answer)
    assert (answer["kind"], answer["role"], answer["parts"]) == ("message", "agent", TEXT)
    assert answer["metadata"] == {"k": "v"}


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "ü", ".", "..", "a/b/pushNotificationConfigs/c"])
async def test_payload_27_ids_are_not_cut_over_grpc_of_0_3(name: str) -> None:
    async with served() as (server, _), grpc.aio.insecure_channel(str(server.grpc)) as channel:
        get = channel.unary_unary("/a2a.v1.A2AService/GetTask")
        wanted = v0.GetTaskRequest(name="tasks/" + name.replace("%", "%25").replace("/", "%2F"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(wanted.SerializeToString(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    for side in (("0.3", "GRPC"), ("0.3", "HTTP+JSON")):
        async with chained(side) as (client, agent):
            task = await client.call("tasks/get", json.dumps({"id": name}))
            assert (task["id"], agent.asked[-1]) == (name, {"id": name})


async def test_payload_28_errors_over_json_rpc_have_their_numbers_and_delete_has_a_result() -> None:
    async with served() as (_, post):
        for method, params, code in [
            ("tasks/get", {"id": "none"}, -32001),
            ("tasks/cancel", {"id": "none"}, -32001),
            ("tasks/get", {}, -32602),
            ("tasks/nothing", {}, -32601),
        ]:
            _, answer = await post("/", call(method, params))
            assert answer["error"]["code"] == code, method
        asking = {**MESSAGE, "parts": [{"kind": "text", "text": "input what?"}]}
        _, answer = await post("/", call("message/send", {"message": asking}))
        config = {
            "taskId": answer["result"]["id"],
            "pushNotificationConfig": {"id": "c", "url": "http://127.0.0.1:9/"},
        }
        await post("/", call("tasks/pushNotificationConfig/set", config))
        removed = {"id": config["taskId"], "pushNotificationConfigId": "c"}
        _, answer = await post("/", call("tasks/pushNotificationConfig/delete", removed))
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": None}


async def test_payload_29_a_notification_to_a_0_3_client_is_a_task_with_credentials() -> None:
    async with receiving() as receiver, served() as (_, post):
        authentication = {"schemes": ["Digest", "Bearer"], "credentials": "secret"}
        config = {"url": receiver.url, "token": "token", "authentication": authentication}
        params = {
            "message": {**MESSAGE, "parts": [{"kind": "text", "text": "task x"}]},
            "configuration": {"pushNotificationConfig": config},
        }
        await post("/", call("message/send", params))
        [first, *_] = await receiver.arrived(1)
    assert first.tree["kind"] == "task"
    assert first.tree["status"]["state"] in ("submitted", "working", "completed")
    assert first.headers["content-type"].startswith("application/json")
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["x-a2a-notification-token"] == "token"


async def test_payload_30_a_list_of_tasks_without_artifacts_has_no_such_member() -> None:
    async with served() as (_, post):
        done = {**MESSAGE, "parts": [{"kind": "text", "text": "task x"}]}
        _, answer = await post("/", call("message/send", {"message": done}))
        assert answer["result"]["artifacts"]
        _, answer = await post("/", call("ListTasks", {}), **{"A2A-Version": "1.0"})
        [without] = answer["result"]["tasks"]
        _, answer = await post("/", call("ListTasks", {"includeArtifacts": True}), **{"A2A-Version": "1.0"})
        [whole] = answer["result"]["tasks"]
    assert whole["artifacts"]
    assert without["id"] == whole["id"]
    assert "artifacts" not in without


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_errors_have_their_names_for_every_client_of_ours(version: str, binding: str) -> None:
    async with served() as (server, _):
        there = next(
            one
            for one in server.card.supported_interfaces
            if one.protocol_binding == binding and one.protocol_version.startswith(version)
        )
        dialect = by_version(version)
        assert dialect is not None
        async with find(binding).dial(there, dialect, DialOptions(timeout=PATIENCE)) as service:
            with pytest.raises(A2AError) as caught:
                await Client(service).get_task(hub.GetTaskRequest(id="none"))
    assert caught.value.reason == Reason.TASK_NOT_FOUND
