"""`a2a-bridge task`: looks at tasks, cancels, lists and follows them, saves their artifacts."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import (
    ClientFlags,
    DownloadFlags,
    PushConfigFlags,
    StreamFlags,
    TaskGetFlags,
    TaskListFlags,
)

app = command_group("task", "Look at tasks, cancel, list and follow them, save their artifacts.")
push_config = command_group("push-config", "Manage the webhooks that an agent notifies of a task.")
app.add_typer(push_config)

TaskId = Annotated[str, typer.Argument(help="Id of the task.", metavar="TASK-ID")]
ConfigId = Annotated[str, typer.Argument(help="Id of the configuration.", metavar="CONFIG-ID")]


@app.command(cls=Command)
@with_flags
def get(context: typer.Context, task_id: TaskId, *, flags: TaskGetFlags) -> None:
    """Show a task: its state, its artifacts, and its messages if that is asked for.

    For example:

      a2a-bridge task get -a :8080 TASK-ID --wait --timeout 5m
    """
    from a2a_bridge_tools.client.tasks import get_task

    get_task(context, task_id, flags)


@app.command(cls=Command)
@with_flags
def cancel(context: typer.Context, task_id: TaskId, *, flags: ClientFlags) -> None:
    """Cancel a task, and show the state that it has then.

    For example:

      a2a-bridge task cancel -a :8080 TASK-ID
    """
    from a2a_bridge_tools.client.tasks import cancel_task

    cancel_task(context, task_id, flags)


@app.command("list", cls=Command)
@with_flags
def list_(context: typer.Context, *, flags: TaskListFlags) -> None:
    """List tasks, page by page.

    For example:

      a2a-bridge task list -a :8080 --status working --page-size 20
    """
    from a2a_bridge_tools.client.tasks import list_tasks

    list_tasks(context, flags)


@app.command(cls=Command)
@with_flags
def subscribe(context: typer.Context, task_id: TaskId, *, flags: StreamFlags) -> None:
    """Follow a task that is working until it ends or asks for something.

    The whole task comes first. Without --stream, -o json prints the last state of the task only.

    For example:

      a2a-bridge task subscribe -a :8080 TASK-ID --stream -o json
    """
    from a2a_bridge_tools.client.tasks import subscribe_to_task

    subscribe_to_task(context, task_id, flags)


@app.command(cls=Command)
@with_flags
def download(context: typer.Context, task_id: TaskId, *, flags: DownloadFlags) -> None:
    """Save the artifacts of a task in a folder. Links are listed, and not fetched.

    For example:

      a2a-bridge task download -a :8080 TASK-ID --output-dir results
    """
    from a2a_bridge_tools.client.tasks import download_task

    download_task(context, task_id, flags)


@push_config.command(cls=Command)
@with_flags
def create(context: typer.Context, task_id: TaskId, *, flags: PushConfigFlags) -> None:
    """Ask the agent to notify a webhook of the task, or be the webhook with --listen.

    For example:

      a2a-bridge task push-config create -a :8080 TASK-ID --url https://me.example/hook

      a2a-bridge task push-config create -a :8080 TASK-ID --listen 127.0.0.1:9000
    """
    from a2a_bridge_tools.client.tasks import create_config

    create_config(context, task_id, flags)


@push_config.command("get", cls=Command)
@with_flags
def get_config(context: typer.Context, task_id: TaskId, config_id: ConfigId, *, flags: ClientFlags) -> None:
    """Show a configuration.

    For example:

      a2a-bridge task push-config get -a :8080 TASK-ID CONFIG-ID
    """
    from a2a_bridge_tools.client.tasks import get_config

    get_config(context, task_id, config_id, flags)


@push_config.command("list", cls=Command)
@with_flags
def list_configs(context: typer.Context, task_id: TaskId, *, flags: ClientFlags) -> None:
    """List the configurations of a task.

    For example:

      a2a-bridge task push-config list -a :8080 TASK-ID
    """
    from a2a_bridge_tools.client.tasks import list_configs

    list_configs(context, task_id, flags)


@push_config.command(cls=Command)
@with_flags
def delete(context: typer.Context, task_id: TaskId, config_id: ConfigId, *, flags: ClientFlags) -> None:
    """Delete a configuration.

    For example:

      a2a-bridge task push-config delete -a :8080 TASK-ID CONFIG-ID
    """
    from a2a_bridge_tools.client.tasks import delete_config

    delete_config(context, task_id, config_id, flags)
