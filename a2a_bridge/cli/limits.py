"""The flags of limits on what callers can make grow, and their defaults. docs/limits.md has all limits."""

from __future__ import annotations

from typing import Annotated

import typer

from a2a_bridge.cli.options import PREFIX

MaxBody = Annotated[
    int,
    typer.Option(metavar="BYTES", min=1, envvar=PREFIX + "MAX_BODY", help="The largest request."),
]
MaxConnections = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_CONNECTIONS",
        help="Most open connections of each listener; 0 for no limit.",
    ),
]
MaxConnectionStreams = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        envvar=PREFIX + "MAX_CONNECTION_STREAMS",
        help="Most open streams of one gRPC connection; unary calls count.",
    ),
]
MaxValues = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_VALUES",
        help="Most JSON values of a request, or as much in protobuf; 0 for no limit.",
    ),
]
MaxParts = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, envvar=PREFIX + "MAX_PARTS", help="Most parts of a message; 0 for no limit."
    ),
]
MaxCalls = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_CALLS",
        help="Most unary calls at once of one principal; 0 for no limit.",
    ),
]
MaxStreams = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_STREAMS",
        help="Most open streams of one principal; 0 for no limit.",
    ),
]
MaxTasks = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_TASKS",
        help="Most tasks of one principal that are worked on at once; 0 for no limit.",
    ),
]
MaxHistory = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar=PREFIX + "MAX_HISTORY",
        help="Most messages of a task before it takes no further one; 0 for no limit.",
    ),
]
MaxMemory = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=0,
        envvar=PREFIX + "MAX_MEMORY",
        help="Most bytes of tasks, events, requests and answers in memory; 0 for no limit.",
    ),
]
#: the defaults of HostOptions, Limits, EngineOptions and StoreOptions, which are not imported for --version; a test compares
MAX_BODY, MAX_VALUES, MAX_PARTS, MAX_CALLS, MAX_STREAMS = 16777216, 100000, 1000, 10000, 10000
MAX_TASKS, MAX_HISTORY, MAX_MEMORY = 10000, 10000, 1073741824
MAX_CONNECTIONS, MAX_CONNECTION_STREAMS = 10000, 1000
