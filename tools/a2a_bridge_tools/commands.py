"""The commands `server` (a demo agent), `ui` (the playground) and `skill` (files for coding agents). `--help`
loads this module, so it imports nothing but declarations of flags.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.flags import DialFlags, Output, OutputFlags
from a2a_bridge.cli.output import data, document, fail, guard
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.server_flags import LogLevel, LoopKind, ServeFlags, ServerFlags
from a2a_bridge.cli.values import Exit
from a2a_bridge.core.options import flag, of

_AGENT = "a2a_bridge_tools.demo_agent:agent"


@dataclass(frozen=True, kw_only=True)
class DemoFlags:
    """The flags of `server`."""

    http: str = of(ServeFlags, "http", help="Listen here for JSON-RPC and HTTP+JSON.")
    grpc: str = of(ServeFlags, "grpc", help="Listen here for gRPC.")
    push_allow: list[str] | None = of(
        ServeFlags,
        "push_allow",
        help="Allow webhooks at this private host or network; default: this machine. May be repeated.",
    )
    ui: bool = of(
        ServeFlags, "ui", help="Serve the playground, a page to call and inspect the agent, on this machine."
    )
    ui_listen: str = of(ServeFlags, "ui_listen", help="Address of --ui.")
    log_level: LogLevel = of(ServeFlags, "log_level", live=False)


@with_flags
def server(*, flags: DemoFlags) -> None:
    """Serve a demo agent over every binding, to practise on. It repeats what it hears.

    A text that begins with a prefix of A2A's conformance documents asks for another behaviour:
    tck-complete-task, tck-input-required, tck-auth-required, tck-reject-task, tck-message-response,
    tck-artifact-text, tck-artifact-file, tck-artifact-file-url, tck-artifact-data, tck-long-running,
    tck-multi-turn (takes answers until one is "done"), tck-cancel, tck-stream-basic, tck-stream-chunked,
    tck-task-failure. Tasks are kept in memory.

    For example:

      a2a-bridge server --ui

      a2a-bridge send -a :8080 "tck-input-required"
    """
    from a2a_bridge.cli.log_setup import configure_logging
    from a2a_bridge.cli.serve import serve_one

    webhooks = flags.push_allow or ["127.0.0.0/8", "::1"]
    served = ServeFlags(**{**vars(flags), "push_allow": webhooks, "store": "memory://"})
    configure_logging(served)
    serve_one(_AGENT, served)


@dataclass(frozen=True, kw_only=True)
class UiFlags(DialFlags):
    """The flags of `ui`."""

    listen: str = flag(
        "127.0.0.1:0",
        "Listen here for the browser; everyone who has the token can call the agent.",
        "HOST:PORT",
        variable="",
        group="Process",
    )
    log_level: LogLevel = of(ServeFlags, "log_level", live=False)


@with_flags
def ui(
    target: Annotated[
        str, typer.Argument(help="URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent.")
    ],
    *,
    flags: UiFlags,
) -> None:
    """Serve the playground for the agent at TARGET: a page to call it over several bindings at once.

    The command prints one line when it is ready: ready ui=http://HOST:PORT/?token=TOKEN

    For example:

      a2a-bridge ui http://localhost:9999

      a2a-bridge ui https://agent.example -H 'Authorization: @token.txt'

      a2a-bridge ui weather.py
    """
    from a2a_bridge.cli.log_setup import configure_logging
    from a2a_bridge.cli.running import run_on
    from a2a_bridge.cli.target import parse
    from a2a_bridge_tools.playground.launch import serve_playground

    configure_logging(ServerFlags(log_level=flags.log_level))
    with guard(target):
        run_on(LoopKind.AUTO, serve_playground(parse(target), flags, flags.listen))


skill = command_group("skill", "Install the Agent Skill, with which coding agents use this command.")

#: where agents look for skills, below a project or a home
PLACE = Path(".agents") / "skills" / "a2a-bridge"


@skill.command(cls=Command)
@with_flags
def install(
    folder: Annotated[
        Path, typer.Argument(help="The project, or a home; default: here.", metavar="DIR")
    ] = Path(),
    *,
    flags: OutputFlags,
) -> None:
    """Install the skill into DIR/.agents/skills/a2a-bridge, in place of an older one.

    Links that lead out of DIR are rejected; a link in the place of a file is replaced.

    For example:

      a2a-bridge skill install ~
    """
    target = folder / PLACE
    written = []
    try:
        with as_file(files("a2a_bridge_tools") / "skill_files") as source:
            for file in sorted(source.rglob("*.md")):
                path = target / file.relative_to(source)
                # A project that somebody else made can have links there.
                if not path.parent.resolve().is_relative_to(folder.resolve()):
                    raise fail(Exit.USAGE, f"{path.parent} leads out of {folder}", "another DIR")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_bytes(file.read_bytes())
                written.append(str(path))
    except OSError as error:
        raise fail(Exit.USAGE, f"{target} cannot be written: {error.strerror}", "another DIR") from None
    if flags.output is Output.JSON:
        document({"files": written})
    else:
        data("\n".join(f"Saved: {one}" for one in written))
