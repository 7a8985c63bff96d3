"""Transcripts whose ids, as they differ from run to run, are replaced by the order in which they appear."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tests.peers.callers import Caller, Rejected

#: Seconds that one exchange may take. Agents of the 0.x SDKs sometimes leave streams open for ever, and each
#: such stream takes this time.
PATIENCE = 90.0

NUMBERED = frozenset({"id", "taskId", "contextId", "messageId", "artifactId"})
#: members with content of users
OPAQUE = frozenset({"data", "metadata"})
#: member -> the reason why it is not compared
IGNORED = {
    "timestamp": "each agent has its own clock, and protobuf layers of older SDKs drop it; tests/gateway compares it, in raw JSON through two gateways",
    "pageSize": "a gateway says how many tasks a page holds, agents of SDKs how many were asked for",
    "url": "a card says where it was served",
    "additionalInterfaces": "a card says where it was served",
    "preferredTransport": "a card says where it was served",
    "supportedInterfaces": "a card says where it was served",
    "protocolVersion": "a card says what is spoken there",
}
#: a generated id; not the code of preserved content, which has as many digits and is followed by `.{`
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?!\.\{)")

Lines = list[tuple[str, Any]]


class Talk:
    """One conversation: a caller and its answers so far, as (label, tree) in order."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._numbers: dict[str, str] = {}
        self.lines: Lines = []

    async def ask(self, label: str, operation: str, params: Any) -> Any:
        """Notes the result or the rejection; returns the result, or None."""
        try:
            async with asyncio.timeout(PATIENCE):
                result = await self._caller.unary(operation, params)
        except Rejected as rejected:
            self.note(label, rejected)
            return None
        self.note(label, result)
        return result

    async def watch(self, label: str, operation: str, params: Any) -> None:
        """Notes every event and how the stream ended."""
        async with self.following(label, operation, params) as events:
            await events.rest()

    @asynccontextmanager
    async def following(self, label: str, operation: str, params: Any) -> AsyncIterator[Followed]:
        """A stream that is read in the background."""
        followed = Followed(self, label, self._caller.stream(operation, params))
        try:
            yield followed
        finally:
            await followed.close()

    def note(self, label: str, outcome: Any) -> None:
        if isinstance(outcome, Rejected):
            message = self._canonical(outcome.message, "text")
            self.lines.append((label, {"rejected": outcome.reason, "message": message}))
        else:
            self.lines.append((label, self._canonical(outcome)))

    def _canonical(self, tree: Any, member: str = "") -> Any:
        if isinstance(tree, dict):
            return {
                name: value if name in OPAQUE and isinstance(value, dict) else self._canonical(value, name)
                for name, value in sorted(tree.items())
                if name not in IGNORED or (name == "url" and "token" in tree)
            }
        if isinstance(tree, list):
            return [self._canonical(item, member) for item in tree]
        if isinstance(tree, str):
            if member in NUMBERED and tree:
                return self._numbers.setdefault(tree, f"id-{len(self._numbers) + 1}")
            return _UUID.sub(lambda match: self._canonical(match[0], "id"), tree)
        return tree


class Followed:
    """One stream, read by a task of its own."""

    def __init__(self, talk: Talk, label: str, events: Any) -> None:
        self._talk, self._label = talk, label
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._reader = asyncio.create_task(self._read(events))

    async def _read(self, events: Any) -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    self._queue.put_nowait(("event", event))
                    self._begun.set()
        except Rejected as rejected:
            self._queue.put_nowait(("rejected", rejected))
        else:
            self._queue.put_nowait(("ended", None))
        finally:
            self._begun.set()

    async def begun(self) -> None:
        """Waits for the first event."""
        async with asyncio.timeout(PATIENCE):
            await self._begun.wait()

    async def take(self, label: str, *, ticking: bool = False) -> Any:
        """The next event, noted; None if there is none. ticking: as in `rest`."""
        sort, event = await self._next(ticking)
        self._talk.note(f"{self._label} {label}", event if sort != "ended" else "ended")
        return event if sort == "event" else None

    async def rest(self, *, ticking: bool = False) -> None:
        """Notes the further events and the end. ticking: neither ticks nor a snapshot of the task are noted."""
        while True:
            sort, event = await self._next(ticking)
            # Not numbered: a line that is left out of a comparison must not rename the others.
            self._talk.note(f"{self._label} {sort}", event)
            if sort != "event":
                return

    async def _next(self, ticking: bool) -> tuple[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                sort, event = await self._queue.get()
                if sort != "event":
                    self._queue.put_nowait((sort, event))  # for the next call
                if not (ticking and sort == "event" and (event["kind"] == "task" or _is_tick(event))):
                    return sort, event

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


def _is_tick(event: Any) -> bool:
    status = event.get("status", {})
    spoken = status.get("message", {}).get("parts")
    return event["kind"] == "status-update" and status["state"] == "working" and not spoken


#: the label of a line for a missing event within the time limit
STUCK = "nothing came"


async def transcripts(caller: Caller, names: Iterable[str] | None = None) -> dict[str, Lines]:
    """Every conversation that a caller can have, or the named ones, concurrently."""
    from tests.peers.conversations import CONVERSATIONS

    async def one(name: str) -> tuple[str, Lines]:
        talk = Talk(caller)
        try:
            await CONVERSATIONS[name].hold(talk)
        except TimeoutError:
            talk.lines.append((STUCK, None))
        return name, talk.lines

    wanted = CONVERSATIONS if names is None else names
    able = [name for name in wanted if CONVERSATIONS[name].needs <= caller.operations]
    return dict(await asyncio.gather(*(one(name) for name in able)))


async def settled(caller: Caller, names: Iterable[str] | None = None) -> dict[str, Lines]:
    """The transcript without us; repeated if an agent of 0.x leaves a stream open for ever."""
    first = await transcripts(caller, names)
    return first | await transcripts(
        caller, [name for name, lines in first.items() if (STUCK, None) in lines]
    )
