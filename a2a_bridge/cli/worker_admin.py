"""`--admin` of several `--workers`: the supervisor listens, and asks each worker at its listener on loopback.

Rules:
1. Each sample of a worker gets the label `worker`, the number of its place. Nothing is summed here: the
   counters of a worker that was replaced begin again, which a sum would hide from queries.
2. A worker that does not answer in time is missing in this response, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge.bindings.binding import (
    DialOptions,
    DocumentHost,
    Fetch,
    ListenAddress,
    Page,
    find,
    http_fetch,
    operator_options,
)
from a2a_bridge.core.errors import A2AError
from a2a_bridge.middleware.metrics import merge

logger = logging.getLogger(__name__)

#: seconds that a worker has to answer
_PATIENCE = 2.0
_TEXT = "text/plain; charset=utf-8"

#: the number of the place of each worker that is ready, and the URL of its listener
Places = Callable[[], Mapping[str, str]]


@asynccontextmanager
async def worker_admin(
    listen: ListenAddress, places: Places, has_started: Callable[[], bool]
) -> AsyncIterator[ListenAddress]:
    """Listens for operators; gives the address. has_started: all workers were ready once. Raises OSError."""
    async with http_fetch(DialOptions(connect_timeout=_PATIENCE, resolve=_literal)) as fetch:
        host = cast("DocumentHost", find("JSONRPC").host(listen, operator_options(listen)))
        host.show("/metrics", partial(_metrics, fetch, places))
        host.show("/readyz", partial(_ready, fetch, places))

        async def startup(_accept: str) -> Page:
            return Page(200, _TEXT, b"ok\n") if has_started() else Page(503, _TEXT, b"starting\n")

        host.show("/startupz", startup)
        await host.start()
        try:
            yield host.address
        finally:
            await host.drain(0)


async def _metrics(fetch: Fetch, places: Places, accept: str) -> Page:
    found = await _ask(fetch, places(), "/metrics")
    families = [
        _label(family, number)
        for number, (_, text) in found.items()
        for family in text_string_to_metric_families(text)
    ]
    encode, kind = choose_encoder(accept)
    # The encoder calls no other method of a registry.
    return Page(200, kind, encode(SimpleNamespace(collect=lambda: merge(families))))


async def _ready(fetch: Fetch, places: Places, _accept: str) -> Page:
    """Ready while any worker is ready: connections wait for a worker that is being replaced."""
    known = places()
    found = await _ask(fetch, known, "/readyz")
    ready = sum(status == 200 for status, _ in found.values())
    text = f"{'ok' if ready else 'no worker is ready'}: {ready} of {len(known)} workers\n"
    return Page(200 if ready else 503, _TEXT, text.encode())


async def _ask(fetch: Fetch, known: Mapping[str, str], path: str) -> dict[str, tuple[int, str]]:
    """Status and text of the responses of the workers that answer."""

    async def ask(number: str, url: str) -> tuple[str, tuple[int, str]] | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await fetch(url + path, {})
        except (A2AError, TimeoutError) as error:
            logger.warning(
                "worker %s does not answer %s: %s", number, path, str(error) or "no answer in time"
            )
            return None
        return number, (reply.status, reply.body.decode())

    answers = await asyncio.gather(*(ask(number, url) for number, url in known.items()))
    return dict(answer for answer in answers if answer is not None)


def _label(family: Metric, number: str) -> Metric:
    """A metric of one worker, with the number of its place in each sample."""
    family.samples = [one._replace(labels={**one.labels, "worker": number}) for one in family.samples]
    return family


async def _literal(host: str, _port: int) -> Sequence[str]:
    """Workers are at literal addresses, and no proxy of the environment stands before them."""
    return [host]
