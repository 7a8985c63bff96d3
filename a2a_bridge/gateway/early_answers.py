"""Waiting for a task in place of an agent that answers a message at once.

Without `returnImmediately`, the answer of 1.0 is a message, or a task that has ended or waits for its caller
(spec 3.1.1). Agents whose profile has `answers_early` answer with the task as it begins.

Rules:
1. The agent is asked for the task until it rests, or until the time of the call is nearly over: then the
   caller gets the task as it is.
2. An error of GetTask ends the wait, and is not the caller's.
3. The agent does not get `returnImmediately`: a2a-java 1.0.0.Alpha3 rejects each message that has it.
4. For another agent, the first such answer is logged with what to do: the task may work for days.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from a2a_bridge.bindings.bounded import fetch_task
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import RUNNING
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub

logger = logging.getLogger("a2a_bridge.gateway.early_answers")

#: seconds between two questions: the first, and the longest
_PAUSE, _LONGEST = 0.05, 2.0
#: part of the time of a call that is left for its answer
_LEFT = 0.1


class EarlyAnswers:
    """waits: whether the agent's profile has the quirk. limit: seconds of a call without a deadline; None: no
    limit.
    """

    def __init__(self, service: Service, *, waits: bool, limit: float | None) -> None:
        self._service = service
        self._waits = waits
        self._limit = limit
        self._is_logged = False

    def adapt(self, call: Call[Any, Any]) -> Call[Any, Any]:
        """The call for an agent that never waits, without `returnImmediately`."""
        if not self._waits or not call.request.configuration.return_immediately:
            return call
        request = hub.SendMessageRequest()
        request.CopyFrom(call.request)
        request.configuration.ClearField("return_immediately")
        return Call(call.operation, request, call.context)

    async def wait(self, call: Call[Any, Any], response: hub.SendMessageResponse) -> hub.SendMessageResponse:
        """The response with its task at rest, if it rests in time."""
        if not self._waits:
            if not self._is_logged:
                self._is_logged = True
                logger.warning(
                    "the agent answers a message that waits with a task in work; --peer fasta2a-2 makes this"
                    " gateway wait for its tasks"
                )
            return response
        configuration = call.request.configuration
        members = (
            {"history_length": configuration.history_length}
            if configuration.HasField("history_length")
            else {}
        )
        deadline = call.context.deadline
        limit = self._limit
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic()) * (1 - _LEFT)
            limit = left if limit is None else min(limit, left)
        task, pause = response.task, _PAUSE
        try:
            async with asyncio.timeout(limit):
                while task.status.state in RUNNING:
                    await asyncio.sleep(pause)
                    pause = min(_LONGEST, 1.5 * pause)
                    task = await fetch_task(self._service, call, task.id, seconds=None, **members)
        except TimeoutError:
            logger.debug("task %s still works at the end of its call", task.id)
        except A2AError as error:
            logger.debug("task %s cannot be waited for: %s", task.id, error)
        return hub.SendMessageResponse(task=task)
