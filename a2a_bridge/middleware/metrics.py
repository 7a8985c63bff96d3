"""Metrics of one server in the data model of Prometheus: its calls, and the calls of its client sides.

Rules:
1. Labels are bounded sets. No id, principal or URL is a label, and no text that a caller or an agent chooses,
   except the name in the agent's card, which is cut.
2. Existing counts are not kept here once more: gauges read them at each scrape (`Metrics.watch`).
3. A scrape does not hold the event loop, however many agents there are: gauges are read a few at a time, and
   the text is made in a thread.
4. A server without `Metrics` has no middleware for them, and does not load prometheus-client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Any

from a2a_bridge.core.call import Call
from a2a_bridge.core.extras import load
from a2a_bridge.core.operations import ALL, Req, Res
from a2a_bridge.core.service import Event, Events, Middleware, Service
from a2a_bridge.middleware.logging import LONGEST, OK, code_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

logger = logging.getLogger(__name__)

#: reads gauges at the time of a scrape
Gather = Callable[[], Awaitable[Sequence["Metric"]]]

#: the start of all names
PREFIX = "a2a_bridge_"
#: upper bounds in seconds: agents answer in milliseconds or in minutes
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
#: seconds that the gauges of one source may take
_PATIENCE = 2.0
#: sources that are read in one turn of the event loop
_BATCH = 50
#: stands for operations that are not of A2A
OTHER = "other"

_KNOWN = frozenset(operation.name for operation in ALL)
_CALL = ("agent", "binding", "version", "operation")


class Metrics:
    """The metrics of one server, for `ServeOptions.metrics`; `ServeOptions.admin` makes one, too.

    registry: of the application, if the application publishes it; else a registry of its own, with the
    metrics of the process. Raises MissingExtraError without prometheus-client.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        prometheus = load("prometheus_client", "server")  # only servers with metrics load it
        self._prometheus = prometheus
        if registry is None:
            registry = prometheus.CollectorRegistry()
            prometheus.ProcessCollector(registry=registry)
            prometheus.GCCollector(registry=registry)
        self.registry = registry
        self._sources: list[Gather] = []
        self._gathered: list[Metric] = []
        self._serving = _Instruments(registry, "", "")
        self._calling = _Instruments(registry, "upstream_", " to the agent behind the gateway")
        registry.register(_Gathered(lambda: self._gathered))

    def server_middleware(self, agent: str) -> Middleware:
        """Middleware for the calls that an agent is asked. agent: its name."""
        return self._middleware(self._serving, label(agent), None)

    def client_middleware(self, agent: str, binding: str, version: str) -> Middleware:
        """Middleware for the calls of a client side, each attempt a call. agent: its name."""
        return self._middleware(self._calling, label(agent), (binding, version))

    def watch(self, source: Gather) -> Callable[[], None]:
        """Adds gauges. Returns the function that removes them."""
        self._sources.append(source)
        return lambda: self._sources.remove(source)

    async def refresh(self) -> None:
        """Reads all gauges anew. A source that fails or takes too long has none this time."""
        reading = []
        for number, source in enumerate(tuple(self._sources), 1):
            reading.append(asyncio.create_task(self._read(source)))
            if not number % _BATCH:
                await asyncio.sleep(0)
        found = await asyncio.gather(*reading)
        metrics = [metric for each in found for metric in each]
        self._gathered = await asyncio.to_thread(merge, metrics)

    async def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and text for a scraper. accept: its header Accept."""
        await self.refresh()
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(accept)
        return kind, await asyncio.to_thread(encode, self.registry)

    async def _read(self, source: Gather) -> Sequence[Metric]:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await source()
        except Exception:
            logger.exception("some gauges cannot be read")
            return ()

    def _middleware(self, instruments: _Instruments, agent: str, cell: tuple[str, str] | None) -> Middleware:
        return lambda service: _Measured(service, instruments, agent, cell)


def label(agent: str) -> str:
    """The name of an agent as the value of a label."""
    return "".join(character if character.isprintable() else "�" for character in agent)[:LONGEST]


def merge(metrics: Iterable[Metric]) -> list[Metric]:
    """Metrics of several sources, each name once with all its samples. Of two samples with the same labels
    the last counts: an agent that is replaced and its successor are both there for a moment.
    """
    found: dict[str, Metric] = {}
    samples: dict[str, dict[object, Any]] = {}
    for metric in metrics:
        found.setdefault(metric.name, metric)
        labelled = samples.setdefault(metric.name, {})
        labelled.update({(one.name, *one.labels.values()): one for one in metric.samples})
    for name, metric in found.items():
        metric.samples = list(samples[name].values())
    return list(found.values())


class _Gathered:
    """The collector of the gauges."""

    def __init__(self, gathered: Callable[[], Iterable[Metric]]) -> None:
        self._gathered = gathered

    def collect(self) -> Iterable[Metric]:
        return self._gathered()

    def describe(self) -> Iterable[Metric]:
        return ()


class _Instruments:
    """The metrics of one side. which: part of their names. whose: part of their explanations."""

    def __init__(self, registry: CollectorRegistry, which: str, whose: str) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        def name(of: str) -> str:
            return f"{PREFIX}{which}{of}"

        def histogram(of: str, explanation: str) -> Histogram:
            return Histogram(name(of), explanation, _CALL, registry=registry, buckets=DURATIONS)

        self.requests = Counter(
            name("requests"), f"Finished calls{whose}, by outcome.", (*_CALL, "code"), registry=registry
        )
        self.duration = histogram(
            "request_duration_seconds", f"Duration of calls{whose}; of a stream, until its end."
        )
        self.first = histogram("stream_first_event_seconds", f"Time to the first event of streams{whose}.")
        interval = f"Time until the next event of streams{whose}, without the time of the reader."
        self.interval = histogram("stream_event_interval_seconds", interval)
        self.open = Gauge(name("streams_open"), f"Open streams{whose}.", _CALL, registry=registry)


class _Cell:
    """The metrics of one operation in one binding and version."""

    __slots__ = ("_codes", "_instruments", "_labels", "duration", "first", "interval", "open")

    def __init__(self, instruments: _Instruments, labels: tuple[str, str, str, str]) -> None:
        self._instruments = instruments
        self._labels = labels
        self._codes: dict[str, Any] = {}
        self.duration = instruments.duration.labels(*labels)
        self.first: Any = None
        self.interval: Any = None
        self.open: Any = None

    def streams(self) -> None:
        """Makes the metrics of streams."""
        if self.first is None:
            labels = self._labels
            self.first = self._instruments.first.labels(*labels)
            self.interval = self._instruments.interval.labels(*labels)
            self.open = self._instruments.open.labels(*labels)

    def count(self, code: str, seconds: float) -> None:
        counter = self._codes.get(code)
        if counter is None:
            counter = self._codes[code] = self._instruments.requests.labels(*self._labels, code)
        counter.inc()
        self.duration.observe(seconds)


class _Measured:
    def __init__(
        self, service: Service, instruments: _Instruments, agent: str, cell: tuple[str, str] | None
    ) -> None:
        self._service = service
        self._instruments = instruments
        self._agent = agent
        self._fixed = cell
        self._cells: dict[tuple[str, str, str], _Cell] = {}

    def _cell(self, call: Call[Any, Any]) -> _Cell:
        operation = call.operation.name
        if self._fixed is not None:
            binding, version = self._fixed
        else:
            origin = call.context.origin
            binding, version = origin.binding, origin.version
        key = (binding, version, operation)
        found = self._cells.get(key)
        if found is None:
            known = operation if operation in _KNOWN else OTHER
            labels = (self._agent, binding or "in-process", version, known)
            found = self._cells[key] = _Cell(self._instruments, labels)
        return found

    async def unary(self, call: Call[Req, Res], /) -> Res:
        cell = self._cell(call)
        began = perf_counter()
        try:
            response = await self._service.unary(call)
        except BaseException as error:
            cell.count(code_of(error), perf_counter() - began)
            raise
        cell.count(OK, perf_counter() - began)
        return response

    async def stream(self, call: Call[Req, Res], /) -> Events:
        cell = self._cell(call)
        cell.streams()
        began = before = perf_counter()
        last: Event | None = None
        code = ""
        cell.open.inc()
        try:
            async with aclosing(self._service.stream(call)) as events:
                async for event in events:
                    now = perf_counter()
                    (cell.interval if last is not None else cell.first).observe(now - before)
                    last = event
                    yield event
                    # The time that the reader takes is not the agent's.
                    before = perf_counter()
            code = OK
        except BaseException as error:
            code = code_of(error, last)
            raise
        finally:
            cell.open.dec()
            cell.count(code, perf_counter() - began)
