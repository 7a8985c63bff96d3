"""A process as a worker of `--workers` and `serve --reload`. It talks with its supervisor (`workers.py`) in
lines over a socket. A worker that has to wait for its turn sends LOADED once its agent is loaded. Each worker
sends its ready line. The supervisor sends TURN when the turn has come, new access rules, and SUCCEEDED when
the worker has a successor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.cli.server_flags import RuleSettings
from a2a_bridge.cli.values import Exit

if TYPE_CHECKING:
    from a2a_bridge.bindings.binding import InheritedListener

logger = logging.getLogger(__name__)

#: sent to a worker before the SIGTERM that ends it after its successor has started. Other lines are rules
SUCCEEDED = b"succeeded"
#: a worker has loaded its agent, and waits for its turn; then its turn has come
LOADED, TURN = b"loaded", b"turn"
#: set for workers by their supervisor: file descriptors of the channel, and of the HTTP and the gRPC listener
#: or -1; addresses; 1 for the first one, and 1 for one that waits for its turn
VARIABLE = "_A2A_BRIDGE_WORKER"


@dataclass(frozen=True, slots=True)
class Worker:
    """A process as a worker: the sockets and addresses that its supervisor passed to it."""

    #: file descriptor of the connection to the supervisor
    channel: int
    #: None without HTTP
    listener: InheritedListener | None
    #: None without gRPC, and if this worker is one of several, which open their own
    grpc_listener: InheritedListener | None
    #: HOST:PORT with the real ports; empty if it is not served
    http: str
    grpc: str
    #: whether it is the first worker of its supervisor, which does the work that is done once
    is_first: bool
    #: whether it may open its store only when the worker before it has ended
    waits: bool
    #: what the supervisor said before `attach`
    early: list[bytes] = field(default_factory=list)
    #: called with new access rules
    on_rules: list[Callable[[Sequence[RuleSettings]], None]] = field(default_factory=list)

    @classmethod
    @cache
    def of_environment(cls) -> Worker | None:
        """The values that the supervisor passed to this process; None without a supervisor. They are removed
        from the environment, so that a command which the agent starts is no worker.
        """
        value = os.environ.pop(VARIABLE, None)
        if value is None:
            return None
        from a2a_bridge.bindings.binding import (
            InheritedListener,  # loads protobuf, which a supervisor does not need
        )

        *numbers, http, grpc, first, waits = value.split(" ")
        descriptors = [int(number) for number in numbers]
        for descriptor in descriptors:
            if descriptor >= 0:
                os.set_inheritable(descriptor, False)  # not for processes of the agent
        for_http, for_grpc = (InheritedListener(one) if one >= 0 else None for one in descriptors[1:])
        addresses = http.strip("-"), grpc.strip("-")
        return cls(descriptors[0], for_http, for_grpc, *addresses, first == "1", waits == "1")

    def ready(self, line: str) -> None:
        """Tells the supervisor that this worker is ready."""
        os.write(self.channel, f"{line}\n".encode())

    async def turn(self) -> None:
        """Waits until this worker may open its store. Raises typer.Exit if its supervisor is gone."""
        if not self.waits:
            return
        os.write(self.channel, LOADED + b"\n")
        loop, rest = asyncio.get_running_loop(), b""
        readable = asyncio.Event()
        loop.add_reader(self.channel, readable.set)
        try:
            while rest or TURN not in self.early:
                readable.clear()
                await readable.wait()
                part = os.read(self.channel, 65536)
                if not part:
                    raise typer.Exit(Exit.OK)
                *lines, rest = (rest + part).split(b"\n")
                self.early.extend(lines)
        finally:
            loop.remove_reader(self.channel)
        self.early.remove(TURN)

    @contextmanager
    def attach(self) -> Iterator[None]:
        """Listens to the supervisor; once the supervisor is gone, this process gets SIGTERM."""
        loop = asyncio.get_running_loop()
        rest = b""
        for line in self.early:
            self._take(line)

        def on_message() -> None:
            nonlocal rest
            part = os.read(self.channel, 65536)
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self._take(line)
            if part:
                return
            loop.remove_reader(self.channel)
            logger.warning("the supervisor of this worker is gone")
            signal.raise_signal(signal.SIGTERM)

        loop.add_reader(self.channel, on_message)
        try:
            yield
        finally:
            loop.remove_reader(self.channel)

    def _take(self, line: bytes) -> None:
        """Does what the supervisor says."""
        if line == SUCCEEDED:
            for listener in (self.listener, self.grpc_listener):
                if listener is not None:
                    listener.has_successor = True
        else:
            rules = []
            for row in json.loads(line):
                members: dict[str, Any] = {name: tuple(texts) for name, texts in row.items()}
                rules.append(RuleSettings(**members))
            for tell in self.on_rules:
                tell(rules)
