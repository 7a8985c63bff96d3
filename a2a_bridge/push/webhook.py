"""Posts one notification, with a few attempts and within a bounded time. No queue and no policy.

Rules:
1. No redirects; only http(s) URLs. `post` decides which targets are allowed (see WebhookResolver).
2. All attempts of a notification have the same `webhook-id`.
3. 2xx is an acknowledgement (spec 4.3). 4xx except 408 and 429 is a rejection, and neither a rejection nor a
   forbidden target is retried; all other failures are.
4. Logs name hosts. Paths and queries of webhooks are often secrets.
"""

import asyncio
import ipaddress
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit
from uuid import uuid4

from a2a_bridge.bindings.binding import Post
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import Notification, deliverable, standard_signature
from a2a_bridge.push.ssrf_policy import SsrfPolicy

logger = logging.getLogger("a2a_bridge.push")

_AGAIN = (408, 429)


@dataclass(frozen=True, slots=True)
class Webhook:
    """How notifications are posted. Times in seconds."""

    post: Post
    #: maximum attempts
    attempts: int = 3
    #: pause before the second attempt, doubled before each further attempt
    pause: float = 0.5
    #: for all attempts of one notification together
    timeout: float = 15.0

    async def send(self, notification: Notification, trace: Mapping[str, str] | None = None) -> bool:
        """True if the receiver acknowledged the notification. Raises only cancellation. trace: headers."""
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
    """The text for a client error, whose own text may contain the URL, and whether the error is final."""
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


#: resolves host and port to addresses; raises OSError if there are none
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

#: seconds that a registration waits for a name; a connection has its own limit
_PATIENCE = 3.0
#: concurrent lookups
_LOOKUPS = 16
_PORTS = {"http": 80, "https": 443}


class WebhookResolver:
    """Checks webhooks when they are registered. Resolves their hosts once, and gives the addresses that the
    SSRF policy allows, also for `bindings.http_post`. lookup: resolves names. own: True for our addresses.

    Rules:
    1. The policy is checked when a config is registered and when a connection is made. Only the second check
       protects, because DNS may change in between: connections use the addresses given here and no others.
    2. A name that cannot be resolved at present may be registered: DNS changes can be slow.
    3. Addresses of this machine are rejected, public addresses too: the system names the source address of a
       connection to them.
    """

    def __init__(
        self,
        guard: SsrfPolicy | None = None,
        *,
        lookup: Lookup | None = None,
        own: Callable[[str], bool] | None = None,
    ) -> None:
        self._guard = guard or SsrfPolicy()
        self._lookup = lookup or self._system
        self._own = own or is_own
        self._threads: ThreadPoolExecutor | None = None

    async def check(self, config: hub.TaskPushNotificationConfig, /) -> A2AError | None:
        """INVALID_PARAMS naming the member that prevents delivery; None if delivery is possible."""
        rejection = deliverable(config)
        if rejection is not None:
            return rejection
        parts = urlsplit(config.url)
        if not self._guard.scheme(parts.scheme):
            return invalid_params("url", "has a scheme that is not allowed")
        host = parts.hostname or ""
        port = parts.port or _PORTS[parts.scheme.lower()]
        addresses: Sequence[str] = ()
        try:
            async with asyncio.timeout(_PATIENCE):
                addresses = await self._addresses(host, port)
        except (OSError, TimeoutError):
            logger.debug("a webhook's host is not known at present")
        reason = self._rejection(host, port, addresses)
        return invalid_params("url", reason) if reason else None

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host. Raises PERMISSION_DENIED if one is not allowed, OSError without any."""
        addresses = await self._addresses(host, port)
        reason = self._rejection(host, port, addresses)
        if reason:
            raise A2AError(Reason.PERMISSION_DENIED, f"the webhook's host {reason}", blame=Blame.SELF)
        return addresses

    def close(self) -> None:
        """Ends the threads that resolve names. It may be used again."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _system(self, host: str, port: int) -> Sequence[str]:
        """All the addresses that the system knows of a host."""
        if self._threads is None:
            # A separate pool: name servers that do not answer must not delay other lookups of the process.
            self._threads = ThreadPoolExecutor(_LOOKUPS, "a2a push names")
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except UnicodeError as error:  # a label that is no label
            raise OSError("no such host") from error
        # An IPv6 address with a zone keeps it, and is rejected for that.
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    def _rejection(self, host: str, port: int, addresses: Sequence[str]) -> str:
        reason = self._guard.rejection(host, port, addresses)
        if reason or self._guard.admits(host, port):
            return reason
        if any(self._own(text) for text in addresses if not self._guard.allows(text, port)):
            return "leads to an address that is not allowed"
        return ""

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            return await self._lookup(host, port)


def is_own(text: str) -> bool:
    """Whether an address is this machine's: a connection to it would have it as its source. Sends nothing."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((text, 9))
            return bool(probe.getsockname()[0] == text)
    except OSError:  # no way leads there
        return False
