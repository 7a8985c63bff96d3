"""Fronts of tests on real sockets: an application on uvicorn, and API keys for its callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.auth import Authentication
from a2a_bridge.cli.server_flags import GatewayFlags
from a2a_bridge.core.addresses import ListenAddress
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented
from a2a_bridge_adapters.fronts.listener import listen

KEYS = {"key of ann": "ann", "key of bob": "bob"}


class _Keys:
    """Identifies callers by two known keys."""

    scheme_name = "key"
    parameters = frozenset({"authorization"})
    challenge = 'Bearer realm="test"'

    def scheme(self) -> None:
        return None

    async def identify(self, presented: Presented) -> Principal | None:
        given = presented.credential("authorization")
        name = None if given is None else KEYS.get(given.removeprefix("Bearer "))
        return None if name is None else Principal(name, method="key")


def authentication() -> Authentication:
    return Authentication([_Keys()])


@asynccontextmanager
async def listening(app: Any, **flags: Any) -> AsyncIterator[str]:
    """The URL of an application, which starts with its first request."""
    async with listen(app, ListenAddress(), GatewayFlags(timeout_graceful_shutdown=1.0, **flags)) as listener:
        yield f"http://{listener.http}"
