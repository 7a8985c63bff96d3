"""What older callers said of push configs that the hub's config has no place for (see ASIDE_PARAMETER). It keeps no
configs, and knows nobody's version: that is kept by whoever sends.

Rules:
1. A config inside a message has no id yet, so what was said beside it is remembered of its receiver (URL and token).
2. Configs and receivers are remembered by a digest, so that long words take no more room than short ones, and tokens are
   not kept.
3. Of more than `most`, those registered first are forgotten. Nothing outlives the process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub

MOST = 10_000


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
        self._configs: OrderedDict[bytes, str] = OrderedDict()
        self._receivers: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._configs) + len(self._receivers)

    def note(self, scope: Scope, config: hub.TaskPushNotificationConfig, aside: str) -> None:
        """Remembers what was said beside a config that has a task and an id; empty for nothing."""
        self._put(self._configs, _key(scope, config.task_id, config.id), aside)
        # Or what was said of its receiver before would be taken for what was said of it.
        self._receivers.pop(_key(scope, config.url, config.token), None)

    def note_receiver(self, scope: Scope, config: hub.TaskPushNotificationConfig, aside: str) -> None:
        """Remembers what was said beside a config that has no id yet; empty for nothing."""
        self._put(self._receivers, _key(scope, config.url, config.token), aside)

    def of(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> str:
        """What was said beside a config, which is nothing for most."""
        known = self._configs.get(_key(scope, config.task_id, config.id))
        if known is not None:
            return known
        return self._receivers.get(_key(scope, config.url, config.token), "")

    def forget(self, scope: Scope, task_id: str, config_id: str) -> None:
        """Forgets a config. Its receiver may have others."""
        self._configs.pop(_key(scope, task_id, config_id), None)

    def _put(self, kept: OrderedDict[bytes, str], key: bytes, aside: str) -> None:
        kept.pop(key, None)
        if aside:
            kept[key] = aside
            if len(kept) > self._most:
                kept.popitem(last=False)
