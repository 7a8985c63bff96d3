"""Resolves the hosts of webhooks once, and gives the addresses that the SSRF policy allows.

Rules:
1. The policy is checked when a config is registered and when a connection is made. Only the second check
   protects, because DNS may change in between: connections use the addresses given here and no others.
2. A name that cannot be resolved at present may be registered: DNS changes can be slow.
3. Addresses of this machine are rejected, public ones too: the system names the source address of a
   connection to them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.notification import deliverable
from a2a_bridge.push.ssrf_policy import SsrfPolicy

logger = logging.getLogger("a2a_bridge.push")

#: resolves host and port to addresses; raises OSError if there are none
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

#: seconds that a registration waits for a name; a connection has its own limit
_PATIENCE = 3.0
#: concurrent lookups
_LOOKUPS = 16
_PORTS = {"http": 80, "https": 443}


class WebhookResolver:
    """Implements hosting's PushSender, and resolves addresses for `bindings.http_post`.

    lookup: resolves names. own: True for addresses of this machine.
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
        """The addresses of a host, all of which may be connected to.

        Raises PERMISSION_DENIED when one of them may not, OSError when there are none.
        """
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
            # A separate pool: names whose servers do not answer must not delay other lookups of the process.
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
    """Whether an address belongs to this machine: a connection to it would have the same source address.

    Nothing is sent.
    """
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((text, 9))
            return bool(probe.getsockname()[0] == text)
    except OSError:  # no way leads there
        return False
