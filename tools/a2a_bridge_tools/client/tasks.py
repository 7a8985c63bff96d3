"""`task get|cancel|list|subscribe|download`: what they do with an agent."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial

import typer

from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, print_message
from a2a_bridge.codec import encoder
from a2a_bridge.core.paging import EndlessListError, each_page
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.flags import (
    ClientFlags,
    DownloadFlags,
    StreamFlags,
    TaskGetFlags,
    TaskListFlags,
)
from a2a_bridge_tools.client.parts import contents_of
from a2a_bridge_tools.client.progress import count_steps, show_waiting
from a2a_bridge_tools.client.reaching import Session, run
from a2a_bridge_tools.client.results import note_link, save_one, show_events, show_task, task_of
from a2a_bridge_tools.client.waiting import poll, subscribe_and_wait

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
            raise typer.BadParameter(f"{flags.status!r} is not one of {states}", param_hint="--status")
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
