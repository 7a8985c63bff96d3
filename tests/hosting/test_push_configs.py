"""The four operations on push notification configs, and the calls of a sender."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import MASK
from a2a_bridge.stores import MemoryStore
from a2a_bridge.stores.memory_push import MemoryPushConfigStore
from a2a_bridge.stores.ports import Registered, Scope
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import ALICE, BOB, COMPLETED, INPUT, SUBMITTED, WORKING, Talk, shapes
from tests.rejections import rejected

HOOK = "https://hook.example/"


class Configs:
    """The four operations with short arguments."""

    def __init__(self, talk: Talk, context: CallContext | None = None) -> None:
        self._client = talk.client
        self._context = context

    async def create(self, task_id: str, config_id: str = "", url: str = HOOK, **members: Any) -> Any:
        config = hub.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url, **members)
        return await self._client.create_task_push_notification_config(config, self._context)

    async def get(self, task_id: str, config_id: str) -> Any:
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        return await self._client.get_task_push_notification_config(asked, self._context)

    async def list(self, task_id: str, **members: Any) -> Any:
        asked = hub.ListTaskPushNotificationConfigsRequest(task_id=task_id, **members)
        return await self._client.list_task_push_notification_configs(asked, self._context)

    async def delete(self, task_id: str, config_id: str) -> Any:
        asked = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        return await self._client.delete_task_push_notification_config(asked, self._context)

    def all(self, task_id: str) -> list[Any]:
        return [self.create(task_id), self.get(task_id, "p"), self.list(task_id), self.delete(task_id, "p")]


@pytest.fixture
def talk() -> Talk:
    return Talk(ScriptedAgent())


@pytest.fixture
async def task(talk: Talk) -> hub.Task:
    return await talk.send("input")


async def test_a_created_config_is_returned(talk: Talk, task: hub.Task) -> None:
    configs = Configs(talk)
    login = hub.AuthenticationInfo(scheme="Bearer", credentials="secret")
    made = await configs.create(task.id, "p", token="t", authentication=login)  # noqa: S106
    login.credentials = "********"  # callers see only this
    assert (made.task_id, made.id, made.url, made.token, made.authentication) == (
        task.id,
        "p",
        HOOK,
        "t",
        login,
    )
    assert await configs.get(task.id, "p") == made
    assert list((await configs.list(task.id)).configs) == [made]


async def test_a_config_without_an_id_gets_one_and_keeps_it(talk: Talk, task: hub.Task) -> None:
    configs = Configs(talk)
    first = await configs.create(task.id)
    second = await configs.create(task.id, url="https://other.example/")
    assert first.id
    assert second.id not in ("", first.id)
    assert (await configs.create(task.id)).id == first.id
    assert len((await configs.list(task.id)).configs) == 2


async def test_a_config_of_the_same_id_replaces_the_first(talk: Talk, task: hub.Task) -> None:
    configs = Configs(talk)
    await configs.create(task.id, "p")
    await configs.create(task.id, "p", url="https://other.example/")
    assert [one.url for one in (await configs.list(task.id)).configs] == ["https://other.example/"]


async def test_deleting_may_be_repeated(talk: Talk, task: hub.Task) -> None:
    configs = Configs(talk)
    await configs.create(task.id, "p")
    await configs.delete(task.id, "p")
    await configs.delete(task.id, "p")
    with pytest.raises(A2AError, match="no push notification config") as caught:
        await configs.get(task.id, "p")
    assert caught.value.reason is Reason.TASK_NOT_FOUND
    assert caught.value.metadata == {"taskId": task.id, "configId": "p"}


async def test_without_the_capability_everything_is_rejected() -> None:
    talk = Talk(ScriptedAgent(push_notifications=False))
    task = await talk.send("input")
    for task_id in (task.id, "none"):
        for call in Configs(talk).all(task_id):
            with rejected(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED):
                await call
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": HOOK})
    for call in (
        talk.send("task", configuration=inline),
        talk.stream("task", configuration=inline),
        Talk(EchoAgent()).send("x", configuration=inline),
    ):
        with rejected(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED):
            await call


async def test_a_missing_or_foreign_task_has_no_configs(talk: Talk) -> None:
    task = await talk.send("input", context=ALICE)
    await Configs(talk, ALICE).create(task.id, "p")
    for context, task_id in ((BOB, task.id), (None, task.id), (ALICE, "none")):
        for call in Configs(talk, context).all(task_id):
            with rejected(Reason.TASK_NOT_FOUND):
                await call
    assert (await Configs(talk, ALICE).get(task.id, "p")).id == "p"


async def test_a_config_needs_a_task(talk: Talk) -> None:
    with rejected(Reason.INVALID_PARAMS, "taskId"):
        await Configs(talk).create("")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
async def test_pages_have_each_config_once(talk: Talk, task: hub.Task, size: int) -> None:
    configs = Configs(talk)
    for name in "cabed":
        await configs.create(task.id, name)
    found: list[str] = []
    page = await configs.list(task.id, page_size=size)
    while True:
        assert len(page.configs) <= size
        found += [one.id for one in page.configs]
        if not page.next_page_token:
            break
        page = await configs.list(task.id, page_size=size, page_token=page.next_page_token)
    assert found == list("cabed")
    assert len((await configs.list(task.id)).configs) == 5


async def test_the_configs_of_a_page_may_be_deleted_before_the_next(talk: Talk, task: hub.Task) -> None:
    configs = Configs(talk)
    for name in "cabed":
        await configs.create(task.id, name)
    found: list[str] = []
    page = await configs.list(task.id, page_size=2)
    while True:
        for one in page.configs:
            found.append(one.id)
            await configs.delete(task.id, one.id)
        if not page.next_page_token:
            break
        page = await configs.list(task.id, page_size=2, page_token=page.next_page_token)
    assert found == list("cabed")


async def test_bad_pages_are_rejected(talk: Talk, task: hub.Task) -> None:
    with rejected(Reason.INVALID_PARAMS, "pageToken"):
        await Configs(talk).list(task.id, page_token="never given")  # noqa: S106
    with rejected(Reason.INVALID_PARAMS, "pageSize"):
        await Configs(talk).list(task.id, page_size=-1)


@pytest.mark.parametrize("how", ["send", "stream", "follow-up"])
async def test_a_config_may_come_with_the_message(talk: Talk, how: str) -> None:
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": HOOK, "token": "t"})
    if how == "stream":
        task = (await talk.stream("input", configuration=inline))[0]
    elif how == "send":
        task = await talk.send("input", configuration=inline)
    else:
        task = await talk.send("input")
        await talk.send("x", task_id=task.id, message_id="m-2", configuration=inline)
    (config,) = (await Configs(talk).list(task.id)).configs
    assert (config.task_id, config.url, config.token) == (task.id, HOOK, "t")
    assert config.id


@pytest.mark.parametrize("config_id", ["", "p"])
async def test_a_new_task_has_no_configs_to_look_for(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, config_id: str
) -> None:
    """A wait after the reservation of the message's id would give another replica time to take it over."""

    async def look(*_: Any) -> Any:
        raise AssertionError("the configs of a new task are read")

    inline = hub.SendMessageConfiguration(task_push_notification_config={"id": config_id, "url": HOOK})
    with monkeypatch.context() as patching:
        patching.setattr(MemoryPushConfigStore, "list", look)
        patching.setattr(MemoryPushConfigStore, "get", look)
        task = await talk.send("input", configuration=inline)
        redacted = hub.AuthenticationInfo(scheme="Bearer", credentials=MASK)
        inline.task_push_notification_config.authentication.CopyFrom(redacted)
        with rejected(Reason.INVALID_PARAMS):
            await talk.send("input", message_id="m-2", configuration=inline)
    (config,) = (await Configs(talk).list(task.id)).configs
    assert config.id == config_id or not config_id


async def test_a_config_in_a_message_needs_a_url(talk: Talk) -> None:
    inline = hub.SendMessageConfiguration(task_push_notification_config={"token": "t"})
    with rejected(Reason.INVALID_PARAMS, "configuration.taskPushNotificationConfig.url"):
        await talk.send("task", configuration=inline)


async def test_a_task_has_so_many_configs_and_no_more() -> None:
    talk = Talk(ScriptedAgent(), store=MemoryStore(push_configs=MemoryPushConfigStore(most_per_task=2)))
    task = await talk.send("input")
    configs = Configs(talk)
    for name in "ab":
        await configs.create(task.id, name)
    with rejected(Reason.RESOURCE_EXHAUSTED):
        await configs.create(task.id, "c")
    await configs.create(task.id, "b", url="https://other.example/")


async def test_configs_are_kept_for_so_many_tasks() -> None:
    store = MemoryPushConfigStore(most_tasks=2)
    for number in range(3):
        config = hub.TaskPushNotificationConfig(task_id=f"t{number}", id="p", url=HOOK)
        await store.put(Scope(), Registered(config))
    assert [len(await store.list(Scope(), f"t{number}")) for number in range(3)] == [0, 1, 1]


class Sender:
    """Records the events to send."""

    async def check(self, config: hub.TaskPushNotificationConfig, /) -> A2AError | None:
        return None if config.url.startswith("https:") else invalid_params("url", "is not secure")


async def test_every_event_of_a_task_that_has_configs_goes_to_the_outbox() -> None:
    talk = Talk(ScriptedAgent(), push_sender=Sender())
    await talk.send("task", context=ALICE)
    assert await talk.store.outbox.entries() == []
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": HOOK})
    task = await talk.send("task x", context=ALICE, configuration=inline)
    entries = await talk.store.outbox.entries()
    assert [one.sequence for one in entries] == [1, 2, 3, 4]
    assert {(one.scope, one.task_id) for one in entries} == {(Scope("", "alice"), task.id)}
    (delivery,) = await talk.store.outbox.due(9, lambda _: 1)
    assert (shapes([delivery.event.task]), delivery.registered.config.url) == ([("task", SUBMITTED)], HOOK)
    seen = [await talk.store.task_at(delivery.scope, task.id, number) for number in (1, 2, 3, 4)]
    # The task after each event.
    assert [one and one.status.state for one in seen] == [SUBMITTED, WORKING, WORKING, COMPLETED]


async def test_a_later_config_gets_the_further_events() -> None:
    talk = Talk(ScriptedAgent(), push_sender=Sender())
    task = await talk.send("input")
    await Configs(talk).create(task.id)
    await talk.send("x", task_id=task.id, message_id="m-2")
    assert [one.sequence for one in await talk.store.outbox.entries()] == [4, 5, 6]
    seen = [await talk.store.task_at(Scope(), task.id, number) for number in (2, 3, 4, 5)]
    assert [one and len(one.history) for one in seen] == [1, 1, 3, 3]
    assert [one and one.status.state for one in seen] == [WORKING, INPUT, WORKING, WORKING]


async def test_nothing_is_put_in_where_nothing_is_sent() -> None:
    talk = Talk(ScriptedAgent())
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": HOOK})
    await talk.send("task x", configuration=inline)
    assert await talk.store.outbox.entries() == []


async def test_targets_that_a_sender_rejects_are_not_registered() -> None:
    talk = Talk(ScriptedAgent(), push_sender=Sender())
    task = await talk.send("input")
    with rejected(Reason.INVALID_PARAMS, "url"):
        await Configs(talk).create(task.id, url="http://hook.example/")
    assert not (await Configs(talk).list(task.id)).configs
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": "http://hook.example/"})
    with rejected(Reason.INVALID_PARAMS, "configuration.taskPushNotificationConfig.url"):
        await talk.send("task", configuration=inline)
