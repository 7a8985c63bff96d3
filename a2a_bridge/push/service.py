"""Assembles the sending of notifications: the policy for receivers, the delivery, and the
verification keys.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from a2a_bridge.bindings.binding import DialOptions, http_post
from a2a_bridge.push.delivery_worker import DeliveryWorker, TaskAt, Traced, no_trace
from a2a_bridge.push.notification import Names
from a2a_bridge.push.options import PushOptions
from a2a_bridge.push.ports import Outbox
from a2a_bridge.push.signing import Signer
from a2a_bridge.push.webhook_resolver import WebhookResolver

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
    """Delivers the notifications of an outbox while the context is open.

    names: how to rename tasks for versions whose callers name them. sender: replaces the one made from the
    options. issuer: of signatures, unless the options name one. traced: the trace of each attempt.
    Raises ValueError for invalid options, ImportError if a package is missing that they need.
    """
    options = options or PushOptions()
    resolver = sender or WebhookResolver(options.policy())
    signer = (
        Signer(options.signing_keys, options.issuer or issuer or "a2a-bridge")
        if options.signing_keys
        else None
    )
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
