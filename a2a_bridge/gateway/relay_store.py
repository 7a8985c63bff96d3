"""What a relay keeps in a store: who registered, and what waits for them. It talks to nobody.

Rules:
1. Addresses and tokens given to agents follow from a secret in the store, so that who repeats a config gets the same
   ones again, from every gateway on that store and after a restart.
2. Configs lie in so many shelves, and each shelf holds so many: beyond that, the one that was put there first is
   forgotten. What comes for it later is answered with 404.
3. A notification is taken once it is durable, and delivered from there by whoever delivers for the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Outbox, Registered

#: whose all this is in the store; no caller can have it, because no principal is called so
_SCOPE = Scope("", "a2a-bridge relay")
_GROUP = "a2a-bridge relay "
_SECRET = "a2a-bridge relay secret"  # noqa: S105  where it lies
#: letters of an address that name its shelf: 256 shelves
_GROUP_LETTERS = 2


class Configs(Protocol):
    """Where configs are kept: hosting's PushConfigStore."""

    async def put(self, scope: Scope, registered: Registered, /, *, replace: bool = True) -> None: ...

    async def get(self, scope: Scope, task_id: str, config_id: str, /) -> Registered | None: ...

    async def list(self, scope: Scope, task_id: str, /) -> Sequence[Registered]: ...

    async def delete(self, scope: Scope, task_id: str, config_id: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What somebody registered. scope, version: of the caller. config: as it said it."""

    scope: Scope
    version: str
    config: hub.TaskPushNotificationConfig


class RelayStore:
    """The relay's part of a store. `open` comes first."""

    def __init__(self, configs: Configs, outbox: Outbox) -> None:
        self._configs = configs
        self._outbox = outbox
        self._secret = b""

    async def open(self) -> None:
        """Learns the secret of the store, and makes one when there is none. Raises UNAVAILABLE."""
        if await self._configs.get(_SCOPE, _SECRET, "secret") is None:
            made = hub.TaskPushNotificationConfig(
                task_id=_SECRET, id="secret", token=secrets.token_urlsafe(32)
            )
            # Another gateway may do the same at the same time: what lay there first is what counts.
            await self._configs.put(_SCOPE, Registered(made), replace=False)
        found = await self._configs.get(_SCOPE, _SECRET, "secret")
        if found is None:
            raise A2AError(Reason.UNAVAILABLE, "the store did not keep what was put there")
        self._secret = found.config.token.encode()

    def address(self, kept: Kept) -> str:
        """The address for a config: below the relay's URL."""
        words = json.dumps([*kept.scope, kept.version]).encode()
        return self._mac(b"address", words + kept.config.SerializeToString(deterministic=True))

    def token(self, address: str) -> str:
        """What the agent has to send to an address."""
        return self._mac(b"token", address.encode())

    async def keep(self, address: str, kept: Kept) -> None:
        """Remembers a config. Raises UNAVAILABLE."""
        shelf = _shelf(address)
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(kept.config)
        config.task_id, config.id = shelf, address
        aside = json.dumps([*kept.scope, kept.config.task_id, kept.config.id])
        registered = Registered(config, kept.version, aside)
        try:
            await self._configs.put(_SCOPE, registered)
        except A2AError as error:
            if error.reason is not Reason.RESOURCE_EXHAUSTED:
                raise
            oldest = (await self._configs.list(_SCOPE, shelf))[:1]
            for one in oldest:
                await self._configs.delete(_SCOPE, shelf, one.config.id)
            await self._configs.put(_SCOPE, registered)

    async def recall(self, address: str) -> Kept | None:
        """The config for an address; None when it was never given, or is forgotten."""
        found = await self._configs.get(_SCOPE, _shelf(address), address)
        if found is None:
            return None
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(found.config)
        tenant, owner, config.task_id, config.id = json.loads(found.aside)
        return Kept(Scope(tenant, owner), found.version, config)

    async def forget(self, address: str) -> None:
        """Forgets a config and what waits for it."""
        await self._configs.delete(_SCOPE, _shelf(address), address)

    async def post(self, address: str, kept: Kept, event: hub.StreamResponse) -> None:
        """Takes a notification for the receiver of a config. Returns when it is durable. Raises UNAVAILABLE."""
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(kept.config)
        config.task_id, config.id = _shelf(address), address
        aside = json.dumps([*kept.scope, kept.config.task_id, kept.config.id])
        await self._outbox.post(_SCOPE, Registered(config, kept.version, aside), event)

    def _mac(self, what: bytes, words: bytes) -> str:
        return hmac.new(self._secret, what + b"\0" + words, hashlib.sha256).hexdigest()[:48]


def _shelf(address: str) -> str:
    return _GROUP + address[:_GROUP_LETTERS]
