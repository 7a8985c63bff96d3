"""A relay with a store: an acknowledged notification reaches its receiver, after any outage or restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, http_post
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason, task_not_found
from a2a_bridge.gateway.relay_store import RelayedConfig, RelayStore
from a2a_bridge.gateway.webhooks import LARGEST, PATH, Relay
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions, Webhook, push_service
from a2a_bridge.push.secrets import MASK
from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import Store
from tests.patience import PATIENCE
from tests.push.delivery_scene import Receiver, receiving
from tests.rejections import rejected

BASE = "https://gateway.example"
ALLOWED = PushOptions(allow=("127.0.0.1",), first=0.001, longest=0.01, trip=1000)


class Agent:
    """Keeps push configs, as agents do, and knows one task."""

    def __init__(self) -> None:
        self.configs: dict[tuple[str, str], hub.TaskPushNotificationConfig] = {}
        self.sent: list[hub.TaskPushNotificationConfig] = []

    async def unary(self, call: Call[Any, Any], /) -> Any:
        request = call.request
        if call.operation is ops.CREATE_PUSH_CONFIG:
            self.configs[request.task_id, request.id] = request
            return _copy(request)
        if call.operation is ops.GET_PUSH_CONFIG:
            found = self.configs.get((request.task_id, request.id))
            if found is None:
                raise task_not_found(request.task_id)
            return _copy(found)
        if call.operation is ops.DELETE_PUSH_CONFIG:
            self.configs.pop((request.task_id, request.id), None)
            return ops.DELETE_PUSH_CONFIG.response()
        if call.operation is ops.SEND_MESSAGE:
            self.sent.append(request.configuration.task_push_notification_config)
            return hub.SendMessageResponse(task=hub.Task(id="t"))
        status = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
        return hub.Task(id="t", context_id="c", status=status, generation=9)

    def stream(self, call: Call[Any, Any], /) -> Any:
        raise NotImplementedError


def _copy(config: hub.TaskPushNotificationConfig) -> hub.TaskPushNotificationConfig:
    made = hub.TaskPushNotificationConfig()
    made.CopyFrom(config)
    return made


@dataclass
class Gateway:
    """A relay on a store, as in one process."""

    relay: Relay
    relay_store: RelayStore
    store: Store
    agent: Agent

    async def beside(self) -> Gateway:
        """Another gateway on the same store."""
        relay_store = RelayStore(self.store.push_configs, self.store.outbox)
        await relay_store.open()
        return Gateway(
            Relay(self.agent, self.relay._webhook, BASE, store=relay_store),
            relay_store,
            self.store,
            self.agent,
        )

    async def call(self, operation: Any, request: Any, *, version: str = "1.0", who: str = "ann") -> Any:
        context = CallContext(
            origin=Origin("JSONRPC", version), parameters={"authorization": f"Bearer {who}"}
        )
        return await self.relay.unary(Call(operation, request, context))

    async def post(self, config: hub.TaskPushNotificationConfig, body: bytes | None = None) -> int:
        """The post of the agent after an event."""
        assert config.url.startswith(BASE + PATH)
        headers = {"x-a2a-notification-token": config.token}

        async def read_body() -> bytes:
            return body or note()

        return await self.relay.receive(config.url.removeprefix(BASE + PATH), headers, read_body)


@asynccontextmanager
async def gateway(
    folder: Path, agent: Agent, *, delivers: bool = True, **options: Any
) -> AsyncIterator[Gateway]:
    """A gateway from its start to its end. delivers: whether it can send."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(f"sqlite:///{folder / 'gateway.db'}"))
        post = await stack.enter_async_context(http_post(DialOptions(timeout=5)))
        relay_store = RelayStore(store.push_configs, store.outbox)
        await relay_store.open()
        if delivers:
            await stack.enter_async_context(push_service(store.outbox, store.task_at, ALLOWED))
        yield Gateway(
            Relay(agent, Webhook(post), BASE, store=relay_store, **options), relay_store, store, agent
        )


def note(state: str = "TASK_STATE_COMPLETED") -> bytes:
    text = '{"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "%s"}}}'
    return (text % state).encode()


def hook(receiver: Receiver, **members: Any) -> hub.TaskPushNotificationConfig:
    login = hub.AuthenticationInfo(scheme="Bearer", credentials="secret")
    return hub.TaskPushNotificationConfig(
        url=receiver.url,
        token="theirs",  # noqa: S106
        authentication=login,
        **members,
    )


def created(config: hub.TaskPushNotificationConfig) -> tuple[Any, hub.TaskPushNotificationConfig]:
    return ops.CREATE_PUSH_CONFIG, config


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_acknowledged_notifications_survive_the_gateway(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver:
        async with gateway(tmp_path, agent, delivers=False) as one:
            await one.call(*created(hook(receiver, task_id="t", id="p")))
            registered = agent.configs["t", "p"]
            assert (registered.url, registered.token) != (receiver.url, "theirs")
            assert await one.post(registered) == 200
        assert receiver.posted == []
        receiver.statuses = [500, 500]
        async with gateway(tmp_path, agent) as other:
            posted = await receiver.arrived(3)
            assert posted[-1].tree["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert posted[-1].headers["x-a2a-notification-token"] == "theirs"
            assert posted[-1].headers["authorization"] == "Bearer secret"
            # And the agent's next notification is accepted, too.
            assert await other.post(registered) == 200
            await receiver.arrived(4)


async def test_who_repeats_a_config_gets_the_same_address_again(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver:
        given = []
        for _ in range(2):
            async with gateway(tmp_path, agent, delivers=False) as one:
                for who in ("ann", "ann", "bob"):
                    await one.call(*created(hook(receiver, task_id="t", id="p")), who=who)
                    given.append(agent.configs["t", "p"].url)
        assert given[0] == given[1] == given[3] == given[4]
        assert given[2] == given[5] != given[0]


async def test_a_restarted_gateway_shows_callers_only_their_own_configs(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver:
        async with gateway(tmp_path, agent, delivers=False) as one:
            await one.call(*created(hook(receiver, task_id="t", id="p")))
        asked = hub.GetTaskPushNotificationConfigRequest(task_id="t", id="p")
        async with gateway(tmp_path, agent, delivers=False) as one:
            shown = await one.call(ops.GET_PUSH_CONFIG, asked)
            assert (shown.url, shown.token) == (receiver.url, "theirs")
            assert shown.authentication.credentials == MASK
            other = await one.call(ops.GET_PUSH_CONFIG, asked, who="bob")
            assert receiver.url not in str(other)
            assert "theirs" not in str(other)
        # A masked config may be sent back.
        async with gateway(tmp_path, agent) as one:
            await one.call(*created(shown))
            assert await one.post(agent.configs["t", "p"]) == 200
            assert (await receiver.arrived(1))[0].headers["authorization"] == "Bearer secret"
            with rejected(Reason.INVALID_PARAMS):
                await one.call(*created(shown), who="bob")


async def test_a_deleted_config_is_removed_with_its_pending_notifications(
    tmp_path: Path, agent: Agent
) -> None:
    gone = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="p")
    async with receiving() as receiver:
        async with gateway(tmp_path, agent, delivers=False) as one:
            await one.call(*created(hook(receiver, task_id="t", id="p")))
            registered = agent.configs["t", "p"]
            assert await one.post(registered) == 200
            assert len(await one.store.outbox.entries()) == 1
        # By a gateway that has not seen it before.
        async with gateway(tmp_path, agent, delivers=False) as one:
            await one.call(ops.DELETE_PUSH_CONFIG, gone)
            assert await one.store.outbox.entries() == []
            assert await one.post(registered) == 404


class Blind:
    """Configs of a store that were read before there were any."""

    def __init__(self, store: Store) -> None:
        self._configs = store.push_configs
        self._looked = False
        self.put = store.push_configs.put

    async def get(self, *which: Any) -> Any:
        looked, self._looked = self._looked, True
        return await self._configs.get(*which) if looked else None


async def test_gateways_that_start_together_give_the_same_addresses(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        stores = [
            RelayStore(store.push_configs, store.outbox),
            RelayStore(Blind(store), store.outbox),  # type: ignore[arg-type]
            RelayStore(store.push_configs, store.outbox),
        ]
        for relay_store in stores:
            await relay_store.open()
        assert len({relay_store.addresses.token("x") for relay_store in stores}) == 1


async def test_a_config_that_another_gateway_deleted_is_kept_when_it_comes_again(
    tmp_path: Path, agent: Agent
) -> None:
    gone = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="p")
    async with receiving() as receiver, gateway(tmp_path, agent, delivers=False) as one:
        other = await one.beside()
        config = hook(receiver, task_id="t", id="p")
        await one.call(*created(config))
        await other.call(ops.DELETE_PUSH_CONFIG, gone)
        await one.call(*created(config))
        for each in (other, one, await one.beside()):
            assert await each.post(agent.configs["t", "p"]) == 200
        assert len(await one.store.outbox.entries()) == 3


@pytest.mark.parametrize("mute", [False, True])
async def test_a_mask_and_a_deletion_apply_to_the_config_of_another_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mute: bool, agent: Agent
) -> None:
    async with receiving() as receiver, gateway(tmp_path, agent) as one:
        await one.call(*created(hook(receiver, task_id="t", id="p")))
        setting = one if mute else await one.beside()
        rotated = hook(receiver, task_id="t", id="p")
        rotated.authentication.credentials = "rotated"
        shown = await setting.call(*created(rotated))
        if mute:  # then only the last config that this gateway returned is known
            unary = agent.unary

            async def deaf(call: Call[Any, Any], /) -> Any:
                if call.operation is ops.GET_PUSH_CONFIG:
                    raise A2AError(Reason.UNAVAILABLE)
                return await unary(call)

            monkeypatch.setattr(agent, "unary", deaf)
        shown.token = "changed"  # noqa: S105
        await one.call(*created(shown))
        assert await one.post(agent.configs["t", "p"]) == 200
        posted = (await receiver.arrived(1))[0].headers
        assert posted["authorization"] == "Bearer rotated"
        assert posted["x-a2a-notification-token"] == "changed"
        await setting.call(*created(rotated))
        last = agent.configs["t", "p"]
        await one.call(
            ops.DELETE_PUSH_CONFIG, hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="p")
        )
        assert await (await one.beside()).post(last) == 404


async def test_a_mask_within_a_message_to_a_gateway_that_was_started_anew(
    tmp_path: Path, agent: Agent
) -> None:
    async with receiving() as receiver:
        async with gateway(tmp_path, agent, delivers=False) as one:
            shown = await one.call(*created(hook(receiver, task_id="t", id="p")))
        sent = hub.SendMessageRequest(message=hub.Message(message_id="m", task_id="t"))
        sent.configuration.task_push_notification_config.CopyFrom(shown)
        async with gateway(tmp_path, agent) as one:
            await one.call(ops.SEND_MESSAGE, sent)
            assert await one.post(agent.sent[0]) == 200
            assert (await receiver.arrived(1))[0].headers["authorization"] == "Bearer secret"
            with pytest.raises(A2AError) as caught:
                await one.call(ops.SEND_MESSAGE, sent, who="bob")
            assert caught.value.violations[0].field == (
                "configuration.taskPushNotificationConfig.authentication.credentials"
            )


async def test_a_config_that_is_looked_up_while_it_is_registered(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver, gateway(tmp_path, agent, delivers=False) as one:
        config = hook(receiver, task_id="t", id="p")
        await one.call(*created(config), version="0.3")
        registered = agent.configs["t", "p"]
        other = await one.beside()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(other.post(registered))
                group.create_task(other.call(*created(config), version="0.3"))
        [known] = other.relay._relayed.values()
        assert known.context is not None, "who posts can be told the whole task"
        await other.call(*created(config), version="0.3")


async def test_a_config_within_a_message_serves_other_messages(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver, gateway(tmp_path, agent) as one:
        sent = hub.SendMessageRequest(message=hub.Message(message_id="m"))
        sent.configuration.task_push_notification_config.CopyFrom(hook(receiver))
        for _ in range(2):
            await one.call(ops.SEND_MESSAGE, sent)
        assert agent.sent[0] == agent.sent[1]
        assert agent.sent[0].url.startswith(BASE)
        assert agent.sent[0].authentication.credentials == agent.sent[0].token
        assert await one.post(agent.sent[0]) == 200
        await receiver.arrived(1)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_an_event_that_is_not_known_is_handed_on_or_left_out(
    version: str, tmp_path: Path, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = {"messageUpdate": {"taskId": "t", "text": version}}
    async with receiving() as receiver, gateway(tmp_path, agent) as one:
        await one.call(*created(hook(receiver, task_id="t", id="p")), version=version)
        registered = agent.configs["t", "p"]
        bodies = [json.dumps(unknown).encode(), b'{"kind": "joke"}', note()]
        assert [await one.post(registered, body) for body in bodies] == [200, 200, 200]
        trees = [one.tree for one in await receiver.arrived(2 if version == "1.0" else 1)]
    if version == "1.0":
        assert trees.pop(0) == unknown
    else:
        assert "its member (messageUpdate) is not known here" in caplog.text
    [last] = trees
    assert last == json.loads(note()) if version == "1.0" else last["status"]["state"] == "completed"


async def test_older_receivers_get_whole_tasks(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver:
        async with gateway(tmp_path, agent) as one:
            await one.call(*created(hook(receiver, task_id="t", id="p")), version="0.3")
            registered = agent.configs["t", "p"]
            assert await one.post(registered) == 200
            first = (await receiver.arrived(1))[0].tree
            assert (first["kind"], first["contextId"]) == ("task", "c")
            assert first["status"]["state"] == "completed"
            assert "generation" not in first, "that of the agent counts another status"
        # After a restart it cannot call as the caller, and builds the task from the event.
        async with gateway(tmp_path, agent) as one:
            assert await one.post(registered) == 200
            second = (await receiver.arrived(2))[1].tree
            assert (second["kind"], second["id"], second["status"]["state"]) == ("task", "t", "completed")


async def test_the_task_is_requested_with_the_latest_headers_of_its_caller(tmp_path: Path) -> None:
    """A caller that registers again may have another token, because the first one has expired."""
    asked: list[str] = []

    class Recording(Agent):
        async def unary(self, call: Call[Any, Any], /) -> Any:
            if call.operation is ops.GET_TASK:
                asked.append(call.context.parameters["authorization"])
            return await super().unary(call)

    agent = Recording()
    async with receiving() as receiver, gateway(tmp_path, agent) as one:
        for token in ("first", "second"):
            context = CallContext(
                principal=Principal("ann"),
                parameters={"authorization": token},
                origin=Origin("JSONRPC", "0.3"),
            )
            request = hook(receiver, task_id="t", id="p")
            await one.relay.unary(Call(ops.CREATE_PUSH_CONFIG, request, context))
        assert await one.post(agent.configs["t", "p"]) == 200
        assert asked == ["second"]


async def test_other_posts_are_rejected(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver, gateway(tmp_path, agent, delivers=False) as one:
        await one.call(*created(hook(receiver, task_id="t", id="p")))
        registered = agent.configs["t", "p"]
        one.relay._relayed.clear()  # as after a start
        wrong = _copy(registered)
        wrong.token = "theirs"  # noqa: S105
        assert await one.post(wrong) == 401
        wrong = _copy(registered)
        wrong.url = registered.url[:-1] + ("0" if registered.url[-1] != "0" else "1")
        assert await one.post(wrong) == 404
        wrong.url = registered.url + "/" + "x" * 10_000
        assert await one.post(wrong) == 404
        assert await one.store.outbox.entries() == []


async def test_so_many_configs_are_kept(tmp_path: Path) -> None:
    async with gateway(tmp_path, Agent(), delivers=False) as one:
        kept = [
            RelayedConfig(Scope(), "", hub.TaskPushNotificationConfig(url=f"https://x.example/{number}"))
            for number in range(130)
        ]
        addresses = [f"00{number}" for number in range(130)]  # all in one group
        for address, what in zip(addresses, kept, strict=True):
            await one.relay_store.keep(address, what)
        assert await one.relay_store.recall(addresses[0]) is None
        assert await one.relay_store.recall(addresses[29]) is None
        assert await one.relay_store.recall(addresses[30]) == kept[30]
        assert await one.relay_store.recall(addresses[-1]) == kept[-1]


async def test_a_config_is_kept_when_others_have_come_back(tmp_path: Path) -> None:
    """A notification brings the config back that was evicted for another one, as long as it is remembered."""
    async with gateway(tmp_path, Agent(), delivers=False) as one:
        configs: Any = one.store.push_configs
        configs._most = 2
        registration = RelayedConfig(
            Scope("", "ann"), "", hub.TaskPushNotificationConfig(url="https://hook.example")
        )
        for number in range(4):
            await one.relay_store.keep(f"ab{number}", registration)
        for number in range(2):
            event = hub.StreamResponse(task=hub.Task(id="t"))
            await one.relay_store.post(f"ab{number}", registration, event)
        await one.relay_store.keep("ab4", registration)
        assert await one.relay_store.recall("ab4") == registration
        assert await one.relay_store.recall("ab2") is None


async def test_configs_that_come_at_once_find_room_in_a_full_group(tmp_path: Path) -> None:
    async with gateway(tmp_path, Agent(), delivers=False) as one:
        what = RelayedConfig(Scope(), "", hub.TaskPushNotificationConfig(url="https://x.example"))
        await asyncio.gather(*(one.relay_store.keep(f"00{number}", what) for number in range(100)))
        addresses = [f"00 new {number}" for number in range(5)]
        await asyncio.gather(*(one.relay_store.keep(address, what) for address in addresses))
        for address in addresses:
            assert await one.relay_store.recall(address) == what


@pytest.mark.parametrize("inline", [False, True])
async def test_too_large_configs_are_rejected(tmp_path: Path, inline: bool, agent: Agent) -> None:
    large = hub.TaskPushNotificationConfig(url="https://x.example/" + "x" * LARGEST)
    async with gateway(tmp_path, agent, delivers=False) as one:
        sent = hub.SendMessageRequest(message=hub.Message(message_id="m"))
        sent.configuration.task_push_notification_config.CopyFrom(large)
        operation, request = (ops.SEND_MESSAGE, sent) if inline else created(large)
        with rejected(Reason.INVALID_PARAMS) as caught:
            await one.call(operation, request)
        assert caught.value.violations[0].field == (
            "configuration.taskPushNotificationConfig" if inline else ""
        )
        assert (agent.configs, agent.sent) == ({}, [])


async def test_a_failing_store_is_an_error_for_the_agent(tmp_path: Path, agent: Agent) -> None:
    async with receiving() as receiver, gateway(tmp_path, agent, delivers=False) as one:
        await one.call(*created(hook(receiver, task_id="t", id="p")))

        async def rejecting(*_: Any) -> None:
            raise A2AError(Reason.UNAVAILABLE, "the store does not work")

        one.relay_store._outbox.post = rejecting  # type: ignore[method-assign]
        with rejected(Reason.UNAVAILABLE):
            await one.post(agent.configs["t", "p"])
