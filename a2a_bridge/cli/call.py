"""`a2a-bridge call`: sends one message to an agent and prints the answer."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from a2a_bridge.cli.options import (
    PREFIX,
    A2aVersion,
    Base64Files,
    BridgeKey,
    Cacert,
    Cert,
    ConnectTimeout,
    CredentialsFor,
    Exact,
    FileSpelling,
    GrpcTls,
    Header,
    Insecure,
    Key,
    Output,
    OutputFormat,
    PeerName,
    TrustCardUrls,
    known_peer,
    parameters,
    tls_files,
    use_bridge_key,
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


def call(
    target: Annotated[
        str, typer.Argument(help="URL, :PORT, host:port (gRPC), card file, file.py[:agent] or module:agent.")
    ],
    text: Annotated[str, typer.Argument(help="Text of the message; - reads standard input.")],
    *,
    stream: Annotated[bool, typer.Option("--stream", help="Print events as they arrive.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Like --stream, and resume after a broken connection."),
    ] = False,
    binding: Annotated[
        str,
        typer.Option(
            metavar="JSONRPC|GRPC|HTTP+JSON|all",
            envvar=PREFIX + "BINDING",
            help="Binding to use; all: call every interface of the card and compare the answers.",
        ),
    ] = "",
    a2a_version: A2aVersion = "",
    peer: PeerName = "",
    base64_files: Base64Files = FileSpelling.AUTO,
    exact: Exact = False,
    task: Annotated[str, typer.Option(metavar="ID", help="Task to continue.")] = "",
    context: Annotated[str, typer.Option(metavar="ID", help="Context to continue.")] = "",
    immediate: Annotated[bool, typer.Option("--immediate", help="Return before the task is done.")] = False,
    bridge_key: BridgeKey = "",
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.001, envvar=PREFIX + "TIMEOUT", help="Time limit of the call."),
    ] = None,
    credentials_for: CredentialsFor = None,
    trust_card_urls: TrustCardUrls = False,
    cacert: Cacert = None,
    insecure: Insecure = False,
    cert: Cert = None,
    cert_key: Key = None,
    grpc_tls: GrpcTls = None,
    connect_timeout: ConnectTimeout = 10.0,
    header: Header = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the frames on stderr, with credentials redacted.")
    ] = False,
    output: OutputFormat = Output.TEXT,
) -> None:
    """Send TEXT to the agent at TARGET and print its answer.

    For example:

      a2a-bridge call :8080 "hello"

      a2a-bridge call localhost:50051 "hello" --stream --follow

      a2a-bridge call https://agent.example "hello" --binding all -o json
    """
    # These imports load protobuf and the transports, which --help and --version do not need.
    from a2a_bridge.bindings import names
    from a2a_bridge.cli.connect import version_of
    from a2a_bridge.cli.message import CallOptions, Outgoing
    from a2a_bridge.cli.output import guarded
    from a2a_bridge.cli.session import converse

    use_bridge_key(bridge_key)
    if text == "cancel" or target == "cancel":
        # The user means the operation of the protocol; an agent would treat the word as a new message.
        raise typer.BadParameter(
            "the command cannot cancel tasks; to send this word as a message, use standard input: "
            "echo cancel | a2a-bridge call TARGET -",
            param_hint="TEXT",
        )
    known = (*names(), "all")
    if binding and binding not in known:
        raise typer.BadParameter(f"{binding!r} is not one of {', '.join(known)}", param_hint="--binding")
    said = Outgoing(
        text=_from_stdin() if text == "-" else text, task=task, context=context, immediate=immediate
    )
    how = CallOptions(
        stream=stream or follow,
        follow=follow,
        binding=binding,
        timeout=timeout,
        connect_timeout=connect_timeout,
        parameters=parameters(header),
        version=version_of(a2a_version),
        peer=known_peer(peer),
        base64_files=base64_files.base64,
        exact=exact,
        credentials_for=frozenset(credentials_for or ()),
        trust_card_urls=trust_card_urls,
        tls=tls_files(cacert, cert, cert_key, insecure=insecure),
        grpc_tls=grpc_tls,
        verbose=verbose,
        output=output,
    )
    with guarded(target, output):
        raise typer.Exit(asyncio.run(converse(target, said, how)))
