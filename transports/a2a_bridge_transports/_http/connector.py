"""The connections of the client sides, which are kept for the next call, and the addresses that they may go
to. It knows no calls.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from a2a_bridge.bindings import Resolve
from a2a_bridge.core.errors import A2AError, Blame, Reason


class _Connection(ResponseHandler):
    """A connection that is not used again after a response that nobody asked for: the next call, of another
    caller perhaps, would get it, and each further one that of the call before.
    """

    def is_connected(self) -> bool:
        # Not by `super`: this is asked for each call.
        return not self._buffer and self.transport is not None and not self.transport.is_closing()


class Connector(aiohttp.TCPConnector):
    """Makes such connections. options: of aiohttp.TCPConnector."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kind: type[ResponseHandler] = _Connection
        self._factory = partial(kind, loop=self._loop)


class Checked(AbstractResolver):
    """Connects only to the addresses that `resolve` gives for a host at that moment."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found: list[ResolveResult] = []
        for text in await self._resolve(host, port):
            kind = socket.AF_INET6 if ":" in text else socket.AF_INET
            if family in (socket.AF_UNSPEC, kind):
                found.append(
                    ResolveResult(
                        hostname=host,
                        host=text,
                        port=port,
                        family=kind,
                        proto=0,
                        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    )
                )
        if not found:
            raise OSError("the host has no address")
        return found

    async def check_literal(self, url: URL) -> None:
        """Checks a host that is an address, or a number that stands for one: connectors do not
        resolve those. Raises UNAVAILABLE (phase=connect), and A2AError to reject it.
        """
        host = url.host or ""
        if ":" in host or host.replace(".", "").isdigit():
            try:
                await self._resolve(host, url.port or 0)
            except (OSError, UnicodeError) as error:
                raise unavailable(f"no connection to the agent: {host} is no address", "connect") from error

    async def close(self) -> None:
        """Nothing to close."""


def build_resolver(resolve: Resolve | None) -> Checked | None:
    """A resolver for `open_exchanger` that calls `resolve`; None for the system's."""
    return None if resolve is None else Checked(resolve)


def unavailable(text: str, phase: str) -> A2AError:
    """The error of a peer that cannot be reached, or does not answer. phase: how far the call came."""
    return A2AError(Reason.UNAVAILABLE, text, metadata={"phase": phase}, blame=Blame.PEER)
