"""`--workers N` and `serve --reload`: processes behind the same addresses, and their supervisor.

Rules:
1. The supervisor serves nothing. It binds the addresses, starts the same command once per worker, and prints
   the ready line when all workers are ready.
2. Each worker has its own HTTP listener with SO_REUSEPORT. It listens once the worker is ready, and the
   supervisor keeps it open: connections that wait for a worker that ends are accepted by its successor. A
   single worker has such a listener for gRPC, too. Several let grpcio open theirs, also with SO_REUSEPORT.
3. A worker that ends is replaced. SIGHUP starts successors with the code and the configuration on disk, if it
   is valid, and drains each worker once its successor is ready. New access rules count in all workers at
   once, beside the old rules.
4. SIGTERM and SIGINT drain all workers. The supervisor closes its copies of the listeners, so that each
   worker accepts what waits in its own and then really closes it, as a server without workers does.
5. A worker whose supervisor has died drains and ends.
6. With `serve --reload`, a change of the agent's code is a SIGHUP. The successor of a single worker loads the
   agent first: code that cannot be loaded ends nothing. With a store that belongs to one process, it then
   waits for the end of the worker before it; new connections wait with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.cli.loopback_bus import loopback_bus
from a2a_bridge.cli.output import cannot_listen, data, fail, print_message
from a2a_bridge.cli.server_flags import RuleSettings, ServerFlags
from a2a_bridge.cli.values import Exit, listen_address, usage_error
from a2a_bridge.cli.worker import LOADED, SUCCEEDED, TURN, VARIABLE, Worker
from a2a_bridge.core.options import PREFIX, options_of

if TYPE_CHECKING:
    from pathlib import Path

    from a2a_bridge.cli.reload import Reloader

logger = logging.getLogger(__name__)

_STOP = (signal.SIGINT, signal.SIGTERM)
#: options of the supervisor itself: it cannot give others to successors
_OF_SUPERVISOR = frozenset(
    {
        *("http", "grpc", "no_http", "no_grpc", "admin", "server", "workers"),
        *("timeout_graceful_shutdown", "bridge_key"),
    }
)
#: seconds after the grace in which a worker ends by itself; after them it is killed
_LAST = 15.0
#: seconds before the next attempt after a worker failed to start: the first and the longest
_BACKOFF, _LONGEST = 0.5, 30.0
#: a worker that ends sooner than this after its start is not replaced at once (seconds)
_SOON = 5.0


def is_requested(count: int, code: Path | None = None) -> bool:
    """Whether this process has to be the supervisor of workers. count: of workers. code: the folder of code
    that is watched.
    """
    return (count > 1 or code is not None) and Worker.of_environment() is None


_ONE_PROCESS = "a SQLite file belongs to one process"


def is_of_one_process(store: str) -> bool:
    """Whether one process at a time can have a store open."""
    return not store.startswith(("memory:", "postgresql:"))


def check_store(store: str) -> None:
    """Checks that several processes can serve with this store; warns for memory. Raises typer.Exit."""
    if store.startswith("memory:"):
        logger.warning(
            "each worker keeps its own tasks in memory, and a call may reach any worker: a task is often not"
            " found again. This is for agents that answer with messages only"
        )
    elif is_of_one_process(store):
        raise fail(
            Exit.USAGE,
            f"--workers: {_ONE_PROCESS}",
            "--store postgresql://…, or --store memory:// for an agent that answers with messages only",
        )


def check_new_store(store: str) -> None:
    """As `check_store`, for a configuration that is read again. Raises typer.BadParameter."""
    if is_of_one_process(store):
        raise usage_error("--store", _ONE_PROCESS)


def _check_counting(flags: ServerFlags) -> None:
    """Raises typer.BadParameter if calls are to be counted: each worker would count its own."""
    for value, flag in ((flags.usage_file, "--usage-file"), (flags.usage_listen, "--usage-listen")):
        if value:
            raise usage_error(flag, "each of several --workers would count its own calls")


def supervise(
    flags: ServerFlags,
    reloader: Reloader | None = None,
    bus: str = "",
    *,
    check: Callable[[Any], None] | None = None,
    code: Path | None = None,
    waits: bool = False,
) -> typer.Exit:
    """Runs this command in workers until SIGINT or SIGTERM; the caller raises the returned exit. bus: the
    binary of a NATS server, over which the workers talk; empty for none. check: raises typer.BadParameter for
    new flags with which no successors can serve. code: a folder; changes of its code start successors. waits:
    whether a worker ends before its successor opens the store. Raises typer.BadParameter if the flags ask to
    count calls.
    """
    if flags.workers > 1:
        _check_counting(flags)
    if not hasattr(socket, "SO_REUSEPORT"):
        flag = "--workers" if flags.workers > 1 else "--reload"
        return fail(Exit.USAGE, f"{flag} needs SO_REUSEPORT, which this system lacks")
    http, grpc = "" if flags.no_http else flags.http, "" if flags.no_grpc else flags.grpc
    try:
        admin = listen_address(flags.admin, "--admin") if flags.admin else None
        supervisor = _Supervisor(
            flags.workers,
            http,
            grpc,
            flags.timeout_graceful_shutdown,
            admin,
            key=flags.bridge_key,
            bus=bus,
            waits=waits,
        )
        supervisor.code = code
        if reloader is not None:
            supervisor.reloader = reloader.for_successors(_OF_SUPERVISOR)
            # What the command checks at the start, before a successor: the workers stay if it fails.
            supervisor.reloader.on_change(lambda _, new: _check_counting(new))
            if check is not None:
                supervisor.reloader.on_change(lambda _, new: check(new))
        with asyncio.Runner() as runner:
            return typer.Exit(runner.run(supervisor.run()))
    except OSError as error:
        return cannot_listen(error)


@dataclass(slots=True, eq=False)
class _Process:
    """A worker that has been started."""

    process: asyncio.subprocess.Process
    channel: socket.socket
    line: str = ""
    since: float = field(default_factory=time.monotonic)
    #: True if another worker has taken its place
    succeeded: bool = False

    def succeed(self) -> None:
        """Lets the worker drain while its successor accepts the connections of the listener."""
        self.succeeded = True
        with suppress(OSError):  # the worker has ended meanwhile
            self.channel.send(SUCCEEDED + b"\n")
        self.signal(signal.SIGTERM)

    async def tell(self, rules: Sequence[RuleSettings]) -> None:
        """Lets the worker have new access rules."""
        names = options_of(RuleSettings)
        text = json.dumps([{name: getattr(one, name) for name in names} for one in rules])
        with suppress(OSError):  # the worker has ended meanwhile
            await asyncio.get_running_loop().sock_sendall(self.channel, text.encode() + b"\n")

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


@dataclass(slots=True, eq=False)
class _Slot:
    """The place of one worker."""

    number: int
    listener: socket.socket | None
    #: None without gRPC, and if there are several workers
    grpc: socket.socket | None = None
    current: _Process | None = None
    #: held while a worker is being started
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class _NotReadyError(Exception):
    """A worker ended before it was ready, or could not be started. code: its exit code; negative: a signal.
    reason: of the system, if the worker could not be started.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(reason or _exit_code(code))
        self.code = code
        self.reason = reason


class _Supervisor:
    """Starts, replaces and ends the workers. Raises OSError for an address that cannot be listened on. http,
    grpc: HOST:PORT, or empty if it is not served. grace: seconds that workers have to drain. admin: host and
    port of the listener for operators, if there is one. key: of all workers; empty for a new key. bus: see
    `supervise`. waits: see there, too.
    """

    def __init__(
        self,
        count: int,
        http: str,
        grpc: str,
        grace: float,
        admin: tuple[str, int] | None = None,
        *,
        key: str = "",
        bus: str = "",
        waits: bool = False,
    ) -> None:
        self._bus = bus
        self._waits = waits
        #: variables for workers, beside the variables of this process
        self._variables: dict[str, str] = {}
        self._grace = grace
        self._admin = admin
        self._has_started = False
        self._http, self._grpc = http, grpc
        listeners: list[socket.socket | None] = [None] * count
        if http:
            first = _bound(http, "--http")
            self._http = _name(first)
            listeners = [first, *(_bound(self._http, "--http", shared=True) for _ in range(count - 1))]
        self._slots = [_Slot(number, listener) for number, listener in enumerate(listeners, 1)]
        if grpc:
            #: of a single worker. It reserves the port for several, and does not listen
            self._grpc_listener = _bound(grpc, "--grpc")
            self._grpc = _name(self._grpc_listener)
            if count == 1:
                self._slots[0].grpc = self._grpc_listener
        #: every process that has not ended, replaced workers included
        self._alive: set[_Process] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: int | None = None
        self._stop = asyncio.Event()
        #: None without a configuration file
        self.reloader: Reloader | None = None
        #: the folder of the code that is watched, if any
        self.code: Path | None = None
        # Workers must open each other's sealed content.
        self._key = key or secrets.token_hex(32)

    async def run(self) -> int:
        """Runs until a signal; the exit code. Raises OSError if --admin cannot be listened on."""
        if not self._bus:
            return await self._run_beside_bus()
        async with loopback_bus(self._bus) as address:
            if address:
                self._variables[PREFIX + "CLUSTER"] = address
            return await self._run_beside_bus()

    async def _run_beside_bus(self) -> int:
        if self._admin is None:
            return await self._run_workers("")
        from a2a_bridge.bindings.binding import ListenAddress  # loads protobuf, as the listener does
        from a2a_bridge.cli.worker_admin import worker_admin

        listen = ListenAddress(*self._admin)
        async with worker_admin(listen, self._places, lambda: self._has_started) as address:
            return await self._run_workers(f" admin=http://{address}")

    def _places(self) -> dict[str, str]:
        """The listeners for operators of the workers that are ready."""
        found = {}
        for slot in self._slots:
            line = slot.current.line if slot.current is not None else ""
            if " admin=" in line:
                found[str(slot.number)] = line.partition(" admin=")[2].split(" ")[0]
        return found

    async def _run_workers(self, admin: str) -> int:
        """admin: the part of the ready line for --admin."""
        loop = asyncio.get_running_loop()
        for number in _STOP:
            loop.add_signal_handler(number, self._on_stop, number)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._run(self._replace_all()))
        if self.reloader is not None and self.reloader.flags.reload:
            self._run(self.reloader.watch(self._replace_all))
        if self.code is not None:
            from a2a_bridge.cli.reload import watch_code  # loads the parser of TOML

            self._run(watch_code(self.code, self._replace_all))
        starting = asyncio.ensure_future(self._start_all())
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([starting, stop], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                line = starting.result().partition(" admin=")[0] + admin
                self._has_started = True
                logger.info("started %d workers as process %d: %s", len(self._slots), os.getpid(), line)
                data(line)
                await stop
        except _NotReadyError as error:
            # A worker that ends by itself says why.
            if error.reason or error.code < 0:
                logger.error("no worker can be started: %s", error)  # noqa: TRY400  a trace adds nothing
            self._on_stop(signal.SIGTERM)
            return await self._wait_ended(error.code)
        finally:
            for task in (starting, stop, *self._tasks):
                task.cancel()
        return await self._wait_ended(0)

    async def _start_all(self) -> str:
        """Starts every worker; returns the ready line. The first starts alone: an error is reported once."""
        first, *others = self._slots
        await self._start(first)
        for outcome in await asyncio.gather(*map(self._start, others), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        return first.current.line if first.current is not None else ""

    async def _start(self, slot: _Slot) -> None:
        """Starts a worker in a slot, and drains its predecessor once it is ready. Raises _NotReadyError."""
        async with slot.lock:
            new = await self._spawn(slot)
            old, slot.current = slot.current, new
            if old is not None and self._stopped is None:  # else it has its signal, and drains
                old.succeed()
            self._run(self._keep(slot, new))

    async def _spawn(self, slot: _Slot) -> _Process:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        passed = [theirs.fileno()]
        passed += [-1 if one is None else one.fileno() for one in (slot.listener, slot.grpc)]
        descriptors = [one for one in passed if one >= 0]
        first = int(slot.number == 1 and not self._has_started)
        addresses = f"{self._http or '-'} {self._grpc or '-'}"
        value = f"{' '.join(map(str, passed))} {addresses} {first} {int(self._waits)}"
        accepted, variables = -1, dict[str, str]()
        rules = self._rules
        try:
            if self.reloader is not None:
                from a2a_bridge.cli.config_file import hand_on  # loads the parser of TOML

                accepted, variables = hand_on(self.reloader.text)
                descriptors.append(accepted)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *sys.orig_argv[1:],
                stdin=asyncio.subprocess.DEVNULL,
                env={
                    **os.environ,
                    **self._variables,
                    **variables,
                    VARIABLE: value,
                    PREFIX + "KEY": self._key,
                },
                pass_fds=descriptors,
                process_group=0,  # Ctrl-C is for the supervisor, which passes it on
            )
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):  # no memory or no process left, or the interpreter is replaced
                raise _NotReadyError(1, str(error)) from None
            raise
        finally:
            theirs.close()
            if accepted >= 0:
                os.close(accepted)
        worker = _Process(process, ours)
        self._alive.add(worker)
        if self._stopped is not None:
            worker.signal(signal.SIGTERM)
        if self._rules != rules:  # meanwhile
            await worker.tell(self._rules)
        line = await self._line(worker)
        if line == LOADED:
            await self._end(slot)
            await asyncio.get_running_loop().sock_sendall(ours, TURN + b"\n")
            line = await self._line(worker)
        worker.line = line.decode()
        return worker

    async def _line(self, worker: _Process) -> bytes:
        """The next line of a worker that starts. Raises _NotReadyError if it ends."""
        line = b""
        while not line.endswith(b"\n"):
            part = await asyncio.get_running_loop().sock_recv(worker.channel, 4096)
            if not part:
                raise _NotReadyError(await self._reap(worker) or 1)
            line += part
        return line.rstrip(b"\n")

    async def _end(self, slot: _Slot) -> None:
        """Drains the worker of a slot to its end; connections wait in the listener for its successor."""
        old, slot.current = slot.current, None
        if old is not None:
            old.succeed()
            await old.process.wait()

    async def _keep(self, slot: _Slot, worker: _Process) -> None:
        """Waits for the end of a worker, and replaces it unless the end was requested."""
        code = await self._reap(worker)
        if self._stopped is not None or slot.current is not worker:
            return
        logger.warning(
            "worker %d (pid %d) ended with %s; another one is started",
            slot.number,
            worker.process.pid,
            _exit_code(code),
        )
        wait = _BACKOFF
        if time.monotonic() - worker.since < _SOON:
            await asyncio.sleep(wait)
        while slot.current is worker:
            try:
                await self._start(slot)
            except _NotReadyError as error:
                self._reject(slot)
                logger.error("worker %d does not start (%s); next attempt in %g s", slot.number, error, wait)  # noqa: TRY400
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST)

    def _reject(self, slot: _Slot) -> None:
        """Ends the connections that wait for a worker which does not start."""
        if slot.listener is not None:
            slot.listener.close()
            slot.listener = _bound(self._http, "--http", shared=True)
        if slot.grpc is not None:
            slot.grpc.close()
            slot.grpc = _bound(self._grpc, "--grpc", shared=True)

    async def _reap(self, worker: _Process) -> int:
        code = await worker.process.wait()
        self._alive.discard(worker)
        worker.channel.close()
        return code

    async def _hand_over(self, slot: _Slot) -> None:
        try:
            await self._start(slot)
        except _NotReadyError as error:
            if slot.current is not None:
                logger.error("worker %d has no successor (%s) and goes on", slot.number, error)  # noqa: TRY400
                return
            self._reject(slot)
            logger.error("worker %d does not start (%s); the next change starts it", slot.number, error)  # noqa: TRY400

    async def _wait_ended(self, code: int) -> int:
        """Waits until every worker has ended; kills the others after a time. The exit code of the command."""
        for slot in self._slots:
            for listener in (slot.listener, slot.grpc):
                if listener is not None:
                    listener.close()
        workers = list(self._alive)
        waiting = [asyncio.ensure_future(self._reap(worker)) for worker in workers]
        if waiting:
            await asyncio.wait(waiting, timeout=self._grace + _LAST)
        for worker in workers:
            worker.signal(signal.SIGKILL)
        codes = [code, *await asyncio.gather(*waiting)]
        # As a shell gives it for a process that was ended by a signal.
        if self._stopped is not None:
            logger.info("stopped, because of %s", signal.Signals(self._stopped).name)
        return next((one if one > 0 else 128 - one for one in codes if one), 0)

    def _on_stop(self, number: int) -> None:
        if self._stopped is not None:
            for worker in self._alive:
                worker.signal(number)
            return
        self._stopped = number
        self._stop.set()
        logger.info("%s: draining for at most %g s", signal.Signals(number).name, self._grace)
        if sys.stderr.isatty():
            print_message("draining; again to end at once")
        for worker in self._alive:
            if not worker.succeeded:  # those drain already, and a second signal would end them at once
                worker.signal(signal.SIGTERM)

    async def _replace_all(self) -> None:
        """Starts successors of all workers, unless the configuration file is not valid."""
        rules = self._rules
        if self._stopped is not None or (self.reloader is not None and not await self.reloader.reload()):
            return
        if self._rules != rules:
            for worker in list(self._alive):
                self._run(worker.tell(self._rules))
        logger.info("%d successors are started", len(self._slots))
        for slot in self._slots:
            self._run(self._hand_over(slot))

    @property
    def _rules(self) -> tuple[RuleSettings, ...]:
        """The access rules of workers that are started now."""
        return () if self.reloader is None else self.reloader.flags.rules

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _exit_code(code: int) -> str:
    """An exit code for the log; with the signal that has ended the process, if one has."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}, {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"exit code {code}, signal {-code}"


def _bound(address: str, flag: str, *, shared: bool = False) -> socket.socket:
    """A socket at HOST:PORT that shares its port. shared: this command has the port already. Otherwise
    another process at this address is an error, also if it would share. Raises OSError, typer.BadParameter.
    """
    host, port = listen_address(address, flag)
    family, kind, number, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    try:
        if not shared:
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
        found = socket.socket(family, kind, number)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(where)
    except OSError as error:
        raise OSError(error.errno, f"{address}: {error.strerror}") from None
    return found


def _name(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
