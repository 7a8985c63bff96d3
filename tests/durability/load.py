"""Callers that use all operations at once, at random by a seed, and note the promises to them.

The overlap of calls depends on the machine. A connection may break only after `hurt`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.callers import Caller, lost
from tests.durability.ledger import Ledger, Sent, resting

#: valid rejections for a call about a task that another caller has just ended
_TOO_LATE = {Reason.UNSUPPORTED_OPERATION, Reason.TASK_NOT_CANCELABLE}


@dataclass
class Load:
    """Callers at work. webhook: empty for no notifications. done: completed work by kind."""

    chance: random.Random
    ledger: Ledger
    idempotent: bool = False
    webhook: str = ""
    hurt: bool = False
    done: Counter[str] = field(default_factory=Counter)
    #: tasks of this load that may be read, and those that wait for an answer
    tasks: list[str] = field(default_factory=list)
    asking: list[str] = field(default_factory=list)
    pushed: set[str] = field(default_factory=set)

    async def run(self, callers: Sequence[Caller], workers: int, most: int = 1 << 30) -> None:
        """Works until the server is gone, or until `most` pieces of work were begun."""
        left = most

        async def work() -> None:
            nonlocal left
            while left > 0 and not self.hurt:
                left -= 1
                if not await self._one(self.chance.choice(callers)):
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())

    async def _one(self, caller: Caller) -> bool:
        """One piece of work. False when the server is gone."""
        action = self.chance.choices(_ACTIONS, _WEIGHTS)[0]
        name = action.__name__.strip("_")
        try:
            await action(self, caller)
        except A2AError as error:
            if lost(error):
                if not self.hurt:
                    self.ledger.wrong.append(
                        f"{caller.name} {name}: {error.reason.name} {error} without a cause"
                    )
                return False
            # The SDK reads each JSON-RPC error with this number as an internal one, UNAVAILABLE included.
            if self.hurt and error.reason is Reason.INTERNAL_ERROR and not caller.numbers:
                return False
            if error.reason not in _TOO_LATE:
                self.ledger.wrong.append(f"{caller.name} {name}: {error.reason.name} {error}")
        except Exception as error:  # noqa: BLE001  any error of a client goes into the report
            if not self.hurt:
                self.ledger.wrong.append(f"{caller.name} {name}: {type(error).__name__} {error}")
            return False
        else:
            self.done[name] += 1
        return True

    # ------------------------------------------------------------------ the kinds of work

    async def _quick(self, caller: Caller) -> None:
        sent = self._new("quick")
        self._answered(sent, await caller.send(sent.text, sent.message_id))

    async def _say(self, caller: Caller) -> None:
        sent = self._new("say")
        answer = await caller.send(sent.text, sent.message_id)
        sent.direct = answer.message.parts[0].text

    async def _immediate(self, caller: Caller) -> None:
        """Begins a task and watches it, often from the middle."""
        sent = self._new(self._long())
        answer = await caller.send(sent.text, sent.message_id, immediately=True)
        self._answered(sent, answer)
        if not resting(answer.task):
            await self._watch(caller, answer.task.id)

    async def _streamed(self, caller: Caller) -> None:
        await self._follow(caller, self._new(self._long()))

    async def _cut(self, caller: Caller) -> None:
        """Leaves a stream in the middle, and resumes it."""
        sent = self._new(self._long())
        position = await self._follow(caller, sent, self.chance.randint(1, 8))
        if sent.task_id and caller.numbers:
            await self._watch(caller, sent.task_id, position)

    async def _pushed(self, caller: Caller) -> None:
        if not self.webhook:
            return
        sent = self._new(self._long(), self.webhook)
        answer = await caller.send(sent.text, sent.message_id, immediately=True, webhook=sent.webhook)
        self._answered(sent, answer)

    async def _ask(self, caller: Caller) -> None:
        sent = self._new("ask")
        answer = await caller.send(sent.text, sent.message_id)
        self._answered(sent, answer)
        self.asking.append(answer.task.id)

    async def _answer(self, caller: Caller) -> None:
        if not self.asking:
            return
        task_id = self.asking.pop(self.chance.randrange(len(self.asking)))
        sent = self._new("answer")
        self._answered(sent, await caller.send(sent.text, sent.message_id, task_id=task_id))

    async def _cancelled(self, caller: Caller) -> None:
        sent = self._new(self.chance.choice(["hang", self._long()]))
        answer = await caller.send(sent.text, sent.message_id, immediately=True)
        self._answered(sent, answer)
        self.ledger.acknowledged(await caller.cancel(answer.task.id))

    async def _big(self, caller: Caller) -> None:
        sent = self._new(f"big {self.chance.choice([10, 5000, 100_000])}")
        self._answered(sent, await caller.send(sent.text, sent.message_id))

    async def _get(self, caller: Caller) -> None:
        if self.tasks:
            self.ledger.acknowledged(await caller.get(self.chance.choice(self.tasks)))

    async def _list(self, caller: Caller) -> None:
        for task in await caller.list(size=20):
            self.ledger.acknowledged(task)

    async def _again(self, caller: Caller) -> None:
        """Repeats an earlier message, whatever its result was."""
        if self.idempotent and self.ledger.sent:
            newest = list(self.ledger.sent.values())[-50:]
            await self.again(caller, self.chance.choice(newest))

    async def again(self, caller: Caller, sent: Sent) -> None:
        """Repeats a message exactly, and compares the answer with the first one."""
        if sent.verb == "answer":
            # Its task may have ended since; both a rejection and an answer are right.
            return
        immediately = sent.verb not in ("quick", "say")
        answer = await caller.send(sent.text, sent.message_id, immediately=immediately, webhook=sent.webhook)
        if answer.HasField("message"):
            text = answer.message.parts[0].text
            if sent.direct and sent.direct != text:
                self.ledger.wrong.append(f"{sent.message_id} was answered {sent.direct!r}, then {text!r}")
            sent.direct = text
            return
        if sent.task_id and sent.task_id != answer.task.id:
            self.ledger.wrong.append(f"{sent.message_id} made {sent.task_id}, then {answer.task.id}")
        self._answered(sent, answer)
        if sent.verb == "hang" and not resting(answer.task):
            # The task may have begun only now, and no other caller will end it.
            self.ledger.acknowledged(await caller.cancel(answer.task.id))

    # ------------------------------------------------------------------ means

    async def _follow(self, caller: Caller, sent: Sent, most: int = 1 << 30) -> int:
        """Streams a message, at most so many events. Returns the number of the last one."""
        stream = self.ledger.stream("")
        async with aclosing(caller.stream(sent.text, sent.message_id)) as events:
            async for shown in events:
                stream.show(shown)
                if not sent.task_id and stream.task_id:
                    self._known(sent, stream.task_id)
                most -= 1
                if not most:
                    break
        return stream.position

    async def _watch(self, caller: Caller, task_id: str, after: int | None = None) -> None:
        stream = self.ledger.stream(task_id, after)
        async with aclosing(caller.subscribe(task_id, after)) as events:
            async for shown in events:
                stream.show(shown)

    def _long(self) -> str:
        return f"{self.chance.choice(['chunks', 'steady'])} {self.chance.randint(1, 30)}"

    def _new(self, verb: str, webhook: str = "") -> Sent:
        """A new message, with a mark of its own."""
        mark = f"m{self.chance.getrandbits(60):015x}"
        sent = Sent(f"{verb} {mark}", f"id-{mark}", webhook)
        self.ledger.sent[sent.message_id] = sent
        return sent

    def _answered(self, sent: Sent, answer: hub.SendMessageResponse) -> None:
        task = answer.task
        self._known(sent, task.id)
        self.ledger.acknowledged(task)
        marks = {part.text.rpartition(":")[0] for artifact in task.artifacts for part in artifact.parts}
        if sent.verb in ("chunks", "steady") and task.status.state in TERMINAL and marks - {sent.mark}:
            self.ledger.wrong.append(f"{sent.message_id} was answered with somebody else's work")

    def _known(self, sent: Sent, task_id: str) -> None:
        sent.task_id = task_id
        if sent.webhook:
            self.pushed.add(task_id)
        self.tasks.append(task_id)


_Action = Callable[[Load, Caller], Awaitable[None]]
_ACTIONS: tuple[_Action, ...] = (
    Load._quick,
    Load._say,
    Load._immediate,
    Load._streamed,
    Load._cut,
    Load._pushed,
    Load._ask,
    Load._answer,
    Load._cancelled,
    Load._big,
    Load._get,
    Load._list,
    Load._again,
)
_WEIGHTS = (4, 1, 3, 4, 3, 3, 2, 2, 2, 1, 3, 1, 3)
