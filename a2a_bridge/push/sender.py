"""Sends the events of hosted tasks to webhooks, in order for each of them. Nothing of it outlives the process.

It is what an engine takes as its push sender. Rules:
1. What is to be sent is written down at once, so that later events change nothing in it.
2. Each config has its own line: a slow receiver delays nobody else. A line has room for so many; then its oldest go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import Names, Notification, deliverable, named_in, notification
from a2a_bridge.push.registrations import Registrations
from a2a_bridge.push.webhook import Webhook

logger = logging.getLogger("a2a_bridge.push")

_Key = tuple[Scope, str, str]


class WebhookSender:
    """Implements hosting's PushSender.

    registrations: tells the version each config is for. waiting: how many notifications one config may have
    waiting. at_once: how many are being posted at one time, over all configs. names: how versions in which callers
    name their tasks know them.
    """

    def __init__(
        self,
        webhook: Webhook,
        registrations: Registrations,
        *,
        waiting: int = 100,
        at_once: int = 64,
        names: Names | None = None,
    ) -> None:
        self._webhook = webhook
        self._registrations = registrations
        self._waiting = waiting
        self._names = names or {}
        self._slots = asyncio.Semaphore(at_once)
        self._lines: dict[_Key, deque[Notification]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._closed = False

    def check(self, config: hub.TaskPushNotificationConfig, /) -> A2AError | None:
        """Why nothing can be sent to a config: INVALID_PARAMS naming the member; None when it can."""
        return deliverable(config)

    async def deliver(
        self,
        scope: Scope,
        event: hub.StreamResponse,
        configs: Sequence[hub.TaskPushNotificationConfig],
        task: hub.Task,
        /,
    ) -> None:
        """Puts an event in line for each config. It waits for nothing."""
        if self._closed:
            return
        for config in configs:
            if deliverable(config) is not None:
                logger.warning("a push config of task %s cannot be posted to", config.task_id)
                continue
            version = self._registrations.of(scope, config).version
            named = named_in(self._names, version, scope)
            self._put((scope, config.task_id, config.id), notification(config, event, task, version, named))

    async def close(self, grace: float = 0) -> None:
        """Takes nothing more, lets what waits be sent for `grace` seconds, and drops the rest."""
        self._closed = True
        if self._workers and grace > 0:
            await asyncio.wait(self._workers, timeout=grace)
        left = list(self._workers)
        for worker in left:
            worker.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _put(self, key: _Key, made: Notification) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = deque()
            worker = asyncio.create_task(self._work(key, line), name=f"a2a push {key[1]}")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        if len(line) >= self._waiting:
            logger.warning("a push notification of task %s is dropped: its receiver is too slow", key[1])
            line.popleft()
        line.append(made)

    async def _work(self, key: _Key, line: deque[Notification]) -> None:
        try:
            while line:
                async with self._slots:
                    await self._webhook.send(line.popleft())
        finally:
            # Nothing is awaited between the last look at the line and this, so none is left in it.
            del self._lines[key]
