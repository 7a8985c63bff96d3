"""The listener for operators: metrics, probes and call counts, on an address of its own; and their gauges.

Rules:
1. It opens before the server and closes after it, so that it can tell that the server starts or drains.
2. It answers everyone who reaches it. Loopback, or a network of operators, is the place for it.
3. It serves documents only: no call reaches an agent over it.
4. Gauges of an agent, a gateway and the process are read from their objects at each scrape.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from a2a_bridge.app.agent import AgentApp
from a2a_bridge.app.gateway import GatewayApp
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import (
    ApplicationHost,
    HostOptions,
    ListenAddress,
    Page,
    http_host,
    operator_options,
)
from a2a_bridge.bindings.memory import MemoryAccount, in_work
from a2a_bridge.bindings.traffic import received_bytes, rejected_connections, rejected_requests, sent_bytes
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.extras import DISTRIBUTION
from a2a_bridge.gateway.failover import Failover
from a2a_bridge.hosting.phases import Phase
from a2a_bridge.middleware.metrics import PREFIX, Gather, label
from a2a_bridge.push.ports import Backlog
from a2a_bridge.stores.ports import Outbox, Store, WriteTotals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_TEXT = "text/plain; charset=utf-8"


class Admin:
    """The listener. address: where it listens."""

    def __init__(self, address: ListenAddress) -> None:
        self.address = address
        self._host_options: HostOptions | None = None
        self._is_draining: Callable[[], bool] = lambda: False

    def started(self, options: HostOptions, is_draining: Callable[[], bool]) -> None:
        """The server is ready. options: of its hosts, which know whether it takes work."""
        self._host_options = options
        self._is_draining = is_draining

    @property
    def has_started(self) -> bool:
        return self._host_options is not None

    def rejection(self) -> A2AError | None:
        """Why the server takes no new work; None while it does."""
        options = self._host_options
        if options is None:
            return A2AError(Reason.UNAVAILABLE, "starting", blame=Blame.SELF)
        if self._is_draining():
            return A2AError(Reason.UNAVAILABLE, "draining", blame=Blame.SELF)
        return options.rejection() if options.rejection is not None else None

    def status(self) -> dict[str, int]:
        """Figures for `/readyz?verbose`."""
        options = self._host_options
        return {} if options is None or options.status is None else dict(options.status())


@asynccontextmanager
async def admin_listener(options: ServeOptions) -> AsyncIterator[Admin | None]:
    """The listener of `options.admin` while the context is open; None without one. Raises OSError."""
    if options.admin is None:
        yield None
        return
    admin = Admin(options.admin)
    host_options = replace(operator_options(options.admin), rejection=admin.rejection, status=admin.status)
    host = http_host(options.admin, host_options)
    metrics, usage = options.metrics, options.usage
    if metrics is not None:

        async def exposition(accept: str) -> Page:
            kind, body = await metrics.exposition(accept)
            return Page(200, kind, body)

        host.show("/metrics", exposition)
    if usage is not None:
        host.publish("/usage", lambda _: dumps(usage.document()))

    async def startup(_accept: str) -> Page:
        return Page(200, _TEXT, b"ok\n") if admin.has_started else Page(503, _TEXT, b"starting\n")

    host.show("/startupz", startup)
    await host.start()
    admin.address = host.address
    try:
        yield admin
    finally:
        await host.drain(0)


class Draining(Protocol):
    """A server, or an application in place of its listeners."""

    admin: ListenAddress | None

    @property
    def draining(self) -> bool:
        """True once it has begun to drain."""
        ...


@asynccontextmanager
async def announce(
    server: Draining,
    options: ServeOptions,
    admin: Admin | None,
    host: ApplicationHost | None,
    gauges: Gather | None,
    *,
    whole: bool = True,
) -> AsyncIterator[None]:
    """Tells the listener for operators that a server is ready, and adds gauges to the metrics, while the
    context is open. admin: that listener, if open. whole: False for one of several agents. Raises OSError.
    """
    async with AsyncExitStack() as stack:
        if admin is None:
            admin = await stack.enter_async_context(admin_listener(options))
        holders = [server] if host is None else [server, host]

        def is_draining() -> bool:
            return any(holder.draining for holder in holders)

        known = admin or Admin(ListenAddress())
        known.started(options.host, is_draining)
        if admin is not None:
            for holder in holders:
                holder.admin = admin.address
        if options.metrics is not None:
            process = process_gauges(lambda: known.rejection() is None) if whole else None
            for source in filter(None, (process, gauges)):
                stack.callback(options.metrics.watch(source))
        if whole and options.authentication is not None:
            # In the background: a provider that is down does not keep the server from starting.
            stack.callback(asyncio.create_task(options.authentication.open(), name="read keys").cancel)
        yield


_AGENT, _BINDING = ("agent",), ("binding",)


def agent_gauges(agent: str, one: AgentApp) -> Gather:
    """The gauges of a hosted agent. agent: its name."""
    name = label(agent)
    #: those that are shown: a scraper of 1,000 agents would get 7,000 zeros of phases in which none ever was
    phases = {Phase.WORKING.value: None}

    async def read() -> Sequence[Metric]:
        runs = list(one.engine.runs)
        counts = Counter(run.phase.value for run in runs)
        phases.update(dict.fromkeys(counts))
        by_phase = {(name, phase): float(counts[phase]) for phase in phases}
        queued = float(sum(max(0, run.backlog) for run in runs))
        return [
            _gauge("runs", "Task runs by what they do now.", by_phase, ("agent", "phase")),
            _gauge(
                "queued_messages", "Messages that wait for the run of their task to end.", _of(name, queued)
            ),
            _gauge(
                "tasks_to_take_over",
                "Tasks of earlier processes that have no new owner yet.",
                _of(name, one.engine.left),
            ),
            *_store(name, one.store),
            *_memory(name, one.store.memory),
            *await _outbox(name, one.store.outbox),
        ]

    return read


def gateway_gauges(agent: str, one: GatewayApp) -> Gather:
    """The gauges of a gateway. agent: the name of the agent behind it."""
    name = label(agent)

    async def read() -> Sequence[Metric]:
        outbox = [] if one.outbox is None else await _outbox(name, one.outbox)
        return [*_upstream(name, one.connections.failover), *_memory(name, one.memory), *outbox]

    return read


def process_gauges(is_ready: Callable[[], bool]) -> Gather:
    """The gauges of a process and of its listeners."""
    build = {(version(DISTRIBUTION), platform.python_version()): 1.0}

    async def read() -> Sequence[Metric]:
        closed = {("http",): rejected_connections["http"]}
        traffic = [
            _counter(what, explanation, {(binding,): count for binding, count in counted.items()}, _BINDING)
            for what, explanation, counted in (
                (
                    "received_bytes",
                    "Bytes of the bodies of requests that this process has read.",
                    received_bytes,
                ),
                (
                    "sent_bytes",
                    "Bytes of the bodies of answers, errors and events that this process has written.",
                    sent_bytes,
                ),
            )
        ]
        return [
            _gauge("build_info", "Always 1.", build, ("version", "python")),
            _gauge("ready", "1 while the server takes new work.", {(): float(is_ready())}, ()),
            _gauge(
                "memory_in_work_bytes",
                "Large requests and answers in work, a part of --max-memory.",
                {(): in_work.held},
                (),
            ),
            _counter(
                "rejected_requests",
                "Requests that were rejected before they became calls: no credentials, no JSON, an unknown"
                " method, too large. An unknown path has no binding.",
                rejected_requests,
                ("binding", "version", "code"),
            ),
            _counter(
                "rejected_connections",
                "HTTP connections beyond --max-connections, closed at once.",
                closed,
                ("family",),
            ),
            *traffic,
        ]

    return read


def _store(name: str, store: Store) -> Iterable[Metric]:
    from prometheus_client.metrics_core import SummaryMetricFamily

    available = float(store.rejection() is None)
    yield _gauge("store_available", "1 while the store can be written.", _of(name, available))
    if (measure := getattr(store, "writes", None)) is not None:
        writes: WriteTotals = measure()
        commits = SummaryMetricFamily(
            f"{PREFIX}store_commit_seconds",
            "Number and duration of the transactions of a database.",
            labels=_AGENT,
        )
        commits.add_metric((name,), writes.commits, writes.seconds)
        yield commits
        text = (
            "Changes that the transactions of a database have written; by their number, the size of a group."
        )
        yield _counter("store_changes", text, _of(name, writes.changes))
        yield _gauge("store_queued_bytes", "Events that wait to be written.", _of(name, writes.queued))


def _memory(name: str, account: MemoryAccount) -> Iterable[Metric]:
    yield _gauge("memory_bytes", "Tasks, events and buffers in memory.", _of(name, account.used))
    yield _gauge(
        "memory_limit_bytes",
        "The limit of --max-memory; above 7/8 of it, new work is rejected.",
        _of(name, account.limit or float("inf")),
    )


async def _outbox(name: str, outbox: Outbox) -> list[Metric]:
    if (count := getattr(outbox, "backlog", None)) is None:
        return []
    try:
        backlog: Backlog = await count()
    except A2AError:  # the store fails, which its own gauge says
        return []
    age = backlog.age or 0.0
    return [
        _gauge(
            "outbox_notifications",
            "Push notifications that wait; with PostgreSQL, of all replicas.",
            _of(name, backlog.pending),
        ),
        _gauge("outbox_oldest_seconds", "Age of the oldest push notification that waits.", _of(name, age)),
        _gauge("dead_letters", "Push notifications that were given up.", _of(name, backlog.dead)),
    ]


def _upstream(name: str, upstreams: Failover) -> list[Metric]:
    found: dict[tuple[str, ...], float] = {}
    paused: dict[tuple[str, ...], float] = {}
    waiting: dict[tuple[str, ...], float] = {}
    for number, upstream in enumerate(upstreams.upstreams, 1):
        reachable = upstream.health.reachable
        interface = upstream.candidate.interface
        key = (name, str(number), interface.protocol_binding, upstream.candidate.dialect.version)
        if reachable is not None or upstream.waiting:
            waiting[key] = float(upstream.waiting)
        if reachable is not None:
            found[key] = float(reachable)
            paused[key] = float(upstreams.is_paused(upstream))
    labels = ("agent", "interface", "binding", "version")
    return [
        _gauge(
            "upstream_reachable",
            "1 if the last call reached the agent at this interface; absent before the first call.",
            found,
            labels,
        ),
        _gauge(
            "upstream_circuit_open",
            "1 while this interface gets no calls because it failed several times in a row.",
            paused,
            labels,
        ),
        _gauge(
            "upstream_waiting_calls",
            "Calls and streams that have no response of the agent at this interface yet.",
            waiting,
            labels,
        ),
        _counter(
            "upstream_retries", "Repeated attempts of calls to the agent.", _of(name, upstreams.retried)
        ),
    ]


def _of(name: str, value: float) -> Mapping[Any, float]:
    return {(name,): value}


def _gauge(
    name: str, explanation: str, values: Mapping[Any, float], labels: Sequence[str] = _AGENT
) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(f"{PREFIX}{name}", explanation, labels=labels), values)


def _counter(
    name: str, explanation: str, values: Mapping[Any, float], labels: Sequence[str] = _AGENT
) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily

    return _filled(CounterMetricFamily(f"{PREFIX}{name}", explanation, labels=labels), values)


def _filled(family: Any, values: Mapping[Any, float]) -> Metric:
    for key, value in values.items():
        family.add_metric(key, value)
    filled: Metric = family
    return filled
