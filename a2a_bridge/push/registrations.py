"""Who registered for push notifications in an older version, and in what words. It keeps no configs.

A config says where notifications go and not in which version its receiver reads them: that is the version of the
call that registered it. Rules:
1. Only what is not the newest version is remembered; whatever is not remembered gets the newest.
2. A config inside a message has no id yet when events may already be sent, so its receiver (URL and token) is
   remembered too.
3. Of more than `most`, those registered first are forgotten. Nothing outlives the process.
"""

from __future__ import annotations

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


class Registrations:
    """What is known of configs beside the configs."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._configs: OrderedDict[tuple[Scope, str, str], Registration] = OrderedDict()
        self._receivers: OrderedDict[tuple[Scope, str, str], str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._configs) + len(self._receivers)

    def note(
        self, scope: Scope, config: hub.TaskPushNotificationConfig, version: str, aside: str = ""
    ) -> None:
        """Remembers who registered a config that has a task and an id. version: empty for the newest."""
        key = scope, config.task_id, config.id
        self._configs.pop(key, None)
        if version or aside:
            self._configs[key] = Registration(version, aside)
            if len(self._configs) > self._most:
                self._configs.popitem(last=False)
        self.note_receiver(scope, config, version)

    def note_receiver(self, scope: Scope, config: hub.TaskPushNotificationConfig, version: str) -> None:
        """Remembers in which version a receiver reads. version: empty for the newest."""
        key = scope, config.url, config.token
        self._receivers.pop(key, None)
        if version:
            self._receivers[key] = version
            if len(self._receivers) > self._most:
                self._receivers.popitem(last=False)

    def version(self, scope: Scope, config: hub.TaskPushNotificationConfig) -> str:
        """The version notifications to a config are for; empty for the newest."""
        known = self._configs.get((scope, config.task_id, config.id))
        if known is not None:
            return known.version
        return self._receivers.get((scope, config.url, config.token), "")

    def aside(self, scope: Scope, task_id: str, config_id: str) -> str:
        """What was said beside a config; empty when nothing was."""
        return self._configs.get((scope, task_id, config_id), _NONE).aside

    def forget(self, scope: Scope, task_id: str, config_id: str) -> None:
        """Forgets a config. Its receiver may have others."""
        self._configs.pop((scope, task_id, config_id), None)
