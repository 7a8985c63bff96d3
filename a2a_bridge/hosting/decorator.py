"""The decorator that makes an agent from a plain function.

A function that returns a value answers directly. A function that yields, or is declared with `task=True`,
works on a task. Each call of a synchronous function has a thread of its own, beside the event loop.

Rules of threads:
1. A thread cannot be stopped. A cancelled call sets `run.cancelled` and is not waited for; its result is
   dropped, and a generator is closed at its next value. It counts as running until it has ended.
2. A generator stays in one thread from its first value to its last, with the context variables of its call.
3. The threads are daemons, so that a function that does not return does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextvars import copy_context
from typing import Any, Self, overload

from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.messages import AT_REST
from a2a_bridge.hosting.executor import AgentExecutor, Event, Run
from a2a_bridge.hosting.hosted_agent import JSON, TEXT, Agent, ExtendedCard
from a2a_bridge.hosting.identifiers import new_id
from a2a_bridge.hosting.parameters import Arguments, Takes, code_of, describe, takes
from a2a_bridge.pb import lf_a2a_v1 as hub

#: concurrent threads of one agent; further calls wait
MOST = 64
#: values that a generator may be ahead of its reader
_AHEAD = 32

_END = object()
_STATES = (hub.Task, hub.TaskStatusUpdateEvent)


@overload
def agent(function: Callable[..., Any], /) -> Agent: ...


@overload
def agent(
    *,
    name: str = "",
    description: str = "",
    task: bool = False,
    version: str = "1.0.0",
    skills: Sequence[hub.AgentSkill] = (),
    streaming: bool = True,
    push_notifications: bool = False,
    extensions: Sequence[hub.AgentExtension] = (),
    provider: hub.AgentProvider | None = None,
    input_modes: Sequence[str] = (),
    output_modes: Sequence[str] = TEXT,
    extended_card: ExtendedCard | None = None,
    icon_url: str = "",
    documentation_url: str = "",
    security: Mapping[str, hub.SecurityScheme] | None = None,
) -> Callable[[Callable[..., Any]], Agent]: ...


def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    task: bool = False,
    **members: Any,
) -> Any:
    """Makes an agent from a function of the message's text, of a `Run`, or of a value of another type: the
    data part of the message, whose JSON schema is then in the card (see `hosting.parameters`).

    The name is the function's, description and skill come from its docstring. The returned value (text,
    bytes, JSON, a Part, a list of Parts, a Message) is the direct response. If it yields, or with
    `task=True`, there is a task: the yielded values are the chunks of an artifact, a yielded Message becomes
    the status message, and events (`run.status`, `run.artifact`) pass unchanged.

    A synchronous function, or generator, runs in a thread (`Threads`). A decorated method of a class is an
    agent of each instance.

    Raises TypeError for anything but a function of at most one argument, and for a parameter of a type that
    no message has.
    """

    def make(decorated: Callable[..., Any]) -> Any:
        if isinstance(decorated, str):
            raise TypeError(f"@agent takes no text: write @agent(name={decorated!r})")
        if inspect.isclass(decorated):
            raise TypeError(f"{decorated.__name__} is a class: decorate its method, or a function")
        if isinstance(decorated, Agent):
            raise TypeError(f"{decorated!r} is an agent already: decorate its function once")
        if not callable(decorated):
            raise TypeError(f"{type(decorated).__name__} is no function: write @agent above an async def")
        code = code_of(decorated)
        if (
            inspect.isfunction(decorated)
            and next(iter(inspect.signature(decorated).parameters), "") == "self"
        ):
            return _AgentMethod(make, decorated)
        taken = takes(decorated)
        card = dict(members)
        if taken.schema is not None:
            card["extensions"] = [*card.get("extensions", ()), describe(taken.schema)]
            card.setdefault("input_modes", JSON)
        executor: AgentExecutor
        if inspect.isasyncgenfunction(code):
            executor = _Yielding(taken, lambda _, given: decorated(*given))
        elif inspect.isgeneratorfunction(code):
            executor = _Yielding(taken, Threads(decorated).values)
        else:
            waits = inspect.iscoroutinefunction(code)
            call = (lambda _, given: decorated(*given)) if waits else Threads(decorated).result
            executor = _Working(taken, call) if task else _Replying(taken, call, decorated if waits else None)
        named = code if inspect.isroutine(decorated) else getattr(decorated, "func", decorated)
        title = name or getattr(named, "__name__", "agent")
        text = description or inspect.getdoc(named) or title
        return Agent(executor, name=title, description=text, function=decorated, **card)

    return make if function is None else make(function)


class _AgentMethod:
    """A decorated method: for each instance the agent of its bound method."""

    def __init__(self, make: Callable[[Callable[..., Any]], Agent], function: Callable[..., Any]) -> None:
        self._make = make
        self._function = function
        self._name = ""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | Agent:
        if instance is None:
            return self
        made = self._make(self._function.__get__(instance, owner))
        if hasattr(instance, "__dict__"):
            vars(instance)[self._name] = made  # which is found before this object from now on
        return made


def _content(value: Any) -> Any:
    """The result of a function. Raises A2AError INVALID_AGENT_RESPONSE if there is none."""
    if value is None:
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "the agent ended without an answer", blame=Blame.SELF)
    return value


class _Replying(AgentExecutor):
    """A function that returns its response. function: if it is async, so that no frame is between."""

    def __init__(
        self,
        taken: Takes,
        call: Callable[[Run, Arguments], Awaitable[Any]],
        function: Callable[..., Awaitable[Any]] | None,
    ) -> None:
        self._arguments = taken.arguments
        self._call = call
        self._function = function

    async def reply(self, run: Run, /) -> hub.Message:
        given, function = self._arguments(run), self._function
        value = await (self._call(run, given) if function is None else function(*given))
        return run.reply(_content(value) if value is None else value)

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        yield await self.reply(run)


class _Working(AgentExecutor):
    """A function that returns the result of a task."""

    def __init__(self, taken: Takes, call: Callable[[Run, Arguments], Awaitable[Any]]) -> None:
        self._arguments = taken.arguments
        self._call = call

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        given = self._arguments(run)  # before the first event, so that a rejected message makes no task
        if run.is_new:
            yield run.start()
        yield run.status(hub.TASK_STATE_WORKING)
        result = await self._call(run, given)
        if isinstance(result, hub.Message):
            yield run.status(hub.TASK_STATE_COMPLETED, result)
            return
        yield run.artifact(_content(result))
        yield run.status(hub.TASK_STATE_COMPLETED)


class _Yielding(AgentExecutor):
    """A generator whose values are the chunks of one artifact. No chunk is marked as the last: that is known
    only at the end, and to hold a chunk back would delay the output. The status that follows shows that the
    artifact is complete.
    """

    def __init__(self, taken: Takes, call: Callable[[Run, Arguments], AsyncIterator[Any]]) -> None:
        self._arguments = taken.arguments
        self._call = call

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        given = self._arguments(run)  # before the first event, so that a rejected message makes no task
        if run.is_new:
            yield run.start()
        yield run.status(hub.TASK_STATE_WORKING)
        artifact_id = new_id()
        begun = at_rest = False
        values = self._call(run, given)
        try:
            async for value in values:
                if isinstance(value, hub.TaskArtifactUpdateEvent):
                    yield value
                elif isinstance(value, _STATES):
                    # The function's own event may leave the task waiting or ended.
                    at_rest = value.status.state in AT_REST
                    yield value
                elif isinstance(value, hub.Message):
                    yield run.status(hub.TASK_STATE_WORKING, value)
                else:
                    content = _content(value)
                    yield run.artifact(content, artifact_id=artifact_id, append=begun, last=False)
                    begun = True
        finally:
            close = getattr(values, "aclose", None)
            if close is not None:
                await close()
        if not at_rest:
            yield run.status(hub.TASK_STATE_COMPLETED)


class Threads:
    """The threads of one agent."""

    def __init__(self, function: Callable[..., Any], most: int = MOST) -> None:
        self._function = function
        self._most = most
        self._running = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def result(self, run: Run, arguments: tuple[Any, ...]) -> Any:
        """The result of the function, awaited if it is awaitable. Raises the function's errors."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def work(callback: Callable[..., None]) -> None:
            try:
                value = self._function(*arguments)
            except BaseException as error:  # noqa: BLE001  raised in the loop
                callback(_fail, outcome, error)
            else:
                callback(_settle, outcome, value)

        await self._start(work, run)
        try:
            value = await outcome
        except asyncio.CancelledError:
            run.cancel()
            raise
        return await value if inspect.isawaitable(value) else value

    async def values(self, run: Run, arguments: tuple[Any, ...]) -> AsyncIterator[Any]:
        """The generator's values for a run, in order. Raises the generator's errors."""
        results: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()
        room = threading.Semaphore(_AHEAD)
        closed = threading.Event()

        def work(callback: Callable[..., None]) -> None:
            try:
                values: Generator[Any, None, None] = self._function(*arguments)
                with contextlib.closing(values):
                    for value in values:
                        callback(results.put_nowait, (value, None))
                        room.acquire()
                        if closed.is_set():
                            return
            except BaseException as error:  # noqa: BLE001  raised in the loop
                callback(results.put_nowait, (_END, error))
            else:
                callback(results.put_nowait, (_END, None))

        await self._start(work, run)
        try:
            while True:
                value, error = await results.get()
                if value is _END:
                    if error is not None:
                        raise _raisable(error)
                    return
                yield value
                room.release()
        except (asyncio.CancelledError, GeneratorExit):
            run.cancel()
            raise
        finally:
            closed.set()
            room.release()

    async def _start(self, work: Callable[[Callable[..., None]], None], run: Run) -> None:
        """Runs `work` in a thread, once a thread is free."""
        loop = asyncio.get_running_loop()
        while self._running >= self._most:
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if not place.cancelled():
                    self._wake_next()  # this call does not take the thread that is free
                raise
            finally:
                if place in self._waiting:
                    self._waiting.remove(place)
        self._running += 1
        context = copy_context()

        def callback(what: Callable[..., object], *arguments: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all waiters
                loop.call_soon_threadsafe(what, *arguments)

        def thread() -> None:
            try:
                context.run(work, callback)
            finally:
                callback(self._on_end)

        threading.Thread(target=thread, name=f"a2a run {run.task_id}", daemon=True).start()

    def _on_end(self) -> None:
        self._running -= 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            place = self._waiting.pop(0)
            if not place.done():  # else its call has left
                place.set_result(None)
                break


def _settle(outcome: asyncio.Future[Any], value: Any) -> None:
    if not outcome.done():
        outcome.set_result(value)
    elif inspect.iscoroutine(value):
        value.close()


def _fail(outcome: asyncio.Future[Any], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(_raisable(error))


def _raisable(error: BaseException) -> BaseException:
    """The error in a form that a coroutine may raise: it ends no iteration, asyncio task or process."""
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    made = RuntimeError(f"the function raised {type(error).__name__}")
    made.__cause__ = error
    return made
