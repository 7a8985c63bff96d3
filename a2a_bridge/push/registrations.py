"""Who registered for push notifications in an older version, and in what words. It keeps no configs.

A config says where notifications go and not in which version its receiver reads them: that is the version of the
call that registered it. Rules:
1. Only what is not the newest version is remembered; whatever is not remembered gets the newest.
2. A config inside a message has no id yet when events may already be sent, so its receiver (URL and token) is
   remembered too.
3. What callers say is remembered by a digest, so that long words take no more room than short ones, and tokens are
   not kept.
4. Of more than `most`, those registered first are forgotten. Nothing outlives the process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub

MOST = 10_000


class Registration(NamedTuple):
    """version: of the caller. aside: what it said that the hub's config has no place for (see ASIDE_PARAMETER)."""

    version: str = ""
    aside: str = ""


_NONE = Registration()


def _key(scope: Scope, *words: str) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for word in (*scope, *words):
        octets = word.encode("utf-8", "surrogatepass")
        made.update(len(octets).to_bytes(8, "big"))
        made.update(octets)
    return made.digest()


class Registrations:
    """What is known of configs beside the configs."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._configs: OrderedDict[bytes, Registration] = OrderedDict()
        self._receivers: OrderedDict[bytes, Registration] = OrderedDict()

    def __len__(self) -> int:
        return len(self._configs) + len(self._receivers)

    def note(
        self, scope: Scope, config: hub.TaskPushNotificationConfig, version: str, aside: str = ""
    ) -> None:
        """Remembers who registered a config that has a task and an id. version: empty for the newest."""
        self._put(self._configs, _key(scope, config.task_id, config.id), Registration(version, aside))
        self._put(self._receivers, _key(scope, config.url, config.token), Registration(version))

    def note_receiver(
        self, scope: Scope, config: hub.TaskPushNotificationConfig, version: str, aside: str = ""
    ) -> None:
        """Remembers in which version a receiver reads. version: empty for the newest."""
        self._put(self._receivers, _key(scope, config.url, config.token), Registration(version, aside))

    def of(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> Registration:
        """What is known of a config, which is nothing for most."""
        known = self._configs.get(_key(scope, config.task_id, config.id))
        if known is not None:
            return known
        return self._receivers.get(_key(scope, config.url, config.token), _NONE)

    def forget(self, scope: Scope, task_id: str, config_id: str) -> None:
        """Forgets a config. Its receiver may have others."""
        self._configs.pop(_key(scope, task_id, config_id), None)

    def _put(
        self,
        kept: OrderedDict[bytes, Registration],
        key: bytes,
        made: Registration,
    ) -> None:
        kept.pop(key, None)
        if made != _NONE:
            kept[key] = made
            if len(kept) > self._most:
                kept.popitem(last=False)
