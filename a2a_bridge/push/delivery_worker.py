"""Delivers the notifications of an outbox: at least once, in order per config, independently per receiver.

Rules:
1. 2xx acknowledges. Redirects and rejections (4xx except 408, 409, 425, 429) are final: dead letters. All
   other failures are retried after `pause`, or after the time of Retry-After.
2. A notification for a target with an open circuit waits; that counts as no attempt. Once a target has failed
   for longer than `age`, its pending notifications get one attempt each and then become dead letters.
3. The last quarter of the slots is for targets without a delivery in progress, so that slow targets with many
   notifications leave some to the others.
4. Reports to the outbox are repeated until they succeed. If the process dies before, or cannot report, the
   notification is sent twice, with the same `webhook-id`.
5. Logs name hosts and tasks. They contain no paths, tokens and texts of receivers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial

from cachetools import FIFOCache

from a2a_bridge.bindings.binding import DialOptions, Post, http_post
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.circuit import Circuits
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import task_id_of
from a2a_bridge.core.option_classes import PushValues
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import (
    SIGNATURE_HEADER,
    Names,
    Notification,
    Signer,
    find_named,
    form_of,
    notification,
)
from a2a_bridge.push.ports import Delivery, Outbox
from a2a_bridge.push.ssrf_policy import PORTS, SCHEMES, Allowed, SsrfPolicy, target_of
from a2a_bridge.push.webhook import WebhookResolver, stamp, unsent

logger = logging.getLogger("a2a_bridge.push")

#: the task of a scope as of an event
TaskAt = Callable[[Scope, str, int], Awaitable[hub.Task | None]]

_AGAIN = frozenset({408, 409, 425, 429})
_WITH_RETRY_AFTER = frozenset({429, 503})
#: seconds to wait for a failing outbox: at first, and at most
_MEND, _LONGEST_MEND = 0.5, 10.0
#: maximum first failures of notifications that are remembered
_REMEMBERED = 100_000


class _DeliveryError(Exception):
    """An attempt without an acknowledgement. final: a retry is useless. retry_after: seconds that the
    receiver asks for. target_works: whether the target works; None if the failure does not tell.
    """

    def __init__(
        self,
        text: str,
        *,
        final: bool = False,
        retry_after: float | None = None,
        target_works: bool | None = False,
    ) -> None:
        super().__init__(text)
        self.final = final
        self.retry_after = retry_after
        self.target_works = target_works


#: target and task → the trace of one attempt, which has the headers that name it
Traced = Callable[[str, str], AbstractContextManager[Mapping[str, str]]]


def no_trace(_target: str, _task_id: str) -> AbstractContextManager[Mapping[str, str]]:
    """No trace."""
    return nullcontext({})


class DeliveryWorker:
    """Works from `start` to `close`. task_at: for receivers of versions with whole tasks as notifications.
    names: renames tasks for versions in which callers name them. traced: the trace of each attempt. now:
    monotonic seconds. wall: seconds since the epoch, for receivers. chance: a random number below 1.
    """

    def __init__(
        self,
        outbox: Outbox,
        post: Post,
        options: PushOptions | None = None,
        *,
        task_at: TaskAt,
        signer: Signer | None = None,
        names: Names | None = None,
        traced: Traced = no_trace,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._outbox = outbox
        self._post = post
        self._options = options = options or PushOptions()
        self._task_at = task_at
        self._signer = signer
        self._names = names or {}
        self._traced = traced
        self._now = now
        self._wall = wall
        self._chance = chance
        self._circuits = Circuits(
            each=options.each,
            trip=options.trip,
            pause=max(options.first, 0.001) * 5,
            longest=options.longest,
            patience=options.age,
            now=now,
            chance=chance,
        )
        self._active: set[asyncio.Task[None]] = set()
        #: time of the first failure of each notification, by number
        self._since: FIFOCache[int, float] = FIFOCache(_REMEMBERED)
        self._taken: list[tuple[Delivery, asyncio.Future[None]]] = []
        self._reporting: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._finishing = False

    def start(self) -> None:
        """Starts the worker. Call it once."""
        self._outbox.on_new(self._stirred.set)
        self._worker = asyncio.create_task(self._work(), name="a2a delivery worker")

    async def close(self, grace: float = 0) -> None:
        """Delivers due notifications for `grace` seconds at most, and stops. The rest stays in the outbox."""
        self._finishing = True
        self._stirred.set()
        if self._worker is None:
            return
        if grace > 0:
            await asyncio.wait({self._worker}, timeout=grace)
        left = [self._worker, *self._active, *([] if self._reporting is None else [self._reporting])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # ------------------------------------------------------------------ the main loop

    async def _work(self) -> None:
        trouble = 0.0
        while True:
            self._stirred.clear()
            deliveries: list[Delivery] = []
            pause: float | None = None
            try:
                free = self._options.at_once - len(self._active)
                # Due notifications count in `wait` until `due` takes them; if no slot is free, see _done.
                if free > 0:
                    shared = free - self._options.at_once // 4
                    deliveries = await (
                        self._outbox.due(shared, self._circuits.capacity_of)
                        if shared > 0
                        else self._outbox.due(free, self._first_of)
                    )
                    pause = await self._outbox.wait()
                    trouble = 0.0
            except A2AError as error:
                if not trouble:
                    logger.warning("the outbox cannot be read, which is tried again: %s", error)
                pause = trouble = min(max(_MEND, trouble * 2), _LONGEST_MEND)
            except Exception:
                logger.exception("the delivery worker failed and continues")
                pause = trouble = min(max(_MEND, trouble * 2), _LONGEST_MEND)
            for delivery in deliveries:
                self._begin(delivery)
            if deliveries:
                continue
            if self._finishing and not self._active:
                return
            await self._pause(pause)

    def _first_of(self, target: str) -> int:
        """The capacity of a target for its only delivery."""
        return 0 if self._circuits.is_busy(target) else min(self._circuits.capacity_of(target), 1)

    async def _pause(self, seconds: float | None) -> None:
        """Waits until a wake-up, or until a notification is due."""
        probe = self._circuits.wait()
        waits = [one for one in (seconds, probe) if one is not None]
        try:
            async with asyncio.timeout(min(waits) if waits else None):
                await self._stirred.wait()
        except TimeoutError:
            pass

    def _begin(self, delivery: Delivery) -> None:
        target = target_of(delivery.registered.config.url)
        self._circuits.begin(target)
        task = asyncio.create_task(self._deliver(delivery, target), name=f"a2a push {delivery.task_id}")
        self._active.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        self._stirred.set()
        if not task.cancelled() and task.exception() is not None:
            logger.error("a push notification was left where it is", exc_info=task.exception())

    # ------------------------------------------------------------------ one notification

    async def _deliver(self, delivery: Delivery, target: str) -> None:
        target_works: bool | None = None
        failure: _DeliveryError | None = None
        try:
            await self._attempt(delivery, target)
            target_works = True
        except _DeliveryError as failed:
            failure, target_works = failed, failed.target_works
        except Exception:
            logger.exception("a push notification of task %s could not be made", delivery.task_id)
            failure = _DeliveryError("the notification could not be made", target_works=None)
        finally:
            if self._circuits.end(target, target_works):
                logger.warning("%s has failed too often in a row and is left alone for a while", target)
        if failure is None:
            self._since.pop(delivery.number, None)
            await self._acknowledge(delivery)
        else:
            await self._on_failure(delivery, target, failure)

    async def _on_failure(self, delivery: Delivery, target: str, failure: _DeliveryError) -> None:
        text = str(failure)
        now = self._now()
        since = self._since.setdefault(delivery.number, now)
        attempts = delivery.attempts + 1
        over = attempts >= self._options.attempts or now - since > self._options.age
        over = over or self._circuits.is_given_up(target)
        if failure.final or over:
            self._since.pop(delivery.number, None)
            logger.warning(
                "a push notification of task %s to %s is given up: %s; a2a-bridge push retry sends it again",
                delivery.task_id,
                target,
                text,
            )
            await self._surely(lambda: self._outbox.dead(delivery, text))
            return
        logger.info("a push notification of task %s to %s failed: %s", delivery.task_id, target, text)
        seconds = self.pause(attempts)
        if failure.retry_after is not None:
            seconds = max(seconds, min(failure.retry_after, self._options.longest_retry_after))
        await self._surely(lambda: self._outbox.again(delivery, text, seconds))

    def pause(self, attempts: int) -> float:
        """Seconds to wait after so many attempts: random, so that retries do not come all together."""
        bound: float = min(self._options.longest, self._options.first * 2 ** min(attempts - 1, 60))
        return bound * self._chance()

    async def _attempt(self, delivery: Delivery, target: str) -> None:
        """One POST. Raises _DeliveryError."""
        made = await self._made(delivery)
        headers = stamp(made, delivery.webhook_id, int(self._wall()))
        if self._signer is not None:
            signed = self._signer.sign(made.body, target, delivery.webhook_id, delivery.task_id)
            headers = _sign(headers, signed)
        task_id = task_id_of(delivery.event) or delivery.task_id
        with self._traced(target, task_id) as trace:
            await self._sent(made, {**headers, **trace})

    async def _sent(self, made: Notification, headers: dict[str, str]) -> None:
        try:
            async with asyncio.timeout(self._options.timeout):
                reply = await self._post(made.url, headers, made.body)
        except TimeoutError:
            raise _DeliveryError("no answer in time") from None
        except A2AError as error:
            text, final = unsent(error)
            raise _DeliveryError(text, final=final, target_works=None if final else False) from None
        status = reply.status
        if 200 <= status < 300:
            return
        if status in _WITH_RETRY_AFTER:
            # A receiver that sends Retry-After works.
            retry_after = self._retry_after(reply.headers)
            raise _DeliveryError(
                f"HTTP {status}",
                retry_after=retry_after,
                target_works=None if retry_after is not None else False,
            )
        if status in _AGAIN:
            raise _DeliveryError(f"HTTP {status}", target_works=None)
        if status < 500:
            raise _DeliveryError(f"HTTP {status}", final=True, target_works=True)
        raise _DeliveryError(f"HTTP {status}")

    async def _made(self, delivery: Delivery) -> Notification:
        config, version, _ = delivery.registered
        event, scope = delivery.event, delivery.scope
        task: hub.Task | None = None
        try:
            if delivery.sequence and form_of(version).whole_tasks and not event.HasField("task"):
                task = await self._task_at(scope, delivery.task_id, delivery.sequence)
            return notification(config, event, task, version, find_named(self._names, version, scope))
        except A2AError as error:
            if error.reason is Reason.UNAVAILABLE:
                raise _DeliveryError("the task cannot be read at present", target_works=None) from None
            raise _DeliveryError(
                "the event cannot be said in the receiver's version", final=True, target_works=None
            ) from None

    def _retry_after(self, headers: Mapping[str, str]) -> float | None:
        """The seconds in Retry-After."""
        text = headers.get("Retry-After") or headers.get("retry-after") or ""
        if text.strip().isdecimal() and text.isascii() and len(text) < 10:
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._wall())
        except (ValueError, TypeError, OverflowError):
            return None

    async def _acknowledge(self, delivery: Delivery) -> None:
        """Reports an acknowledgement, in a batch with those that arrived during the last report."""
        reported: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taken.append((delivery, reported))
        if self._reporting is None:
            self._reporting = asyncio.create_task(self._report(), name="a2a delivery results")
        await reported

    async def _report(self) -> None:
        while self._taken:
            taken, self._taken = self._taken, []
            deliveries = [delivery for delivery, _ in taken]
            failed: Exception | None = None
            try:
                await self._surely(partial(self._outbox.sent, deliveries))
            except Exception as error:  # noqa: BLE001  its waiters log it
                failed = error
            for _, reported in taken:
                if reported.done():
                    continue
                if failed is None:
                    reported.set_result(None)
                else:
                    reported.set_exception(failed)
        self._reporting = None

    async def _surely(self, report: Callable[[], Awaitable[None]]) -> None:
        """Repeats a report to the outbox until it succeeds or the worker is closed."""
        pause = _MEND
        while True:
            try:
                return await report()
            except A2AError as error:
                logger.info("the outbox cannot be told what became of a notification yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_MEND)


def _sign(headers: dict[str, str], signature: str) -> dict[str, str]:
    made = headers | {SIGNATURE_HEADER: signature}
    made.setdefault("Authorization", f"Bearer {signature}")
    return made


@dataclass(frozen=True, slots=True)
class PushOptions(PushValues):
    """How notifications are delivered. Times in seconds."""

    #: the ports of all other webhooks
    ports: frozenset[int] = PORTS
    #: the URL schemes of all webhooks
    schemes: frozenset[str] = SCHEMES
    #: the issuer in signatures; empty for the public URL of the server, or the name of the agent
    issuer: str = ""
    #: time for one attempt, after which it counts as failed
    timeout: float = 15.0
    #: the largest number of attempts for one notification; then it is a dead letter
    attempts: int = 100
    #: time after which an undelivered notification becomes a dead letter
    age: float = 24 * 3600.0
    #: the upper bound of the random pause after the first attempt; it doubles with each attempt
    first: float = 1.0
    #: the largest upper bound of that pause
    longest: float = 600.0
    #: the longest pause that a receiver can ask for with Retry-After
    longest_retry_after: float = 3600.0
    #: concurrent deliveries, the last quarter for targets that have no other; further ones wait in the outbox
    at_once: int = 64
    #: concurrent deliveries to one target; further ones wait in the outbox
    each: int = 8
    #: consecutive failures that open the circuit of a target: it gets no attempts for a while
    trip: int = 5

    def policy(self) -> SsrfPolicy:
        """The policy of these options. Raises ValueError for an invalid `allow`."""
        return SsrfPolicy([Allowed.parse(text) for text in self.allow], self.ports, self.schemes)


#: path of the keys with which receivers verify signatures
JWKS_PATH = "/.well-known/jwks.json"


@dataclass(frozen=True, slots=True)
class PushService:
    """The running parts of delivery."""

    #: checks whether a config may receive notifications
    sender: WebhookResolver
    worker: DeliveryWorker
    #: the document for JWKS_PATH, as hosts publish documents; None without signing keys
    jwks: Callable[[str], bytes] | None = None

    async def close(self, grace: float = 0) -> None:
        """Delivers due notifications for `grace` seconds at most. The rest stays in the outbox."""
        await self.worker.close(grace)


@asynccontextmanager
async def push_service(
    outbox: Outbox,
    task_at: TaskAt,
    options: PushOptions | None = None,
    *,
    names: Names | None = None,
    sender: WebhookResolver | None = None,
    issuer: str = "",
    traced: Traced = no_trace,
) -> AsyncIterator[PushService]:
    """Delivers the notifications of an outbox while the context is open. names, traced: of DeliveryWorker.
    sender: replaces the resolver made from the options. issuer: of signatures, unless the options name one.
    Raises ValueError for invalid options, ImportError if a package is missing that they need.
    """
    options = options or PushOptions()
    resolver = sender or WebhookResolver(options.policy())
    keys, name = options.signing_keys, options.issuer or issuer or "a2a-bridge"
    signer = Signer(keys, name) if keys else None
    dialling = DialOptions(timeout=options.timeout)
    async with http_post(dialling, resolver.resolve) as post:
        worker = DeliveryWorker(
            outbox, post, options, task_at=task_at, signer=signer, names=names, traced=traced
        )
        worker.start()
        jwks = None if signer is None else signer.jwks()
        try:
            yield PushService(resolver, worker, None if jwks is None else lambda _: jwks)
        finally:
            await worker.close()
            resolver.close()
