"""The flags of the client commands. A field with the name of a row of `OPTIONS` (`specification.py`) has the
variants and the variable of that row. Flags of the bridge's own,
such as `--cacert`, are shown by `--help-all`.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from a2a_bridge.cli import config
from a2a_bridge.cli.flags import AgentFlags, BridgeKeyFlags, CardTrustFlags, Output
from a2a_bridge.cli.specification import OPTIONS
from a2a_bridge.core.options import CLIENT_PREFIX, flag, of

_T = TypeVar("_T")

#: of secrets on the command line
_VISIBLE = "other users can see it in the process table: prefer"


class EquivalentKind(str, Enum):  # noqa: UP042  Typer shows the members of a str Enum as choices
    """What `--as` prints."""

    CURL = "curl"
    GRPCURL = "grpcurl"
    PYTHON = "python"


def official(
    field: str,
    default: _T,
    explanation: str,
    metavar: str | None = None,
    *,
    group: str = "Agent",
    **more: Any,
) -> _T:
    """An option of the specification. field: its name in `OPTIONS`; the rest as for `flag`."""
    row = OPTIONS[field]
    more |= {"aliases": row.names[1:], "variable": row.variable_name, "group": group, "common": True}
    return flag(default, explanation, metavar, *row.shown, **more)


def ours(
    default: _T,
    explanation: str,
    metavar: str | None = None,
    *names: str,
    variable: str = "",
    **more: Any,
) -> _T:
    """An option that the specification lacks, by default without a variable. The rest: see `flag`."""
    return flag(default, explanation, metavar, *names, variable=variable, common=True, **more)


@dataclass(frozen=True, kw_only=True)
class ClientFlags(AgentFlags, BridgeKeyFlags):
    """The flags of every command that calls an agent."""

    agent_card: str = official(
        "agent_card",
        "",
        "The agent: host, origin, URL of a card, :PORT, card file, grpc://HOST:PORT, file.py.",
        "REF",
    )
    endpoint: str = official(
        "endpoint", "", "URL of the agent, without a card; needs one --transport.", "URL"
    )
    transport: list[str] | None = official(
        "transport",
        None,
        "Preferred binding (JSONRPC, HTTP+JSON, GRPC), in order; default: the first of the card.",
        "BINDING",
    )
    a2a_version: str = official(
        "a2a_version",
        "",
        "Protocol version; default: the newest of the card that is known, and never below 1.0.",
        "VERSION",
    )
    bearer: str = official(
        "bearer", "", f"Bearer token; {_VISIBLE} A2ACLI_BEARER, or @FILE.", "TOKEN|@FILE", secret=True
    )
    api_key: str = official(
        "api_key", "", f"API key; {_VISIBLE} A2ACLI_API_KEY, or @FILE.", "KEY|@FILE", secret=True
    )
    header: list[str] | None = official(
        "svc_param",
        None,
        "Service parameter (HTTP header, gRPC metadata) of every request; may be repeated.",
        "KEY:VALUE|KEY:@FILE",
        secret=True,
    )
    extension: list[str] | None = ours(
        None, "Declare that you know this extension of A2A; may be repeated.", "URI", group="Agent"
    )
    insecure: bool = official("insecure", False, "Do not verify certificates; for development only.")
    timeout: float | None = official(
        "timeout",
        None,
        "Time limit of the whole command; default: none.",
        "SECONDS",
        group="Result",
        least=0.001,
    )
    output: Output = official("output", Output.TEXT, "Format on stdout.", group="Result")
    verbose: bool = official("verbose", False, "Show everything of messages and tasks.", group="Result")
    debug: bool = official(
        "debug", False, "Show the frames on the wire on stderr, without credentials.", group="Result"
    )
    as_command: EquivalentKind | None = ours(
        None, "Print the equivalent command or program, and send nothing.", None, "--as", group="Result"
    )
    dry_run: bool = ours(False, "Print the request, and send nothing.", group="Result")
    record: Path | None = ours(None, "Record calls and frames in this file (NDJSON).", "FILE", group="Result")
    env_file: Path | None = official(
        "env_file",
        None,
        "Read options from this .env file instead of the nearest one.",
        "FILE",
        group="Result",
    )


@dataclass(frozen=True, kw_only=True)
class WaitFlags(ClientFlags):
    """The flags of commands that wait for a task."""

    poll_interval: float = official(
        "poll_interval",
        2.0,
        "Longest time between two reads of a task; it grows to 30 s while the task does not change.",
        "SECONDS",
        group="Task",
        least=0.05,
    )
    silence_timeout: float = flag(
        600.0,
        "Time without a change of the task after which the command ends, unless an unbroken stream shows that"
        " the agent is there. 0 for ever.",
        "SECONDS",
        variable="",
        least=0,
        group="Task",
    )


@dataclass(frozen=True, kw_only=True)
class CardGetFlags(ClientFlags, CardTrustFlags):
    """The flags of `card get`."""

    validate: bool = official("validate", False, "Check the card against the schema of A2A.", group="Result")
    extended: bool = official(
        "extended", False, "Get the extended card, with your credentials.", group="Result"
    )


@dataclass(frozen=True, kw_only=True)
class StreamFlags(WaitFlags):
    """The flags of commands that can show a task as it goes on."""

    stream: bool = official(
        "stream", False, "Show events as they arrive; with -o json one a line.", group="Result"
    )
    save_fileparts: Path | None = official(
        "save_fileparts", None, "Save the files of the answer in this folder.", "DIR", group="Result"
    )


@dataclass(frozen=True, kw_only=True)
class ContinueFlags(StreamFlags):
    """The flags of commands that send messages."""

    context_id: str = official("context_id", "", "Context to continue.", "ID", group="Task")
    task_id: str = official("task_id", "", "Task to continue.", "ID", group="Task")
    metadata: str = official(
        "metadata", "", "Metadata of the request, a JSON object.", "JSON", group="Message"
    )


@dataclass(frozen=True, kw_only=True)
class SendFlags(ContinueFlags):
    """The flags of `send`."""

    text_part: list[str] | None = official(
        "text_part", None, "A part with text; may be repeated, like the next two.", "TEXT", group="Message"
    )
    file_part: list[str] | None = official(
        "file_part", None, "A part with a file, or with the URL of one.", "PATH|URL", group="Message"
    )
    data_part: list[str] | None = official(
        "data_part",
        None,
        "A part with the JSON of a file; - reads standard input.",
        "FILE|-|JSON",
        group="Message",
    )
    media_type: list[str] | None = official(
        "media_type", None, "Media type of the part before it.", "TYPE", group="Message"
    )
    return_immediately: bool = official(
        "return_immediately", False, "Return as soon as the task exists.", group="Task"
    )
    wait: bool = official(
        "wait", False, "Wait until the task ends or asks for something. The default.", group="Task"
    )
    check: bool = ours(
        False,
        "Exit with 10 to 13 if the task is failed, rejected or canceled, or asks for something.",
        group="Task",
    )
    quiet: bool = ours(
        False,
        "Print the answer alone, without ids and states, and no notes on stderr but errors.",
        None,
        "--quiet",
        "-q",
        group="Result",
    )


@dataclass(frozen=True, kw_only=True)
class TaskGetFlags(WaitFlags):
    """The flags of `task get`."""

    history: int | None = official(
        "history", None, "Show the newest messages of the task, as many as this.", "N", group="Task", least=0
    )
    wait: bool = official(
        "wait", False, "Look again until the task ends or asks for something.", group="Task"
    )


@dataclass(frozen=True, kw_only=True)
class TaskListFlags(ClientFlags):
    """The flags of `task list`."""

    context_id: str = official("context_id", "", "Only tasks of this context.", "ID", group="Task")
    status: str = ours("", "Only tasks in this state, such as working.", "STATE", group="Task")
    page_size: int | None = ours(None, "Tasks of a page.", "N", group="Task", least=1)
    page_token: str = ours(
        "", "The page to begin with: `Next page` of the one before.", "TOKEN", group="Task"
    )
    all_pages: bool = ours(False, "Get the pages that follow, too.", None, "--all", group="Task")


@dataclass(frozen=True, kw_only=True)
class DownloadFlags(ClientFlags):
    """The flags of `task download`."""

    output_dir: Path = ours(Path(), "Folder for the artifacts; it is made.", "DIR", group="Task")
    overwrite: bool = ours(False, "Overwrite files.", group="Task")


@dataclass(frozen=True, kw_only=True)
class PushConfigFlags(ClientFlags):
    """The flags of `task push-config create`."""

    url: str = ours("", "The webhook.", "URL", group="Task")
    config_id: str = ours("", "Id of the configuration; default: the agent's.", "ID", group="Task")
    token: str = ours("", "Token that each notification carries.", "TOKEN|@FILE", group="Task", secret=True)
    listen: str = ours("", "Be the webhook: listen here and print what arrives.", "HOST:PORT", group="Task")
    listen_url: str = ours("", "URL of --listen for the agent; default: as it listens.", "URL", group="Task")


@dataclass(frozen=True, kw_only=True)
class CompareFlags(ClientFlags):
    """The flags of `compare`."""

    stream: bool = official("stream", False, "Compare the events of streams.", group="Result")
    replay: Path | None = ours(
        None, "Send the calls of this record instead of TEXT.", "FILE", group="Message"
    )


@dataclass(frozen=True, kw_only=True)
class ShowFlags(SendFlags):
    """The flags of `config show`."""

    origin: bool = of(config.ShowFlags, "origin", group="Result", common=True)


class LoginFlow(str, Enum):  # noqa: UP042
    """The ways of OAuth to a token."""

    DEVICE = "device"
    CLIENT_CREDENTIALS = "client-credentials"


@dataclass(frozen=True, kw_only=True)
class LoginFlags(ClientFlags):
    """The flags of `auth login`."""

    flow: LoginFlow | None = ours(
        None, "The flow; default: client-credentials with --client-secret, else device."
    )
    client_id: str = ours("", "Your client id at the provider.", "ID", variable=f"{CLIENT_PREFIX}CLIENT_ID")
    client_secret: str = ours(
        "",
        f"Your client secret; {_VISIBLE} A2ACLI_CLIENT_SECRET, or @FILE.",
        "SECRET|@FILE",
        variable=f"{CLIENT_PREFIX}CLIENT_SECRET",
        secret=True,
    )
    scope: list[str] | None = ours(
        None, "Scope to ask for; may be repeated. Default: all that the card names.", "SCOPE"
    )
    issuer: str = ours("", "Provider (OpenID Connect, OAuth 2); default: the one of the card.", "URL")
    resource: str = ours("", "Agent that the token is for, as the provider names it (RFC 8707).", "URI")


@dataclass(frozen=True, kw_only=True)
class ConformanceFlags(ClientFlags):
    """The flags of `conformance`."""

    suite: Path | None = ours(None, "Documents to run: a file, or a folder with *.acts.yaml.", "PATH")
    only: list[str] | None = ours(None, "Only tests whose id begins so; may be repeated.", "ID")
