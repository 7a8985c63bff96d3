"""The flags of the limits, and their defaults. docs/limits.md lists all limits."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.options import PREFIX

MaxBody = Annotated[
    int,
    typer.Option(metavar="BYTES", min=1, envvar=PREFIX + "MAX_BODY", help="Largest request."),
]
MaxConnections = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_CONNECTIONS",
        help="Open connections of each listener; 0: no limit.",
    ),
]
MaxConnectionStreams = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        envvar=PREFIX + "MAX_CONNECTION_STREAMS",
        help="Open streams of one gRPC connection, unary calls included.",
    ),
]
MaxValues = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_VALUES",
        help="JSON values in a request, or their equivalent in protobuf; 0: no limit.",
    ),
]
MaxParts = Annotated[
    int,
    typer.Option(metavar="N", min=0, envvar=PREFIX + "MAX_PARTS", help="Parts of a message; 0: no limit."),
]
MaxCalls = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_CALLS",
        help="Concurrent unary calls of one principal; 0: no limit.",
    ),
]
MaxStreams = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_STREAMS",
        help="Open streams of one principal; 0: no limit.",
    ),
]
MaxTasks = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_TASKS",
        help="Running tasks of one principal; 0: no limit.",
    ),
]
MaxHistory = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_HISTORY",
        help="Messages of one task; further ones are refused; 0: no limit.",
    ),
]
MaxMemory = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=0,
        envvar=PREFIX + "MAX_MEMORY",
        help="Memory for tasks, events, requests and answers; 0: no limit.",
    ),
]
#: the defaults of HostOptions, Limits, EngineOptions and StoreOptions, which are not imported for --version;
#: a test compares
MAX_BODY, MAX_VALUES, MAX_PARTS, MAX_CALLS, MAX_STREAMS = 16777216, 100000, 1000, 10000, 10000
MAX_TASKS, MAX_HISTORY, MAX_MEMORY = 10000, 10000, 1073741824
MAX_CONNECTIONS, MAX_CONNECTION_STREAMS = 10000, 1000
