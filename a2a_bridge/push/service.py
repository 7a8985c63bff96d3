"""Sending notifications, put together: who may be sent to, what sends, and with what it is verified."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from a2a_bridge.bindings import DialOptions, http_post
from a2a_bridge.push.delivery_worker import DeliveryWorker, TaskAt
from a2a_bridge.push.notification import Names
from a2a_bridge.push.options import PushOptions
from a2a_bridge.push.ports import Outbox
from a2a_bridge.push.signing import Signer
from a2a_bridge.push.webhook_resolver import WebhookResolver

#: where receivers look for the keys that verify what we sign
JWKS_PATH = "/.well-known/jwks.json"


@dataclass(frozen=True, slots=True)
class PushService:
    """What sends notifications, at work.

    sender: says whether a config can be sent to. jwks: the document for JWKS_PATH, as hosts publish
    documents; None when nothing is signed.
    """

    sender: WebhookResolver
    worker: DeliveryWorker
    jwks: Callable[[str], bytes] | None = None

    async def close(self, grace: float = 0) -> None:
        """Sends what is due for `grace` seconds at most. What is left stays in the outbox."""
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
) -> AsyncIterator[PushService]:
    """Delivers what is in an outbox while the context is open.

    names: how versions in which callers name their tasks know them. sender: instead of one by the options.
    issuer: who signs, unless the options say so. Raises ValueError for options that make no sense,
    ImportError where a package is missing that they need.
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
        worker = DeliveryWorker(outbox, post, options, task_at=task_at, signer=signer, names=names)
        worker.start()
        jwks = None if signer is None else signer.jwks()
        try:
            yield PushService(resolver, worker, None if jwks is None else lambda _: jwks)
        finally:
            await worker.close()
            resolver.close()
