"""Agents for tests, on the real engine: one that echoes, one that waits, one that follows a script."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import text_part
from a2a_bridge.hosting import Agent, AgentExecutor, Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds after which a missing release counts as a defect of the test
PATIENCE = 120.0

_Step = Callable[[Run, str], AsyncIterator[Event]]


class EchoAgent(Agent):
    """Answers every message directly, with the same parts, metadata and extensions."""

    def __init__(self, **members: Any) -> None:
        usual: dict[str, Any] = {"name": "echo", "description": "Gives back what it gets"}
        super().__init__(_Echo(), **usual | members)


class SlowAgent(Agent):
    """Answers only after the test releases it: `await agent.wait_running(n)`, then `agent.release()`."""

    def __init__(self, **members: Any) -> None:
        self._slow = _Slow()
        usual: dict[str, Any] = {"name": "slow", "description": "Answers when it is released"}
        super().__init__(self._slow, **usual | members)

    @property
    def cancelled(self) -> int:
        """The number of messages that were cancelled before their response."""
        return self._slow.cancelled

    async def wait_running(self, count: int) -> None:
        """Waits until exactly `count` messages wait for their responses, at most PATIENCE seconds."""
        async with asyncio.timeout(PATIENCE), self._slow.changed:
            await self._slow.changed.wait_for(lambda: self._slow.running == count)

    def release(self) -> None:
        """Answers all waiting and all later messages."""
        self._slow.released.set()


class ScriptedAgent(Agent):
    """Follows the script in the first text of a message.

    - `message TEXT`: a Message with that text
    - `data`: a Message with all parts and the metadata of the message
    - `task TEXT`: submitted, working, one artifact with that text, completed
    - `chunks N`: the same with an artifact in N chunks
    - `big N`: the same with an artifact of N bytes
    - `input QUESTION`: a task that asks, and completes with the response as its artifact
    - `auth`: a task that needs authentication, and completes with the next message
    - `fail`, `reject`: a task that ends in that state
    - `error REASON`: that A2AError, before there is a task
    - `late REASON`: that A2AError, while a task works
    - `crash`: an exception that is no A2AError; `crash task`: while a task works
    - `illegal`: a task that goes back from working to submitted
    - `unfinished`: a task that is left working
    - `silent`: no event
    - `slow`: a task that works until it is cancelled

    Anything else is echoed. The second message of a task always finishes it.
    """

    def __init__(self, **members: Any) -> None:
        """`members`: as for Agent. All capabilities are on by default."""
        usual: dict[str, Any] = {
            "name": "scripted",
            "description": "Does what it is told",
            "push_notifications": True,
        }
        super().__init__(_Scripted(), **usual | members)


class _Echo(AgentExecutor):
    async def reply(self, run: Run, /) -> hub.Message:
        return _same(run)

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        yield _same(run)


class _Slow(AgentExecutor):
    def __init__(self) -> None:
        self.running = 0
        self.cancelled = 0
        self.changed = asyncio.Condition()
        self.released = asyncio.Event()

    async def reply(self, run: Run, /) -> hub.Message:
        await self._count(1)
        try:
            async with asyncio.timeout(PATIENCE):
                await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            await self._count(-1)
        return _same(run)

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        yield await self.reply(run)

    async def _count(self, change: int) -> None:
        self.running += change
        async with self.changed:
            self.changed.notify_all()


class _Scripted(AgentExecutor):
    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        verb, _, rest = run.text.partition(" ")
        step = _STEPS.get(verb, _echo) if run.task is None else _second
        async for event in step(run, rest):
            yield event


async def _echo(run: Run, _: str) -> AsyncIterator[Event]:
    yield _same(run)


async def _message(run: Run, text: str) -> AsyncIterator[Event]:
    yield _answer(run, [text_part(text)])


async def _task(run: Run, text: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    yield run.artifact(text or "done", artifact_id="answer", name="Answer")
    yield run.status("completed")


async def _chunks(run: Run, count: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    last = int(count) - 1
    for number in range(int(count)):
        yield run.artifact(f"chunk {number} ", artifact_id="answer", append=number > 0, last=number == last)
    yield run.status("completed")


async def _big(run: Run, size: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.artifact(b"\xa5" * int(size), artifact_id="answer")
    yield run.status("completed")


async def _input(run: Run, question: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    yield run.status("input-required", _answer(run, [text_part(question or "and then?")]))


async def _auth(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("auth-required", _answer(run, [text_part("who are you?")]))


async def _second(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.status("working")
    yield run.artifact(run.text, artifact_id="answer")
    yield run.status("completed")


async def _fail(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("failed", _answer(run, [text_part("it did not work")]))


async def _reject(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.status("rejected", _answer(run, [text_part("not with me")]))


async def _error(_: Run, reason: str) -> AsyncIterator[Event]:
    raise A2AError(Reason[reason], f"scripted {reason}")
    yield  # type: ignore[unreachable]  # makes this a generator


async def _late(run: Run, reason: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    raise A2AError(Reason[reason], f"scripted {reason}")


async def _crash(run: Run, when: str) -> AsyncIterator[Event]:
    if when:
        yield run.start()
    raise RuntimeError("a secret of the agent")


async def _illegal(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.status("working")
    yield run.status("submitted")


async def _unfinished(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.status("working")


async def _silent(_: Run, __: str) -> AsyncIterator[Event]:
    nothing: tuple[Event, ...] = ()
    for event in nothing:
        yield event


async def _slow(run: Run, _: str) -> AsyncIterator[Event]:
    yield run.start()
    yield run.status("working")
    await run.wait_cancelled()


_STEPS: dict[str, _Step] = {
    step.__name__[1:]: step
    for step in (
        *(_message, _task, _chunks, _big, _input, _auth, _fail, _reject),
        *(_error, _late, _crash, _illegal, _unfinished, _silent, _slow),
    )
}


def _answer(run: Run, parts: list[hub.Part]) -> hub.Message:
    """A message whose id is derived from the one it answers."""
    return hub.Message(message_id=f"re-{run.message.message_id}", role=hub.ROLE_AGENT, parts=parts)


def _same(run: Run) -> hub.Message:
    answer = _answer(run, list(run.parts))
    answer.extensions.extend(run.message.extensions)
    if run.message.HasField("metadata"):
        answer.metadata.CopyFrom(run.message.metadata)
    return answer
