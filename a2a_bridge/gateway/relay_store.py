"""The addresses of a relay's configs; its configs and pending notifications in a store. It makes no calls.

Rules:
1. The addresses and tokens that agents get are derived from a secret, so that a repeated config gets the same
   address. The secret is in the store, for every gateway on it and after a restart; without a store each
   process has a secret of its own.
2. Configs are kept in a fixed number of groups of bounded size. Beyond that, the oldest config of a group is
   evicted; a notification for it is answered with 404.
3. A notification is accepted once it is durable. The delivery worker of the store delivers it.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.ports import Outbox, PushConfigStore, Registered

#: the scope in the store; no caller can have it, because no principal has this name
_SCOPE = Scope("", "a2a-bridge relay")
_GROUP = "a2a-bridge relay "
_SECRET = "a2a-bridge relay secret"  # noqa: S105  the name of its entry
#: letters of an address that name its group: 256 groups
_GROUP_LETTERS = 2


class Groups:
    """Entries of one scope in groups of the size that the store allows."""

    def __init__(self, configs: PushConfigStore, scope: Scope) -> None:
        self._configs = configs
        self._scope = scope
        self._making_room = asyncio.Lock()

    async def put(self, made: Registered) -> None:
        """Stores an entry, in place of the oldest entry of its group if that is full. Raises UNAVAILABLE."""
        if await self._rejection(made) is None:
            return
        group = made.config.task_id
        async with self._making_room:
            # Possibly several: an evicted config may come back, and another gateway may take the room.
            while (error := await self._rejection(made)) is not None:
                known = await self._configs.list(self._scope, group)
                if not known:
                    raise error
                await self._configs.delete(self._scope, group, known[0].config.id)

    async def _rejection(self, made: Registered) -> A2AError | None:
        """Stores an entry. Returns the error of a full group."""
        try:
            await self._configs.put(self._scope, made)
        except A2AError as error:
            if error.reason is not Reason.RESOURCE_EXHAUSTED:
                raise
            return error
        return None


@dataclass(frozen=True, slots=True)
class RelayedConfig:
    """A registered config."""

    #: of the caller
    scope: Scope
    #: the version of the caller
    version: str
    #: as the caller sent it
    config: hub.TaskPushNotificationConfig


class Addresses:
    """The addresses and tokens that agents get."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def address(self, registration: RelayedConfig) -> str:
        """The address for a config: below the relay's URL."""
        raw_bytes = json.dumps([*registration.scope, registration.version]).encode()
        return self._mac(b"address", raw_bytes + registration.config.SerializeToString(deterministic=True))

    def token(self, address: str) -> str:
        """The token that the agent has to send to an address."""
        return self._mac(b"token", address.encode())

    def _mac(self, purpose: bytes, raw_bytes: bytes) -> str:
        return hmac.new(self._secret, purpose + b"\0" + raw_bytes, hashlib.sha256).hexdigest()[:48]


class RelayStore:
    """The relay's part of a store. `open` comes first."""

    #: set by `open`
    addresses: Addresses

    def __init__(self, configs: PushConfigStore, outbox: Outbox) -> None:
        self._configs = configs
        self._groups = Groups(configs, _SCOPE)
        self._outbox = outbox

    async def open(self) -> None:
        """Reads the secret of the store, and creates it if there is none. Raises UNAVAILABLE."""
        if await self._configs.get(_SCOPE, _SECRET, "secret") is None:
            made = hub.TaskPushNotificationConfig(
                task_id=_SECRET, id="secret", token=secrets.token_urlsafe(32)
            )
            # Another gateway may do the same at the same time: the first one wins.
            await self._configs.put(_SCOPE, Registered(made), replace=False)
        found = await self._configs.get(_SCOPE, _SECRET, "secret")
        if found is None:
            raise A2AError(Reason.UNAVAILABLE, "the store did not keep what was put there")
        self.addresses = Addresses(found.config.token.encode())

    async def keep(self, address: str, registration: RelayedConfig) -> None:
        """Remembers a config. Raises UNAVAILABLE."""
        await self._groups.put(_parse_registered(address, registration))

    async def recall(self, address: str) -> RelayedConfig | None:
        """The config for an address; None for an unknown address or an evicted config."""
        found = await self._configs.get(_SCOPE, _group(address), address)
        if found is None:
            return None
        config = hub.TaskPushNotificationConfig()
        config.CopyFrom(found.config)
        tenant, owner, config.task_id, config.id = json.loads(found.side_channel)
        return RelayedConfig(Scope(tenant, owner), found.version, config)

    async def forget(self, address: str) -> None:
        """Deletes a config and its pending notifications."""
        await self._configs.delete(_SCOPE, _group(address), address)

    async def post(self, address: str, registration: RelayedConfig, event: hub.StreamResponse) -> None:
        """Takes a notification for a config's receiver. Returns when it is durable. Raises UNAVAILABLE."""
        await self._outbox.post(_SCOPE, _parse_registered(address, registration), event)


def _group(address: str) -> str:
    return _GROUP + address[:_GROUP_LETTERS]


def _parse_registered(address: str, registration: RelayedConfig) -> Registered:
    """A config as it is in the store: under its group and address, with its own names beside it."""
    config = hub.TaskPushNotificationConfig()
    config.CopyFrom(registration.config)
    config.task_id, config.id = _group(address), address
    return Registered(
        config,
        registration.version,
        json.dumps([*registration.scope, registration.config.task_id, registration.config.id]),
    )
