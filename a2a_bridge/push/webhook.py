"""Posts one notification, with a few attempts and within a bounded time. No queue and no policy.

Rules:
1. No redirects; only http(s) URLs. `post` decides which targets are allowed (see WebhookResolver).
2. All attempts of a notification have the same `webhook-id`.
3. 2xx is an acknowledgement (spec 4.3). 4xx except 408 and 429 is a rejection, and neither a rejection nor a
   forbidden target is retried; all other failures are.
4. Logs name hosts. Paths and queries of webhooks are often secrets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import uuid4

from a2a_bridge.bindings.binding import Post
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.push.notification import Notification
from a2a_bridge.push.signing import standard_signature

logger = logging.getLogger("a2a_bridge.push")

_AGAIN = (408, 429)


@dataclass(frozen=True, slots=True)
class Webhook:
    """How notifications are posted. Times in seconds."""

    post: Post
    #: maximum attempts
    attempts: int = 3
    #: pause before the second attempt, doubled before each further one
    pause: float = 0.5
    #: for all attempts of one notification together
    timeout: float = 15.0

    async def send(self, notification: Notification, trace: Mapping[str, str] | None = None) -> bool:
        """Returns True if the receiver has acknowledged the notification. It raises nothing but
        cancellation. trace: headers of the trace that it belongs to.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self._send(notification, str(uuid4()), trace or {})
        except TimeoutError:
            logger.warning(
                "a push notification was not acknowledged by %s within %s s",
                _host(notification),
                self.timeout,
            )
            return False

    async def _send(self, notification: Notification, webhook_id: str, trace: Mapping[str, str]) -> bool:
        outcome = ""
        for attempt in range(self.attempts):
            if attempt:
                await asyncio.sleep(self.pause * 2 ** (attempt - 1))
            try:
                headers = stamp(notification, webhook_id, int(time.time())) | dict(trace)
                reply = await self.post(notification.url, headers, notification.body)
            except A2AError as error:
                outcome, final = unsent(error)
                if final:
                    break
                continue
            if 200 <= reply.status < 300:
                return True
            outcome = f"HTTP {reply.status}"
            if 300 <= reply.status < 500 and reply.status not in _AGAIN:
                break
        logger.warning("a push notification was not taken by %s: %s", _host(notification), outcome)
        return False


def stamp(notification: Notification, webhook_id: str, timestamp: int) -> dict[str, str]:
    """The headers of one attempt, as Standard Webhooks names them. timestamp: seconds since the epoch."""
    headers = notification.headers | {"webhook-id": webhook_id, "webhook-timestamp": str(timestamp)}
    if notification.secret is not None:
        signature = standard_signature(notification.secret, webhook_id, timestamp, notification.body)
        headers["webhook-signature"] = signature
    return headers


def unsent(error: A2AError) -> tuple[str, bool]:
    """The meaning of a client error, and whether it is final. Its own text must not reach logs and operators:
    it may contain the URL.
    """
    if error.reason is Reason.PERMISSION_DENIED:
        return "the receiver's host leads to an address that is not allowed", True
    if error.reason is Reason.DEADLINE_EXCEEDED:
        return "no answer in time", False
    if error.metadata.get("phase") == "connect":
        return "no connection", False
    return "the connection broke", False


def _host(notification: Notification) -> str:
    """The host, for the log."""
    return urlsplit(notification.url).hostname or "nobody"
