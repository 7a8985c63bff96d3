"""`task push-config`: webhooks of a task, and the webhook of `--listen`.

Rules:
1. The card says whether an agent notifies; one that does not is not asked.
2. `--listen` makes a token, rejects notifications without it, and removes its configuration when the task
   rests or the command is interrupted.
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
from a2a_bridge.cli.values import listen_address, text_or_file
from a2a_bridge.codec import encoder
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.lifecycle import IllegalTransitionError, fold
from a2a_bridge.core.messages import AT_REST
from a2a_bridge.core.paging import CONFIG_PAGES, each_page
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import TOKEN_HEADERS, read
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import ClientFlags, PushConfigFlags, StreamFlags
from a2a_bridge_tools.client.reaching import Session, run
from a2a_bridge_tools.client.results import show_events
from a2a_bridge_tools.client.waiting import remember

_PATH = "/webhook"
_encode_config = encoder(hub.TaskPushNotificationConfig)
_encode_list = encoder(hub.ListTaskPushNotificationConfigsResponse)


def create_config(context: typer.Context, task_id: str, flags: PushConfigFlags) -> None:
    """`task push-config create`."""
    if bool(flags.url) == bool(flags.listen):
        raise typer.BadParameter("needs one of --url and --listen", param_hint="--url")
    # Read once: a file may be a pipe.
    flags = replace(flags, token=text_or_file(flags.token, "--token"))
    config = hub.TaskPushNotificationConfig(
        id=flags.config_id, task_id=task_id, url=flags.url, token=flags.token
    )
    work: Any = _create
    if flags.listen:
        listen = listen_address(flags.listen, "--listen")
        if listen[0] in WILDCARDS and not flags.listen_url:
            raise typer.BadParameter(
                "needs --listen-url: nobody can call all addresses", param_hint="--listen"
            )
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
            document(_encode_list(whole))
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
        base = (flags.listen_url or f"http://{host.address}").rstrip("/")
        config.url = base + _PATH
        made = await session.peer.create_task_push_notification_config(config, session.context)
        print_message(f"listening at {config.url} for task {config.task_id}", "dim")
        task = await session.peer.get_task(hub.GetTaskRequest(id=config.task_id), session.context)
        remember(session, task)
        events = _read_notifications(session, task, arrived)
        shown = StreamFlags(output=flags.output, verbose=flags.verbose)
        await show_events(session, events, shown, live=True)
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
    yield hub.StreamResponse(task=task)
    while task.status.state not in AT_REST:
        event = await arrived.get()
        try:
            fold(task, event)
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
