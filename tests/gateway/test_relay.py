"""Notifications through a gateway: the agent posts to it, and it posts to the receiver. Over real sockets."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, ReadBody, find, http_post
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.webhooks import PATH, Relay
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions, Webhook, push_service
from a2a_bridge.push.secrets import MASK, redact
from a2a_bridge.stores import MemoryStore
from tests.agents import ScriptedAgent
from tests.patience import PATIENCE
from tests.push.delivery_scene import Receiver, receiving

COMPLETED = "TASK_STATE_COMPLETED"


@dataclass
class Bridge:
    """A hosted agent that sends notifications, a relay before it, and clients of both."""

    near: Client
    agent: Client
    relay: Relay
    receiver: Receiver
    base: str

    async def post(self, path: str, body: bytes, **headers: str) -> int:
        async with http_post(DialOptions(timeout=PATIENCE)) as post:
            reply = await post(self.base + path, {"Content-Type": "application/json", **headers}, body)
        return reply.status


@asynccontextmanager
async def bridge(**members: Any) -> AsyncIterator[Bridge]:
    host = find("JSONRPC").host(ListenAddress(), HostOptions())
    store = MemoryStore()
    allowed = PushOptions(allow=("127.0.0.1",), first=0.001)
    async with (
        receiving() as receiver,
        http_post(DialOptions(timeout=PATIENCE)) as post,
        push_service(store.outbox, store.task_at, allowed) as push,
    ):
        engine = Engine(ScriptedAgent(), store=store, push_sender=push.sender)
        hooked: list[Relay] = []

        async def receive(path: str, headers: Mapping[str, str], read_body: ReadBody) -> int:
            return await hooked[0].receive(path, headers, read_body)

        host.receive(PATH, receive)
        await host.start()
        base = f"http://{host.address}"
        service = service_of(engine)
        relay = Relay(service, Webhook(post, pause=0.001), base + "/", **members)
        hooked.append(relay)
        try:
            yield Bridge(Client(relay), Client(service), relay, receiver, base)
        finally:
            await engine.close()
            await host.drain(0)


def request(text: str, inline: hub.TaskPushNotificationConfig | None = None, **members: Any) -> Any:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members)
    made = hub.SendMessageRequest(message=message)
    if inline is not None:
        made.configuration.task_push_notification_config.CopyFrom(inline)
    return made


def hook(receiver: Receiver, **members: Any) -> hub.TaskPushNotificationConfig:
    login = hub.AuthenticationInfo(scheme="Bearer", credentials="secret")
    return hub.TaskPushNotificationConfig(
        url=receiver.url,
        token="theirs",  # noqa: S106
        authentication=login,
        **members,
    )


async def paused(bridge: Bridge) -> str:
    response = await bridge.near.send_message(request("input what?"))
    return response.task.id


async def finish(bridge: Bridge, task_id: str) -> None:
    await bridge.near.send_message(request("done", task_id=task_id))


async def test_events_reach_the_receiver_with_the_callers_token_and_credentials() -> None:
    async with bridge() as links:
        task_id = await paused(links)
        made = await links.near.create_task_push_notification_config(
            hook(links.receiver, task_id=task_id, id="p")
        )
        assert made == redact(hook(links.receiver, task_id=task_id, id="p"))
        await finish(links, task_id)
        posted = await links.receiver.arrived(3)
        assert {one.headers["x-a2a-notification-token"] for one in posted} == {"theirs"}
        assert {one.headers["authorization"] for one in posted} == {"Bearer secret"}
        assert {one.headers["content-type"] for one in posted} == {"application/a2a+json"}
        states = [one.tree["statusUpdate"]["status"]["state"] for one in posted if "statusUpdate" in one.tree]
        assert states[-1] == COMPLETED


async def test_configs_count_in_the_account_and_a_new_one_is_rejected_while_it_is_full() -> None:
    """None is evicted: its notifications would be lost."""
    memory = MemoryAccount(20_000)
    async with bridge(memory=memory) as links:
        task_id = await paused(links)
        made: list[hub.TaskPushNotificationConfig] = []

        async def create() -> None:
            config = hook(links.receiver, task_id=task_id, id=f"p{len(made)}")
            config.url += "?" + "x" * 2000
            made.append(await links.near.create_task_push_notification_config(config))

        while memory.used < memory.limit - memory.limit // 8:
            await create()
        with pytest.raises(A2AError) as caught:
            await create()
        assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
        assert 5 < len(made) < 10
        assert 2000 * len(made) < memory.used <= memory.limit
        again = hook(links.receiver, task_id=task_id, id="p0")
        again.url += "?" + "x" * 2000
        assert await links.near.create_task_push_notification_config(again) == made[0]
        await finish(links, task_id)
        await links.receiver.arrived(3 * len(made))
        for number in range(len(made)):
            gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=f"p{number}")
            await links.near.delete_task_push_notification_config(gone)
        assert memory.used == 0


async def test_the_agent_sees_neither_token_nor_credentials_nor_address() -> None:
    async with bridge() as links:
        task_id = await paused(links)
        await links.near.create_task_push_notification_config(hook(links.receiver, task_id=task_id, id="p"))
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
        known = await links.agent.get_task_push_notification_config(asked)
        assert known.url.startswith(f"{links.base}{PATH}/")
        assert known.token not in ("", "theirs")
        assert known.authentication.scheme == "Bearer"
        assert known.authentication.credentials == MASK  # of our token: the agent is hosted here
        # while callers see their own values
        shown = await links.near.get_task_push_notification_config(asked)
        assert shown == redact(hook(links.receiver, task_id=task_id, id="p"))
        listing = hub.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert list((await links.near.list_task_push_notification_configs(listing)).configs) == [shown]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_config_within_a_message(streaming: bool) -> None:
    async with bridge() as links:
        sent = request("task x", hook(links.receiver))
        before = hub.SendMessageRequest()
        before.CopyFrom(sent)
        if streaming:
            async for _ in links.near.send_streaming_message(sent):
                pass
        else:
            await links.near.send_message(sent)
        posted = await links.receiver.arrived(4)
        assert [next(iter(one.tree)) for one in posted] == [
            "task",
            "statusUpdate",
            "artifactUpdate",
            "statusUpdate",
        ]
        assert sent == before


async def test_who_repeats_a_config_without_an_id_gets_no_second_one() -> None:
    async with bridge() as links:
        task_id = await paused(links)
        first = await links.near.create_task_push_notification_config(hook(links.receiver, task_id=task_id))
        again = await links.near.create_task_push_notification_config(hook(links.receiver, task_id=task_id))
        assert again == first
        assert len(links.relay) == 1


async def test_a_deleted_config_is_forgotten() -> None:
    async with bridge() as links:
        task_id = await paused(links)
        await links.near.create_task_push_notification_config(hook(links.receiver, task_id=task_id, id="p"))
        gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="p")
        await links.near.delete_task_push_notification_config(gone)
        assert len(links.relay) == 0


@pytest.mark.parametrize("moved", [False, True])
async def test_a_config_that_was_set_again_is_the_one_that_its_mask_and_its_deletion_mean(
    moved: bool,
) -> None:
    async with bridge() as links, receiving() as another:
        where = another if moved else links.receiver
        task_id = await paused(links)
        first = hook(links.receiver, task_id=task_id, id="p")
        await links.near.create_task_push_notification_config(first)
        rotated = hook(where, task_id=task_id, id="p")
        rotated.authentication.credentials = "rotated"
        await links.near.create_task_push_notification_config(rotated)
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
        shown = await links.near.get_task_push_notification_config(asked)
        shown.token = "changed"  # noqa: S105
        await links.near.create_task_push_notification_config(shown)
        await finish(links, task_id)
        posted = await where.arrived(3)
        assert {one.headers["authorization"] for one in posted} == {"Bearer rotated"}
        assert {one.headers["x-a2a-notification-token"] for one in posted} == {"changed"}
        # The config that was set again is the newest.
        await links.near.create_task_push_notification_config(first)
        known = await links.agent.get_task_push_notification_config(asked)
        gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="p")
        await links.near.delete_task_push_notification_config(gone)
        path = known.url.removeprefix(links.base)
        assert await links.post(path, NOTE, **{"X-A2A-Notification-Token": known.token}) == 404


async def test_notifications_for_a_config_that_was_set_again_are_relayed() -> None:
    async with bridge() as links:
        path, token = await registered(links)
        [relayed] = links.relay._relayed.values()
        changed = hook(links.receiver, task_id=relayed.registration.config.task_id, id="p")
        changed.authentication.credentials = "rotated"
        await links.near.create_task_push_notification_config(changed)
        assert await links.post(path, NOTE, **{"X-A2A-Notification-Token": token}) == 200
        assert links.receiver.posted[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_mask_within_a_message_that_stands_for_nothing_is_named_where_it_stands(
    streaming: bool,
) -> None:
    async with bridge() as links:
        sent = request("task x", redact(hook(links.receiver, id="p")))
        near = links.near
        sending: Any = anext(near.send_streaming_message(sent)) if streaming else near.send_message(sent)
        with pytest.raises(A2AError) as caught:
            await sending
        field = "configuration.taskPushNotificationConfig.authentication.credentials"
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [(one.field, one.description) for one in caught.value.violations] == [
            (field, "is the mask of credentials that are not known here")
        ]
        assert len(links.relay) == 0


async def test_a_mask_within_a_message_keeps_the_stored_value() -> None:
    async with bridge() as links:
        task_id = await paused(links)
        given = hook(links.receiver, task_id=task_id, id="p")
        shown = await links.near.create_task_push_notification_config(given)
        assert shown.authentication.credentials == MASK
        shown.token = "changed"  # noqa: S105
        sent = request("done", shown, task_id=task_id)
        await links.near.send_message(sent)
        posted = await links.receiver.arrived(3)
        assert {one.headers["authorization"] for one in posted} == {"Bearer secret"}
        assert {one.headers["x-a2a-notification-token"] for one in posted} == {"changed"}
        assert sent.configuration.task_push_notification_config == shown


NOTE = json.dumps(
    {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": COMPLETED}}}
).encode()


async def registered(links: Bridge) -> tuple[str, str]:
    """The path and the token that an agent got."""
    task_id = await paused(links)
    await links.near.create_task_push_notification_config(hook(links.receiver, task_id=task_id, id="p"))
    asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
    known = await links.agent.get_task_push_notification_config(asked)
    return known.url.removeprefix(links.base), known.token


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-A2A-Notification-Token", "{token}"),  # Python, Java, Go 0.3
        ("A2A-Notification-Token", "{token}"),  # Go 2, Rust
        ("Authorization", "Bearer {token}"),  # as in the config
        ("authorization", "bearer  {token}"),
    ],
)
async def test_the_token_comes_under_any_name_in_use(header: str, value: str) -> None:
    async with bridge() as links:
        path, token = await registered(links)
        assert await links.post(path, NOTE, **{header: value.format(token=token)}) == 200
        [posted] = links.receiver.posted
        assert posted.headers["x-a2a-notification-token"] == "theirs"
        assert posted.headers["a2a-notification-token"] == "theirs"
        assert posted.headers["authorization"] == "Bearer secret"
        assert await links.post(path, NOTE, **{header: value.format(token=token[1:])}) == 401


async def test_each_rejection_is_a_warning_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.gateway")
    async with bridge() as links:
        path, token = await registered(links)
        name = {"X-A2A-Notification-Token": token}
        for status, given, body, headers in (
            (401, path, NOTE, {}),
            (404, f"{PATH}/unknown", NOTE, name),
            (400, path, b"{", name),
        ):
            assert await links.post(given, body, **headers) == status
    texts = [one.getMessage() for one in caplog.records]
    assert [text.partition(": ")[2].partition(":")[0] for text in texts] == [
        "the token of its config is in none of X-A2A-Notification-Token, A2A-Notification-Token, Authorization",
        "no config has this address",
        "the notification is not JSON",
    ]
    assert not any(token in text or path in text for text in texts)


async def test_an_event_that_is_not_known_is_handed_on() -> None:
    unknown = {"messageUpdate": {"taskId": "t", "text": "…"}}
    async with bridge() as links:
        path, token = await registered(links)
        for body in (json.dumps(unknown).encode(), b'{"kind": "joke"}', NOTE):
            assert await links.post(path, body, **{"X-A2A-Notification-Token": token}) == 200
        assert [one.tree for one in links.receiver.posted] == [unknown, json.loads(NOTE)]


async def test_only_posts_with_the_token_are_accepted() -> None:
    async with bridge() as links:
        path, token = await registered(links)
        name = {"X-A2A-Notification-Token": token}
        assert await links.post(path, NOTE) == 401
        assert await links.post(path, NOTE, **{"X-A2A-Notification-Token": "theirs"}) == 401
        assert await links.post(path, NOTE, **{"X-A2A-Notification-Token": token[:-1]}) == 401
        assert await links.post(f"{PATH}/nobody", NOTE, **name) == 404
        assert await links.post(PATH, NOTE, **name) == 404
        assert await links.post(path, b"{", **name) == 400
        assert await links.post(path, b"{}", **name) == 400
        assert links.receiver.posted == []
        assert await links.post(path, NOTE, **name) == 200
        assert links.receiver.posted[0].tree == json.loads(NOTE)


async def test_the_body_of_who_has_no_token_is_not_read() -> None:
    async with bridge() as links:
        path, token = await registered(links)
        for given, sent, status in ((path, "theirs", 401), (f"{PATH}/nobody", token, 404)):
            host, _, port = links.base.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"POST {given} HTTP/1.1\r\nHost: {host}\r\nX-A2A-Notification-Token: {sent}\r\n"
                "Content-Length: 10000000\r\n\r\n".encode()
            )
            async with asyncio.timeout(PATIENCE):
                assert (await reader.readline()).split()[1] == str(status).encode()
            writer.close()


async def test_the_agent_gets_the_answer_of_the_receiver(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.push")
    async with bridge() as links:
        path, token = await registered(links)
        name = {"X-A2A-Notification-Token": token}
        links.receiver.statuses = [500, 200, 410]
        assert await links.post(path, NOTE, **name) == 200  # the second attempt
        assert await links.post(path, NOTE, **name) == 502
        assert len(links.receiver.posted) == 3
        links.receiver.silent = True
        first = asyncio.create_task(links.post(path, NOTE, **name))
        await links.receiver.arrived(4)
        first.cancel()
        await asyncio.wait({first})


async def test_so_many_at_once() -> None:
    async with bridge(at_once=1) as links:
        path, token = await registered(links)
        name = {"X-A2A-Notification-Token": token}
        links.receiver.silent = True
        first = asyncio.create_task(links.post(path, NOTE, **name))
        await links.receiver.arrived(1)
        assert await links.post(path, NOTE, **name) == 503
        first.cancel()
        await asyncio.wait({first})


async def test_the_memory_is_bounded() -> None:
    async with bridge(most=2) as links:
        task_id = await paused(links)
        for name in "abc":
            await links.near.create_task_push_notification_config(
                hook(links.receiver, task_id=task_id, id=name)
            )
        assert len(links.relay) == len(links.relay._relay_ids) == 2
        # Evicted configs are shown as the agent has them.
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id="a")
        shown = await links.near.get_task_push_notification_config(asked)
        assert shown.url.startswith(f"{links.base}{PATH}/")


@pytest.mark.parametrize("inline", [False, True])
async def test_urls_that_are_not_http_are_rejected(inline: bool) -> None:
    async with bridge() as links:
        task_id = await paused(links)
        bad = hub.TaskPushNotificationConfig(task_id=task_id, url="file:///etc/passwd")
        making: Any = links.near.create_task_push_notification_config(bad)
        if inline:
            making.close()
            making = links.near.send_message(request("task", bad))
        with pytest.raises(A2AError) as caught:
            await making
        prefix = "configuration.taskPushNotificationConfig." if inline else ""
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == [f"{prefix}url"]
        with pytest.raises(A2AError):
            await anext(links.near.send_streaming_message(request("task", bad)))
        assert len(links.relay) == 0


async def test_only_posts_are_received() -> None:
    async with bridge() as links:
        reader, writer = await asyncio.open_connection(*links.base.removeprefix("http://").split(":"))
        writer.write(f"GET {PATH}/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert b" 405 " in await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()


async def test_an_agent_cannot_show_one_callers_config_to_another() -> None:
    async with bridge() as links:
        given = hook(links.receiver, task_id="t")
        told: list[hub.TaskPushNotificationConfig] = []

        class Agent:
            async def unary(self, call: Any) -> Any:
                told.extend([call.request] if call.operation is ops.CREATE_PUSH_CONFIG else [])
                shown = hub.TaskPushNotificationConfig()
                shown.CopyFrom(told[0])
                return shown

            def stream(self, call: Any) -> Any:
                raise NotImplementedError

        service = Relay(Agent(), links.relay._webhook, "http://gateway")
        as_ann = CallContext(parameters={"authorization": "Bearer ann"})
        as_bob = CallContext(parameters={"authorization": "Bearer bob"})
        await service.unary(Call(ops.CREATE_PUSH_CONFIG, given, as_ann))
        asked = hub.GetTaskPushNotificationConfigRequest(task_id="t", id="c")
        shown = await service.unary(Call(ops.GET_PUSH_CONFIG, asked, as_bob))
        assert "theirs" not in str(shown)
        assert "secret" not in str(shown)
