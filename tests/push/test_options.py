"""Push notifications in the runtime: enabled by the card, restricted by the policy, and how to disable them."""

import hashlib
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from a2a_bridge.app.runtime import ServeOptions, Server, connect, serve_agent, serve_gateway
from a2a_bridge.bindings.binding import DialOptions, ListenAddress, http_fetch
from a2a_bridge.cards import Candidate, interface, select
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.webhooks import PATH
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import redact
from tests.agents import ScriptedAgent
from tests.gateway.test_versions import asking
from tests.push.delivery_scene import PATIENCE, Receiver, receiving
from tests.push.test_webhooks_by_version import check, finished
from tests.push.version_scene import ALLOWED
from tests.rejections import rejected

INTERFACES = [interface("JSONRPC"), interface("JSONRPC", version="0.3"), interface("GRPC")]
VERSIONS = pytest.mark.parametrize("version", ["1.0", "0.3"])


def registering(receiver: Receiver, task_id: str) -> hub.TaskPushNotificationConfig:
    login = hub.AuthenticationInfo(scheme="Bearer", credentials="secret")
    return hub.TaskPushNotificationConfig(
        task_id=task_id,
        id="p",
        url=receiver.url,
        token="theirs",  # noqa: S106
        authentication=login,
    )


async def a_whole_task(client: Client, receiver: Receiver) -> str:
    """Registers for a task and lets it end; returns the URL in later answers."""
    task = (await client.send_message(asking("input what?"))).task
    await client.create_task_push_notification_config(registering(receiver, task.id))
    await client.send_message(asking("done", task_id=task.id))
    asked = hub.GetTaskPushNotificationConfigRequest(task_id=task.id, id="p")
    shown = await client.get_task_push_notification_config(asked)
    assert shown == redact(registering(receiver, task.id))
    return task.id


@asynccontextmanager
async def through(
    agent: Server, found: Sequence[Candidate], binding: str, options: ServeOptions | None = None
) -> AsyncIterator[Client]:
    """A client of 1.0 to a gateway to an agent."""
    options = options or ServeOptions(grace=0)
    async with (
        serve_gateway(agent.card, found, INTERFACES, options) as gateway,
        connect(gateway.card, binding=binding) as client,
    ):
        yield client


@VERSIONS
async def test_a_hosted_agent_sends(version: str) -> None:
    options = ServeOptions(push_options=ALLOWED, grace=0)
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES, options) as server:
        async with connect(server.card, binding="JSONRPC", version=version) as client:
            await a_whole_task(client, receiver)
        check(await finished(receiver, version), version)


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
async def test_by_default_an_agent_sends_nothing_to_its_own_network(binding: str) -> None:
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES) as server:
        async with connect(server.card, binding=binding, version="1.0") as client:
            with pytest.raises(A2AError) as caught:
                await a_whole_task(client, receiver)
        await server.drain(0)
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == ["url"]
        assert receiver.posted == []


async def test_an_agent_without_push_sends_nothing() -> None:
    options = ServeOptions(push=False)
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES, options) as server:
        async with connect(server.card, binding="JSONRPC", version="1.0") as client:
            await a_whole_task(client, receiver)
        await server.drain(0)
        assert receiver.posted == []


async def test_keys_that_verify_signatures_are_published() -> None:
    signing = ECKey.generate_key("P-256")
    options = ServeOptions(
        push_options=replace(ALLOWED, signing_keys=(signing.as_pem(private=True).decode(),)), grace=0
    )
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES, options) as server:
        async with connect(server.card, binding="JSONRPC", version="1.0") as client:
            await a_whole_task(client, receiver)
        (posted, *_) = await receiver.arrived(1)
        async with http_fetch(DialOptions()) as fetch:
            reply = await fetch(f"http://{server.http}/.well-known/jwks.json", {})
    keys = KeySet.import_key_set(json.loads(reply.body))
    claims = jwt.decode(posted.headers["x-a2a-notification-signature"], keys).claims
    assert claims["iss"] == ScriptedAgent().card.name
    assert claims["request_body_sha256"] == hashlib.sha256(posted.body).hexdigest()


@VERSIONS
@pytest.mark.parametrize("upstream", ["1.0", "0.3"])
async def test_a_gateway_that_relays(version: str, upstream: str, unused_tcp_port: int) -> None:
    port = unused_tcp_port
    relaying = ServeOptions(
        http=ListenAddress("127.0.0.1", port),
        push_relay=f"http://127.0.0.1:{port}",
        push_options=ALLOWED,
        grace=0,
    )
    sending = ServeOptions(push_options=ALLOWED, grace=0)
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES, sending) as agent:
        found = select(agent.card, known=["JSONRPC"], version=upstream)
        async with serve_gateway(agent.card, found, INTERFACES, relaying) as gateway:
            async with connect(gateway.card, binding="JSONRPC", version=version) as client:
                task_id = await a_whole_task(client, receiver)
            check(await finished(receiver, version), version)
        async with connect(agent.card, binding="JSONRPC", version="1.0") as near:
            asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
            kept = await near.get_task_push_notification_config(asked)
    assert kept.url.startswith(f"http://127.0.0.1:{port}{PATH}/")
    assert "theirs" not in str(kept)
    assert "secret" not in str(kept)


async def test_by_default_a_gateway_passes_configs_on() -> None:
    silent = ServeOptions(push=False)
    async with receiving() as receiver, serve_agent(ScriptedAgent(), INTERFACES, silent) as agent:
        found = select(agent.card, known=["GRPC"])
        async with through(agent, found, "JSONRPC") as client:
            task_id = await a_whole_task(client, receiver)
        async with connect(agent.card, binding="JSONRPC", version="1.0") as near:
            asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
            kept = await near.get_task_push_notification_config(asked)
    assert kept == redact(registering(receiver, task_id))
    assert receiver.posted == []


async def test_a_relay_needs_an_http_listener() -> None:
    async with serve_agent(ScriptedAgent(), INTERFACES) as agent:
        found = select(agent.card, known=["JSONRPC"])
        with pytest.raises(ValueError, match="HTTP"):
            async with serve_gateway(
                agent.card, found, [interface("GRPC")], ServeOptions(push_relay="http://x")
            ):
                pass


async def test_listing_tasks_of_an_older_agent_can_be_switched_off() -> None:
    async with serve_agent(ScriptedAgent(), INTERFACES) as agent:
        found = select(agent.card, known=["JSONRPC"], version="0.3")
        for memory, allowed in ((10, True), (0, False)):
            options = ServeOptions(list_tasks_memory=memory, grace=0)
            async with through(agent, found, "GRPC", options) as client:
                if allowed:
                    assert not (await client.list_tasks(hub.ListTasksRequest())).tasks
                    continue
                with rejected(Reason.UNSUPPORTED_OPERATION):
                    await client.list_tasks(hub.ListTasksRequest())


@pytest.mark.parametrize("store", [None, "memory://"])
async def test_a_relay_that_cannot_sign_reports_it(store: str | None) -> None:
    key = ECKey.generate_key("P-256").as_pem(private=True).decode()
    options = ServeOptions(
        push_relay="http://127.0.0.1", store=store, push_options=replace(ALLOWED, signing_keys=(key,))
    )
    async with serve_agent(ScriptedAgent(), INTERFACES) as agent:
        found = select(agent.card, known=["JSONRPC"])
        with pytest.raises(ValueError, match="store"):
            async with serve_gateway(agent.card, found, INTERFACES, options):
                pass


async def test_a_relay_leaves_no_threads_behind() -> None:
    others = set(threading.enumerate())
    options = ServeOptions(push_relay="http://127.0.0.1", grace=0)
    async with serve_agent(ScriptedAgent(), INTERFACES) as agent:
        found = select(agent.card, known=["JSONRPC"])
        async with through(agent, found, "JSONRPC", options) as client:
            given = hub.TaskPushNotificationConfig(task_id="t", id="p", url="http://localhost/")
            with rejected(Reason.INVALID_PARAMS):
                await client.create_task_push_notification_config(given)
            ours = [one for one in set(threading.enumerate()) - others if "a2a push names" in one.name]
            assert ours
    for thread in ours:
        thread.join(PATIENCE)
        assert not thread.is_alive()
