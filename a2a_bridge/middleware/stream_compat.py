"""Differences for callers of 0.x that need state or a second call. Message shapes are the dialects' part.

Rules:
1. A 0.x stream ends with the first event with `final`. If there is none, such an event is generated from the
   last known status, with a mark (`dialects.annotation`). A terminal status is final even if its agent left
   that out (Go 2 over gRPC of 0.3), so that it is not sent twice. In a resumed stream a request for input is
   final only if the task still waits for it. A snapshot in the middle of a stream (a gap) becomes updates.
2. A snapshot that a bridge generated for 1.0 callers is dropped, and its status counts; but not at the
   beginning of a subscription, where it has the earlier events.
3. Getting a push config without an id means the first config, or the config with the id of the task (the name
   that older agents used). Lists of push configs have no pages.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable
from contextlib import aclosing
from typing import Any, cast

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, ResponseParameters
from a2a_bridge.core.errors import A2AError, Kind
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.paging import CONFIG_PAGES, each_page
from a2a_bridge.core.resume import resume_id
from a2a_bridge.core.service import Event, Events, Middleware, Service
from a2a_bridge.dialects import KNOWN, Dialect
from a2a_bridge.dialects.annotation import (
    CLOSING,
    SNAPSHOT,
    Finality,
    annotate_final,
    by_state,
    finality,
    synthesise,
    synthetic_kind,
    without_final,
)
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger(__name__)


def stream_compat(dialects: Iterable[Dialect] = KNOWN) -> Middleware:
    """Middleware for services in `dialects`; the service itself if all of them are 1.0. It belongs outside
    of `validate`, because 0.x requires less.
    """
    older = {
        dialect.version: {kind.name: finality(dialect, kind.name) for kind in dialect.forms}
        for dialect in dialects
        if dialect.final_events
    }
    return lambda service: _OlderCallers(service, older) if older else service


class _OlderCallers:
    def __init__(self, service: Service, older: dict[str, dict[str, Finality]]) -> None:
        self._service = service
        self._older = older

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        if call.context.origin.version in self._older:
            request: Any = call.request
            if call.operation is ops.LIST_PUSH_CONFIGS:
                return cast("Coroutine[Any, Any, Res]", self._whole_list(call))
            if call.operation is ops.GET_PUSH_CONFIG and not request.id:
                return cast("Coroutine[Any, Any, Res]", self._first_config(call))
        return self._service.unary(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        origin = call.context.origin
        bindings = self._older.get(origin.version)
        if bindings is None:
            return self._service.stream(call)
        return self._end_final(call, bindings.get(origin.binding, by_state))

    async def _end_final(self, call: Call[Any, Any], is_final: Finality) -> Events:
        known = _LastKnown(call.request)
        resumed = call.operation is ops.SUBSCRIBE_TO_TASK and bool(resume_id(call.context))
        replayed = resumed
        subscribed = call.operation is ops.SUBSCRIBE_TO_TASK
        begun = False
        async with aclosing(self._service.stream(call)) as events:
            async for event in events:
                message = event.message
                which = known.note(message)
                resumed = False
                if event.gap and begun and which == "task":
                    # Clients of 0.x reject a second task in one stream.
                    *artifacts, status = _as_updates(event)
                    for artifact in artifacts:
                        yield artifact
                    if is_final(status.message.status_update):
                        yield _final(status, is_final)
                        return
                    yield status
                    continue
                begun = True
                if which == "task" and not subscribed and synthetic_kind(message.task) == SNAPSHOT:
                    continue
                if which == "status_update" and message.status_update.status.state in TERMINAL:
                    yield _final(event, is_final)
                    return
                if which == "status_update" and is_final(message.status_update):
                    if not replayed or await self._is_current(call, message.status_update):
                        yield event
                        return
                    # A copy: the event is shared with other readers.
                    passed = hub.StreamResponse(status_update=message.status_update)
                    annotate_final(passed.status_update, False)
                    yield Event(passed, event.id)
                    continue
                yield event
        # A resumed stream needs no closing event if the caller has seen its last event: that event was final.
        if known.concerns_task and not resumed:
            yield Event(hub.StreamResponse(status_update=await self._build_closing(call, known, is_final)))

    async def _build_closing(
        self, call: Call[Any, Any], known: _LastKnown, is_final: Finality
    ) -> hub.TaskStatusUpdateEvent:
        update = hub.TaskStatusUpdateEvent(task_id=known.task_id, context_id=known.context_id)
        if known.status is None:
            await self._ask(call, known)
        if known.status is not None:
            update.status.CopyFrom(known.status)
        if not is_final(update):
            annotate_final(update, True)
        synthesise(update, CLOSING)
        return update

    async def _ask(self, call: Call[Any, Any], known: _LastKnown) -> None:
        """Requests the status of a task of which only artifacts were seen. A failure is ignored."""
        try:
            task = await fetch_task(self._service, call, known.task_id, history_length=0)
        except A2AError as error:
            logger.debug("the status of task %s is unknown: %s", known.task_id, error)
        else:
            known.status = task.status

    async def _is_current(self, call: Call[Any, Any], update: hub.TaskStatusUpdateEvent) -> bool:
        """Whether the task still waits for input; also if the agent does not answer."""
        known = _LastKnown(call.request)
        await self._ask(call, known)
        if known.status is None:
            return True
        now, then = known.status, update.status
        return (now.state, now.timestamp) == (then.state, then.timestamp)

    async def _first_config(self, call: Call[Any, Any]) -> hub.TaskPushNotificationConfig:
        request = call.request
        listing = hub.ListTaskPushNotificationConfigsRequest(task_id=request.task_id, tenant=request.tenant)
        wanted = request.task_id
        try:
            page = await self._service.unary(
                Call(ops.LIST_PUSH_CONFIGS, listing, call.context.replace(reply=ResponseParameters()))
            )
        except A2AError as error:
            if error.reason.kind is not Kind.LACKING:
                raise
        else:
            if page.configs:
                if not page.configs[0].id:  # 0.x agents need not name them
                    return page.configs[0]
                wanted = page.configs[0].id
        named = hub.GetTaskPushNotificationConfigRequest(
            task_id=request.task_id, id=wanted, tenant=request.tenant
        )
        return await self._service.unary(Call(ops.GET_PUSH_CONFIG, named, call.context))

    async def _whole_list(self, call: Call[Any, Any]) -> hub.ListTaskPushNotificationConfigsResponse:
        """All pages in one list. Raises INVALID_AGENT_RESPONSE if there is no end of them."""
        response = await self._service.unary(call)
        if call.request.page_size or not response.next_page_token:
            return cast("hub.ListTaskPushNotificationConfigsResponse", response)
        whole = hub.ListTaskPushNotificationConfigsResponse(configs=response.configs)
        request = hub.ListTaskPushNotificationConfigsRequest()
        request.CopyFrom(call.request)
        request.page_token = response.next_page_token

        async def ask(asked: Any) -> hub.ListTaskPushNotificationConfigsResponse:
            context = call.context.replace(reply=ResponseParameters())
            return await self._service.unary(Call(ops.LIST_PUSH_CONFIGS, asked, context))

        async with aclosing(each_page(ask, request, CONFIG_PAGES - 1)) as pages:
            async for page in pages:
                whole.configs.extend(page.configs)
        return whole


def _as_updates(event: Event) -> list[Event]:
    """A snapshot as updates: each artifact as a whole, then the status, which has the id."""
    task = event.message.task
    found = []
    for artifact in task.artifacts:
        update = hub.TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact)
        found.append(Event(hub.StreamResponse(artifact_update=update)))
    status = hub.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
    found.append(Event(hub.StreamResponse(status_update=status), event.id))
    return found


def _final(event: Event, is_final: Finality) -> Event:
    """A terminal status with `final`: a copy if it has none, because readers share the event."""
    if is_final(event.message.status_update):
        return event
    message = hub.StreamResponse(status_update=without_final(event.message.status_update))
    if not is_final(message.status_update):
        annotate_final(message.status_update, True)
    return Event(message, event.id)


class _LastKnown:
    """The task of a stream as far as its events described it."""

    __slots__ = ("concerns_task", "context_id", "status", "task_id")

    def __init__(self, request: Any) -> None:
        # A subscription is about an existing task, even without events.
        self.concerns_task = isinstance(request, hub.SubscribeToTaskRequest)
        self.task_id = request.id if isinstance(request, hub.SubscribeToTaskRequest) else ""
        self.context_id = ""
        self.status: hub.TaskStatus | None = None

    def note(self, event: hub.StreamResponse) -> str | None:
        """Notes the content of an event; returns its kind."""
        which: str | None = event.WhichOneof("payload")
        if which == "task":
            self.task_id, self.context_id = event.task.id, event.task.context_id
            self.status = event.task.status
            self.concerns_task = True
        elif which == "status_update":
            update = event.status_update
            self.task_id, self.context_id, self.status = update.task_id, update.context_id, update.status
            self.concerns_task = True
        elif which == "artifact_update":
            self.task_id, self.context_id = event.artifact_update.task_id, event.artifact_update.context_id
            self.concerns_task = True
        return which
