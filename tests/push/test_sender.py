"""The sender of hosted agents: in order for each receiver, slow ones alone, and nothing after the end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from a2a_bridge.bindings import Fetched
from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations, Webhook, WebhookSender

SCOPE = Scope()
PATIENCE = 10.0


class Posts:
    """Takes down what is posted; `held` receivers answer when they are let go."""

    def __init__(self) -> None:
        self.got: dict[str, list[str]] = defaultdict(list)
        self.held: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Fetched:
        if url in self.held:
            await self.held[url].wait()
        async with self._changed:
            self.got[url].append(json.loads(body)["statusUpdate"]["status"]["message"]["messageId"])
            self._changed.notify_all()
        return Fetched(200, {}, b"")

    async def arrived(self, url: str, count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.got[url]) >= count)
        return self.got[url]


def config(name: str) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id=name, url=f"http://{name}/")


def event(name: Any) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t", context_id="c")
    update.status.state = hub.TASK_STATE_WORKING
    update.status.message.CopyFrom(
        hub.Message(message_id=str(name), role=hub.ROLE_AGENT, parts=[hub.Part(text="x")])
    )
    return hub.StreamResponse(status_update=update)


def sender(posts: Posts, **members: Any) -> WebhookSender:
    return WebhookSender(Webhook(posts), Registrations(), **members)


async def test_each_receiver_gets_everything_in_order_and_slow_ones_delay_nobody() -> None:
    posts = Posts()
    posts.held["http://slow/"] = asyncio.Event()
    sending = sender(posts)
    for number in range(20):
        await sending.deliver(SCOPE, event(number), [config("slow"), config("fast")], hub.Task())
    expected = [str(number) for number in range(20)]
    assert await posts.arrived("http://fast/", 20) == expected
    assert posts.got["http://slow/"] == []
    posts.held["http://slow/"].set()
    assert await posts.arrived("http://slow/", 20) == expected
    await sending.close(PATIENCE)


async def test_a_line_is_bounded_and_loses_its_oldest(caplog: pytest.LogCaptureFixture) -> None:
    posts = Posts()
    posts.held["http://slow/"] = asyncio.Event()
    sending = sender(posts, waiting=3)
    with caplog.at_level(logging.WARNING, "a2a_bridge.push"):
        for number in range(6):
            await sending.deliver(SCOPE, event(number), [config("slow")], hub.Task())
    posts.held["http://slow/"].set()
    assert await posts.arrived("http://slow/", 3) == ["3", "4", "5"]
    assert len(caplog.records) == 3
    await sending.close(PATIENCE)


async def test_after_the_end_nothing_is_sent_and_nothing_left() -> None:
    posts = Posts()
    posts.held["http://slow/"] = asyncio.Event()
    sending = sender(posts)
    await sending.deliver(SCOPE, event(1), [config("slow"), config("fast")], hub.Task())
    await posts.arrived("http://fast/", 1)
    await sending.close(0)
    await sending.deliver(SCOPE, event(2), [config("fast")], hub.Task())
    assert posts.got["http://fast/"] == ["1"]
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("a2a push")]


async def test_the_end_waits_for_what_is_in_line() -> None:
    posts = Posts()
    sending = sender(posts)
    for number in range(5):
        await sending.deliver(SCOPE, event(number), [config("x")], hub.Task())
    await sending.close(PATIENCE)
    assert len(posts.got["http://x/"]) == 5


async def test_what_cannot_be_posted_to_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    sending = sender(Posts())
    bad = hub.TaskPushNotificationConfig(task_id="t", id="p", url="ftp://x/")
    assert sending.check(bad) is not None
    with caplog.at_level(logging.WARNING, "a2a_bridge.push"):
        await sending.deliver(SCOPE, event(1), [bad], hub.Task())
    assert len(caplog.records) == 1
    await sending.close()
