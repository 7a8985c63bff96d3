"""The client commands: their arguments and help. `--help` loads this module, so it imports little."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.config import Served, show_options
from a2a_bridge.cli.environment import Environment
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.core.options import CLIENT_PREFIX, options_of
from a2a_bridge_tools.client.flags import (
    CardGetFlags,
    ClientFlags,
    CompareFlags,
    ConformanceFlags,
    ContinueFlags,
    DownloadFlags,
    LoginFlags,
    PushConfigFlags,
    SendFlags,
    ShowFlags,
    StreamFlags,
    TaskGetFlags,
    TaskListFlags,
)


@with_flags
def send(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Text of the message; - reads standard input.")] = None,
    *,
    flags: SendFlags,
) -> None:
    """Send a message to an agent, and show what becomes of it.

    The command waits until the task ends or asks for something, unless --async is given.

    For example:

      a2a-bridge send -a https://agent.example "hello"

      a2a-bridge send -a :8080 "summarise this" --file-part report.pdf --stream
    """
    from a2a_bridge_tools.client.sending import send_message

    send_message(context, text, flags)


task = command_group("task", "Look at tasks, cancel, list and follow them, save their artifacts.")
push_config = command_group("push-config", "Manage the webhooks that an agent notifies of a task.")
task.add_typer(push_config)

TaskId = Annotated[str, typer.Argument(help="Id of the task.", metavar="TASK-ID")]
ConfigId = Annotated[str, typer.Argument(help="Id of the configuration.", metavar="CONFIG-ID")]


@task.command(cls=Command)
@with_flags
def get(context: typer.Context, task_id: TaskId, *, flags: TaskGetFlags) -> None:
    """Show a task: its state, its artifacts, and its messages if that is asked for.

    For example:

      a2a-bridge task get -a :8080 TASK-ID --wait --timeout 5m
    """
    from a2a_bridge_tools.client.tasks import get_task

    get_task(context, task_id, flags)


@task.command(cls=Command)
@with_flags
def cancel(context: typer.Context, task_id: TaskId, *, flags: ClientFlags) -> None:
    """Cancel a task, and show the state that it has then.

    For example:

      a2a-bridge task cancel -a :8080 TASK-ID
    """
    from a2a_bridge_tools.client.tasks import cancel_task

    cancel_task(context, task_id, flags)


@task.command("list", cls=Command)
@with_flags
def list_(context: typer.Context, *, flags: TaskListFlags) -> None:
    """List tasks, page by page.

    For example:

      a2a-bridge task list -a :8080 --status working --page-size 20
    """
    from a2a_bridge_tools.client.tasks import list_tasks

    list_tasks(context, flags)


@task.command(cls=Command)
@with_flags
def subscribe(context: typer.Context, task_id: TaskId, *, flags: StreamFlags) -> None:
    """Follow a task that is working until it ends or asks for something.

    The whole task comes first. Without --stream, -o json prints the last state of the task only.

    For example:

      a2a-bridge task subscribe -a :8080 TASK-ID --stream -o json
    """
    from a2a_bridge_tools.client.tasks import subscribe_to_task

    subscribe_to_task(context, task_id, flags)


@task.command(cls=Command)
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


card = command_group("card", "Show the card of an agent.")


@card.command("get", cls=Command)
@with_flags
def get_card(context: typer.Context, *, flags: CardGetFlags) -> None:
    """Show the card of an agent: who it is, how it is reached, what it can do.

    For example:

      a2a-bridge card get -a https://agent.example

      a2a-bridge card get -a :8080 --validate -o json
    """
    from a2a_bridge_tools.client.cards import show_card

    show_card(context, flags)


auth = command_group("auth", "Get a token for an agent from its identity provider.")


@auth.callback()
def _keep_the_word_login() -> None:
    """Get a token for an agent from its identity provider."""


@auth.command(cls=Command)
@with_flags
def login(context: typer.Context, *, flags: LoginFlags) -> None:
    """Get a token for an agent, and keep it for later commands.

    The card of the agent names the provider: OAuth 2 or OpenID Connect. With the device flow you approve in
    a browser, on any machine. The token is kept in ~/.config/a2a-cli/tokens.json, which only you can read;
    remove it there.

    For example:

      a2a-bridge auth login -a https://agent.example --client-id me

      a2a-bridge auth login -a https://agent.example --client-id ci --client-secret @secret
    """
    from a2a_bridge_tools.client.logging_in import log_in

    log_in(context, flags)


@with_flags
def chat(context: typer.Context, *, flags: ContinueFlags) -> None:
    """Talk with an agent, message by message. It needs a terminal.

    The context goes along from message to message, and the task as long as it asks for something. An empty
    line is not sent; Ctrl-D, or /quit, ends.

    For example:

      a2a-bridge chat -a :8080
    """
    from a2a_bridge_tools.client.sending import talk

    talk(context, flags)


@with_flags
def compare(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Text of the message; - reads standard input.")] = None,
    *,
    flags: CompareFlags,
) -> None:
    """Send a message over every interface and version of a card, and compare the responses.

    The agent sees the message once for each. Ids and times are not compared. Ends with 1 if answers differ.

    For example:

      a2a-bridge compare -a :8080 "hello"

      a2a-bridge compare -a https://agent.example --replay calls.ndjson -o json
    """
    from a2a_bridge_tools.client.comparing import compare_interfaces

    compare_interfaces(context, text, flags)


@with_flags
def conformance(context: typer.Context, *, flags: ConformanceFlags) -> None:
    """Check a live agent with A2A's conformance documents (ACTS), over each binding of its card.

    Without --suite, a small suite of our own is run, which any agent can pass. Ends with 1 if a test of level
    `must` fails. YAML documents need PyYAML.

    For example:

      a2a-bridge conformance -a :8080

      a2a-bridge conformance -a :8080 --suite A2A/tests/acts --transport GRPC -o json
    """
    from a2a_bridge_tools.client.conforming import check_conformance

    check_conformance(context, flags)


@with_flags
def config_show(
    context: typer.Context,
    command: Annotated[
        Served | None,
        typer.Argument(help="serve or gateway; without one: of client commands.", metavar="COMMAND"),
    ] = None,
    *,
    flags: ShowFlags,
) -> None:
    """Show the effective options: of client commands, with the source of each, or of `serve` and `gateway`.

    Nothing is changed. Secrets are not shown. With COMMAND, --config names its configuration file.

    For example:

      a2a-bridge config show

      a2a-bridge config show gateway --origin --config bridge.toml
    """
    from a2a_bridge.cli.output import data, document

    if command is not None or (flags.env_file is not None and flags.env_file.suffix == ".toml"):
        show_options(context, command, flags.env_file, flags.output, origin=flags.origin)
        return
    found = list(_client_rows(context, flags))
    if flags.output is Output.JSON:
        document({name: {"value": value, "source": source} for name, value, source in found})
    else:
        lines = (f"{name}: {'' if value is None else value} ({source})" for name, value, source in found)
        data("\n".join(lines))


def _client_rows(context: typer.Context, flags: ShowFlags) -> Iterator[tuple[str, Any, str]]:
    """Name, value and source of each option that a variable can set."""
    from a2a_bridge.cli.values import show_value
    from a2a_bridge.core.masking import HIDDEN

    environment = Environment.of(context)
    for name, one in options_of(ShowFlags).items():
        variable = one.variable
        if variable is None or not variable.startswith(CLIENT_PREFIX):
            continue
        value = getattr(flags, name)
        if value and one.described.secret:
            value = HIDDEN
        elif value is not None and not isinstance(value, bool):
            value = show_value(one, getattr(value, "value", value))
            value = str(value) if isinstance(value, Path) else value
        source = getattr(context.get_parameter_source(name), "name", "DEFAULT")
        file = environment.source(variable)
        words = {"COMMANDLINE": "flag", "ENVIRONMENT": f"variable {variable}"}.get(source, "default")
        if source == "DEFAULT_MAP" and file is not None:
            words = f"file {file.path}"
        yield max(one.described.names, key=len), value, words
