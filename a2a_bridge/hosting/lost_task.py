"""Answers the senders of a task that another process has taken over, from the store.

It changes nothing: the new owner works on the task.
"""

from __future__ import annotations

import logging

from a2a_bridge.core.errors import A2AError, task_not_found
from a2a_bridge.hosting.live_task import LiveTask
from a2a_bridge.hosting.ports import GapError, Scope, Store, Stored
from a2a_bridge.hosting.refusals import changed_hands
from a2a_bridge.hosting.views import AT_REST, state_of
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")


async def answer_from_store(
    store: Store, scope: Scope, task_id: str, live: LiveTask, *, begins: bool
) -> None:
    """Answers all senders with the new owner's results.

    begins: True if the task was new here: then the senders have not seen a task, and may send their messages
    again. Raises A2AError if the store does not work.
    """
    try:
        stored = await store.get(scope, task_id)
    except A2AError as error:
        live.give_up(error)
        return
    if stored is None:
        live.give_up(changed_hands() if begins else task_not_found(task_id))
        return
    live.settle_elsewhere(stored.task, final=False)
    if live.awaited:
        live.settle_elsewhere(await _outcome(store, scope, stored), final=True)


async def _outcome(store: Store, scope: Scope, stored: Stored) -> hub.Task:
    """The task once its new owner has brought it to rest."""
    task_id = stored.task.id
    while stored.task.status.state not in AT_REST:
        subscription = store.subscribe(task_id, stored.last)
        try:
            while events := await subscription.take():
                if any(state_of(event) in AT_REST for event in events):
                    break
        except GapError:
            log.debug("events of task %s are lost; its present state is read", task_id)
        finally:
            subscription.close()
        again = await store.get(scope, task_id)
        if again is None:
            raise task_not_found(task_id)
        stored = again
    return stored.task
