"""`task get|cancel|list|subscribe|download`, and `task push-config`: webhooks of a task. An agent whose card
does not offer notifications is not asked. `--listen` makes a token, rejects notifications without it, and
removes its configuration when the task rests or the command is interrupted.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import typer

from a2a_bridge.bindings.binding import DocumentHost, HostOptions, ListenAddress, ReadBody, find
from a2a_bridge.cards.build import WILDCARDS
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import cannot_listen, data, document, print_message
from a2a_bridge.cli.values import listen_address, text_or_file, usage_error
from a2a_bridge.codec import encoder
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import ArtifactIndex, IllegalTransitionError, fold
from a2a_bridge.core.messages import AT_REST
from a2a_bridge.core.paging import CONFIG_PAGES, EndlessListError, each_page
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import TOKEN_HEADERS, read
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import (
    ClientFlags,
    DownloadFlags,
    PushConfigFlags,
    StreamFlags,
    TaskGetFlags,
    TaskListFlags,
)
from a2a_bridge_tools.client.parts import contents_of
from a2a_bridge_tools.client.reaching import Session, run
from a2a_bridge_tools.client.results import (
    count_steps,
    note_link,
    save_one,
    show_events,
    show_task,
    show_waiting,
    task_of,
)
from a2a_bridge_tools.client.sending import poll, remember, subscribe_and_wait

_encode_list = encoder(hub.ListTasksResponse)
#: the largest number that a request can hold; an agent has its own limit
_MOST = 2**31 - 1
#: pages of one list; 50 tasks to a page are usual
_PAGES = 1000


def get_task(context: typer.Context, task_id: str, flags: TaskGetFlags) -> None:
    """`task get`."""
    run(context, flags, partial(_get, task_id=task_id, flags=flags))


async def _get(session: Session, *, task_id: str, flags: TaskGetFlags) -> None:
    request = hub.GetTaskRequest(id=task_id)
    if flags.history is not None:
        request.history_length = min(flags.history, _MOST)
    task = session.task = await session.peer.get_task(request, session.context)
    if flags.wait:
        looking = poll(session, task, flags, request)
        async with show_waiting(session), aclosing(looking) as looks:
            async for task in looks:
                print_message(f"task {task.id}: {text.state_name(task.status.state)}", "dim")
    show_task(session, session.task, flags, history=bool(flags.history), warned=False)


def cancel_task(context: typer.Context, task_id: str, flags: ClientFlags) -> None:
    """`task cancel`."""

    async def cancel(session: Session) -> None:
        task = await session.peer.cancel_task(hub.CancelTaskRequest(id=task_id), session.context)
        show_task(session, task, flags)

    run(context, flags, cancel)


def list_tasks(context: typer.Context, flags: TaskListFlags) -> None:
    """`task list`."""
    request = hub.ListTasksRequest(context_id=flags.context_id, page_token=flags.page_token)
    if flags.status:
        name = "TASK_STATE_" + flags.status.upper().replace("-", "_").removeprefix("TASK_STATE_")
        names = list(hub.TaskState.keys())
        if name not in names:
            states = ", ".join(one.removeprefix("TASK_STATE_").lower() for one in names)
            raise usage_error("--status", f"{flags.status!r} is not one of {states}")
        request.status = hub.TaskState.Value(name)  # type: ignore[assignment]
    if flags.page_size is not None:
        request.page_size = min(flags.page_size, _MOST)
    run(context, flags, partial(_list, request=request, flags=flags))


async def _list(session: Session, *, request: hub.ListTasksRequest, flags: TaskListFlags) -> None:
    whole: hub.ListTasksResponse | None = None

    async def ask(asked: hub.ListTasksRequest) -> hub.ListTasksResponse:
        return await session.peer.list_tasks(asked, session.context)

    async with aclosing(each_page(ask, request, _PAGES)) as pages:
        try:
            async for page in pages:
                if flags.output is Output.TEXT:
                    for task in page.tasks:
                        data("".join(text.task(task)) if flags.verbose else "".join(_line(task)))
                elif whole is None:
                    whole = page
                else:
                    whole.tasks.extend(page.tasks)
                    whole.next_page_token = page.next_page_token
                if not flags.all_pages:
                    break
        except EndlessListError as error:
            if error.token:
                error.hint = session.command("task list", "--all", "--page-token", error.token)
            raise
    if whole is not None:
        document(_encode_list(whole))
        return
    data(text.field("Total", page.total_size), end="")
    if page.next_page_token:
        data(text.field("Next page", page.next_page_token), end="")


def _line(task: hub.Task) -> list[str]:
    updated = [text.field("Updated", task.status.timestamp.ToJsonString())]
    return [
        *text.identity(task.id, task.context_id, task.status.state),
        *(updated if task.status.HasField("timestamp") else ()),
    ]


def subscribe_to_task(context: typer.Context, task_id: str, flags: StreamFlags) -> None:
    """`task subscribe`."""
    run(context, flags, partial(_subscribe, task_id=task_id, flags=flags))


async def _subscribe(session: Session, *, task_id: str, flags: StreamFlags) -> None:
    live = flags.stream or flags.output is Output.TEXT
    events = subscribe_and_wait(session, task_id, flags, streamed=live)
    async with show_waiting(session):
        last = await show_events(session, events, flags, live=live)
    if last is not None and not live:
        show_task(session, task_of(session, last), flags)


def download_task(context: typer.Context, task_id: str, flags: DownloadFlags) -> None:
    """`task download`."""
    run(context, flags, partial(_download, task_id=task_id, flags=flags))


async def _download(session: Session, *, task_id: str, flags: DownloadFlags) -> None:
    async with show_waiting(session):
        task = await session.peer.get_task(hub.GetTaskRequest(id=task_id), session.context)
    saved = []
    found = contents_of(task)
    for name, content, part in count_steps("saving", ((one[0], one) for one in found)):
        if content is None:
            note_link(part)
        elif path := save_one(session, flags.output_dir, name, content, overwrite=flags.overwrite):
            saved.append({"path": str(path), "bytes": len(content), "mediaType": part.media_type})
    if flags.output is Output.JSON:
        document({"taskId": task.id, "contextId": task.context_id, "files": saved})
        return
    data("".join(text.identity(task.id, task.context_id, task.status.state)), end="")
    for one in saved:
        data(text.field("Saved", f"{one['path']} {one['bytes']} bytes"), end="")


_PATH = "/webhook"
_encode_config = encoder(hub.TaskPushNotificationConfig)
_encode_configs = encoder(hub.ListTaskPushNotificationConfigsResponse)


def create_config(context: typer.Context, task_id: str, flags: PushConfigFlags) -> None:
    """`task push-config create`."""
    if bool(flags.url) == bool(flags.listen):
        raise usage_error("--url", "needs one of --url and --listen")
    # Read once: a file may be a pipe.
    flags = replace(flags, token=text_or_file(flags.token, "--token"))
    config = hub.TaskPushNotificationConfig(
        id=flags.config_id, task_id=task_id, url=flags.url, token=flags.token
    )
    work: Any = _create
    if flags.listen:
        listen = listen_address(flags.listen, "--listen")
        if listen[0] in WILDCARDS and not flags.listen_url:
            raise usage_error("--listen", "needs --listen-url: nobody can call all addresses")
        work = partial(_listen, listen=listen)
    run(context, flags, partial(work, config=config, flags=flags))


async def _create(
    session: Session, *, config: hub.TaskPushNotificationConfig, flags: PushConfigFlags
) -> None:
    _check(session)
    _show(await session.peer.create_task_push_notification_config(config, session.context), flags)


def get_config(context: typer.Context, task_id: str, config_id: str, flags: ClientFlags) -> None:
    """`task push-config get`."""

    async def get(session: Session) -> None:
        _check(session)
        request = hub.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        _show(await session.peer.get_task_push_notification_config(request, session.context), flags)

    run(context, flags, get)


def list_configs(context: typer.Context, task_id: str, flags: ClientFlags) -> None:
    """`task push-config list`, all pages."""

    async def list_(session: Session) -> None:
        _check(session)
        request = hub.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        whole = hub.ListTaskPushNotificationConfigsResponse()

        async def ask(asked: Any) -> hub.ListTaskPushNotificationConfigsResponse:
            return await session.peer.list_task_push_notification_configs(asked, session.context)

        async with aclosing(each_page(ask, request, CONFIG_PAGES)) as pages:
            async for page in pages:
                whole.configs.extend(page.configs)
        if flags.output is Output.JSON:
            document(_encode_configs(whole))
            return
        for number, one in enumerate(whole.configs):
            data(("\n" if number else "") + "".join(_lines(one)), end="")
        data(text.field("Total", len(whole.configs)), end="")

    run(context, flags, list_)


def delete_config(context: typer.Context, task_id: str, config_id: str, flags: ClientFlags) -> None:
    """`task push-config delete`."""

    async def delete(session: Session) -> None:
        _check(session)
        request = hub.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await session.peer.delete_task_push_notification_config(request, session.context)
        if flags.output is Output.JSON:
            document({})
        else:
            data(text.field("Deleted", config_id) + text.field("Task", task_id), end="")

    run(context, flags, delete)


def _check(session: Session) -> None:
    if session.card.name and not session.card.capabilities.push_notifications:
        text_ = "the card says that the agent sends no push notifications"
        raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, text_)


def _show(config: hub.TaskPushNotificationConfig, flags: ClientFlags) -> None:
    if flags.output is Output.JSON:
        document(_encode_config(config))
    else:
        data("".join(_lines(config)), end="")


def _lines(config: hub.TaskPushNotificationConfig) -> list[str]:
    lines = [text.field("Config", config.id), text.field("Task", config.task_id)]
    lines.append(text.field("URL", config.url))
    if config.authentication.scheme:
        lines.append(text.field("Authentication", config.authentication.scheme))
    return lines


async def _listen(
    session: Session,
    *,
    config: hub.TaskPushNotificationConfig,
    flags: PushConfigFlags,
    listen: tuple[str, int],
) -> None:
    """Registers a webhook of our own and prints what arrives, until the task rests."""
    _check(session)
    config.token = config.token or secrets.token_urlsafe(24)
    arrived: asyncio.Queue[hub.StreamResponse] = asyncio.Queue(1000)
    binding: Any = find("JSONRPC")
    host: DocumentHost = binding.host(ListenAddress(*listen), HostOptions())
    host.receive(_PATH, partial(_receive, config.token, arrived))
    try:
        await host.start()
    except OSError as error:
        raise cannot_listen(error) from None
    made: hub.TaskPushNotificationConfig | None = None
    try:
        config.url = (flags.listen_url or f"http://{host.address}").rstrip("/") + _PATH
        made = await session.peer.create_task_push_notification_config(config, session.context)
        print_message(f"listening at {config.url} for task {config.task_id}", "dim")
        task = await session.peer.get_task(hub.GetTaskRequest(id=config.task_id), session.context)
        remember(session, task)
        events = _read_notifications(session, task, arrived)
        await show_events(session, events, StreamFlags(output=flags.output, verbose=flags.verbose), live=True)
    finally:
        if made is not None:
            gone = hub.DeleteTaskPushNotificationConfigRequest(task_id=made.task_id, id=made.id)
            try:
                await session.peer.delete_task_push_notification_config(gone)
            except A2AError as error:
                print_message(f"warning: the webhook stays registered: {error.message}", "yellow")
        await host.drain(1.0)


async def _read_notifications(
    session: Session, task: hub.Task, arrived: asyncio.Queue[hub.StreamResponse]
) -> AsyncGenerator[hub.StreamResponse, None]:
    """The task, and the events of notifications until it rests."""
    index = ArtifactIndex()
    yield hub.StreamResponse(task=task)
    while task.status.state not in AT_REST:
        event = await arrived.get()
        try:
            task = fold(task, event, index)
        except IllegalTransitionError as error:
            # Notifications may come twice, and in another order.
            print_message(f"note: a notification is out of order: {error}", "yellow")
        session.task = task
        yield event


async def _receive(
    token: str,
    arrived: asyncio.Queue[hub.StreamResponse],
    _path: str,
    headers: Mapping[str, str],
    read_body: ReadBody,
) -> int:
    given = [headers.get(name.lower(), "") for name in TOKEN_HEADERS]
    if not any(hmac.compare_digest(one.encode(), token.encode()) for one in given):
        print_message("warning: a notification without our token is rejected", "yellow")
        return 401
    event = read(await read_body())
    if arrived.full():
        return 503
    arrived.put_nowait(event)
    return 204
