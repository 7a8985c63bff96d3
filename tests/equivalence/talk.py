"""Transcripts whose ids, tokens and times are replaced by the order in which they first appear.

So relations between them still show. IGNORED names the members that are not compared, with the reason.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any

from a2a_bridge.codec import encoder
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.interop.script import PREFIX
from tests.patience import PATIENCE

#: JSON member -> the family its value is numbered in
NUMBERED = {
    "id": "id",
    "taskId": "id",
    "contextId": "id",
    "messageId": "id",
    "artifactId": "id",
    "referenceTaskIds": "id",
    "timestamp": "time",
    "nextPageToken": "token",
}

#: member -> the reason why it is not compared
IGNORED = {
    "supportedInterfaces": "a card says where it was served; a gateway's own tests check that it does",
    "pageSize": "a gateway says how many tasks a page holds, agents of SDKs how many were asked for",
}

_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


class Talk:
    """A client and its answers: (label, outcome) in order; an outcome is JSON or `{"error": …}`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.lines: list[tuple[str, Any]] = []
        self._numbers: dict[str, dict[str, str]] = {}

    async def ask(self, label: str, answer: Awaitable[Any]) -> Any:
        """Notes the answer, or the error; returns the answer, or None."""
        try:
            async with asyncio.timeout(PATIENCE):
                message = await answer
        except A2AError as error:
            self.note(label, error)
            return None
        self.note(label, message)
        return message

    async def watch(
        self, label: str, events: AsyncGenerator[Any, None], limit: int | None = None
    ) -> list[Any]:
        """Notes each event, up to `limit` of them, and the end of the stream; closes it.

        It stops at a task that waits for authorization: whether an agent then keeps the stream open is its
        own choice (spec 7.6.1 against 11.7).
        """
        seen: list[Any] = []
        try:
            async with asyncio.timeout(PATIENCE), aclosing(events):
                async for event in events:
                    seen.append(event)
                    self.note(f"{label} {len(seen)}", event)
                    if len(seen) == limit or _needs_authorization(event):
                        return seen
        except A2AError as error:
            self.note(f"{label} failed", error)
        else:
            self.note(f"{label} ended", None)
        return seen

    def note(self, label: str, outcome: Any) -> None:
        """Adds a line."""
        if outcome is None:
            self.lines.append((label, None))
            return
        tree = error_tree(outcome) if isinstance(outcome, A2AError) else encoder(type(outcome))(outcome)
        self.lines.append((label, self._canonical(tree)))

    def _canonical(self, tree: Any, member: str = "") -> Any:
        if isinstance(tree, dict):
            kept = {name: value for name, value in tree.items() if name not in IGNORED}
            return {name: self._canonical(value, name) for name, value in kept.items()}
        if isinstance(tree, list):
            return [self._canonical(item, member) for item in tree]
        family = NUMBERED.get(member)
        if isinstance(tree, str):
            if family is not None and tree:
                known = self._numbers.setdefault(family, {})
                return known.setdefault(tree, f"{family}-{len(known) + 1}")
            # Texts quote ids, and scripts the names of their gates.
            return _UUID.sub(lambda match: self._canonical(match[0], "id"), tree)
        return tree


def _needs_authorization(event: Any) -> bool:
    status = event.task.status if event.HasField("task") else event.status_update.status
    return bool(status.state == hub.TASK_STATE_AUTH_REQUIRED)


def error_tree(error: A2AError) -> Any:
    """The content of an error for a caller, over any binding."""
    return {
        "error": {
            "reason": error.reason.name,
            "name": error.name,
            "code": error.code,
            "message": error.message,
            "violations": [[item.field, item.description] for item in error.violations],
            "metadata": dict(error.metadata),
            "details": [dict(detail) for detail in error.details],
        }
    }


def message(*steps: str, parts: list[hub.Part] | None = None, **members: Any) -> hub.Message:
    """A user's message holding a script, or other parts."""
    if parts is None:
        parts = [hub.Part(text=f"{PREFIX} {'; '.join(steps)}")]
    return hub.Message(
        **{"message_id": "m-" + "-".join(steps)[:8], "role": hub.ROLE_USER, "parts": parts, **members}
    )


def sending(*steps: str, immediately: bool = False, **members: Any) -> hub.SendMessageRequest:
    request = hub.SendMessageRequest(message=message(*steps, **members))
    if immediately:
        request.configuration.return_immediately = True
    return request


async def finished(talk: Talk, label: str, task_id: str) -> None:
    """Notes the task once it has ended, by whatever way that is known."""
    try:
        async with (
            asyncio.timeout(PATIENCE),
            aclosing(talk.client.subscribe_to_task(hub.SubscribeToTaskRequest(id=task_id))) as events,
        ):
            async for _ in events:
                pass
    except A2AError:
        pass  # ended before the subscription: GetTask shows it
    await talk.ask(label, talk.client.get_task(hub.GetTaskRequest(id=task_id)))


def context(**parameters: str) -> CallContext:
    return CallContext(parameters={name.replace("_", "-"): value for name, value in parameters.items()})
