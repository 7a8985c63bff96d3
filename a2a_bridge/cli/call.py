"""`a2a-bridge call`: sends one message to an agent and prints the answer."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from a2a_bridge.cli.flags import AgentFlags, BridgeKeyFlags, OutputFlags, flag, with_flags
from a2a_bridge.cli.options import check_binding, use_bridge_key


@dataclass(frozen=True, kw_only=True)
class CallFlags(AgentFlags, BridgeKeyFlags, OutputFlags):
    """The flags of `call`."""

    stream: bool = flag(False, "Print events as they arrive.", variable="")
    follow: bool = flag(False, "Like --stream, and resume after a broken connection.", variable="")
    binding: str = flag(
        "",
        "Binding to use; all: call every interface of the card and compare the answers.",
        "JSONRPC|GRPC|HTTP+JSON|all",
    )
    task: str = flag("", "Task to continue.", "ID", variable="")
    context: str = flag("", "Context to continue.", "ID", variable="")
    immediate: bool = flag(False, "Return before the task is done.", variable="")
    timeout: float | None = flag(None, "Time limit of the call.", "SECONDS", least=0.001)
    verbose: bool = flag(
        False, "Print the frames on stderr, with credentials redacted.", None, "-v", "--verbose", variable=""
    )


def _from_stdin() -> str:
    """Standard input without its last line end. Raises typer.BadParameter."""
    octets = sys.stdin.buffer.read()
    try:
        text = octets.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"standard input is not UTF-8 (byte {error.start})", param_hint="TEXT"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


@with_flags
def call(
    target: Annotated[
        str, typer.Argument(help="URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent.")
    ],
    text: Annotated[str, typer.Argument(help="Text of the message; - reads standard input.")],
    *,
    flags: CallFlags,
) -> None:
    """Send TEXT to the agent at TARGET and print its answer.

    For example:

      a2a-bridge call :8080 "hello"

      a2a-bridge call localhost:50051 "hello" --stream --follow

      a2a-bridge call https://agent.example "hello" --binding all -o json
    """
    # These imports load protobuf and the transports, which --help and --version do not need.
    from a2a_bridge.cli.connect import dial_options, version_of
    from a2a_bridge.cli.frames import show
    from a2a_bridge.cli.message import CallOptions, Outgoing
    from a2a_bridge.cli.output import guarded
    from a2a_bridge.cli.session import converse

    use_bridge_key(flags.bridge_key)
    if text == "cancel" or target == "cancel":
        # The user means the operation of the protocol; an agent would treat the word as a new message.
        raise typer.BadParameter(
            "the command cannot cancel tasks; to send this word as a message, use standard input: "
            "echo cancel | a2a-bridge call TARGET -",
            param_hint="TEXT",
        )
    check_binding(flags.binding, "all")
    outgoing = Outgoing(
        text=_from_stdin() if text == "-" else text,
        task=flags.task,
        context=flags.context,
        immediate=flags.immediate,
    )
    dial = dial_options(flags)
    # Whatever the header is called, its value may be a secret.
    observer = partial(show, secret=dial.parameters.keys()) if flags.verbose else None
    call_options = CallOptions(
        dial=replace(dial, timeout=flags.timeout, frame_observer=observer),
        binding=flags.binding,
        version=version_of(flags.a2a_version),
        stream=flags.stream or flags.follow,
        follow=flags.follow,
        timeout=flags.timeout,
        output=flags.output,
    )
    with guarded(target, flags.output):
        raise typer.Exit(asyncio.run(converse(target, outgoing, call_options)))
