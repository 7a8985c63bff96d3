"""The live executions of one engine: finding, making and forgetting them, and how many there may be.

Rules:
1. There is one execution per task, from the moment somebody means to change the task until it is at rest.
2. A task that another live replica holds has none here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from a2a_bridge.core.errors import A2AError, Blame, Reason, task_not_found
from a2a_bridge.hosting.execution import EngineContext, Execution
from a2a_bridge.hosting.ports import Scope, VersionConflictError
from a2a_bridge.hosting.pressure import Pressure
from a2a_bridge.hosting.refusals import changed_hands, closing, too_many_tasks
from a2a_bridge.pb import lf_a2a_v1 as hub

#: how often to look again for a task that changes hands while it is being looked at
_LOOKS = 3


class NotOwnerError(A2AError):
    """Another live replica works on the task, or on the message. To callers: UNAVAILABLE.

    task: as it was when this was found; None for a message that has not led to one yet.
    """

    def __init__(self, holder: str, task: hub.Task | None = None) -> None:
        text = "the task is worked on by another replica"
        super().__init__(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
        self.holder = holder
        self.task = task


class Executions:
    """All that are live."""

    def __init__(self, engine: EngineContext) -> None:
        self._engine = engine
        self._live: dict[str, Execution] = {}
        self._pressure = Pressure(engine.store.memory, self)
        #: how many of them each scope has
        self._at_work: dict[Scope, int] = {}
        #: no further ones come to life: who stops those that are there has to know them all
        self.closed = False

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._live.values()))

    def get(self, scope: Scope, task_id: str) -> Execution | None:
        """The live execution of a task, if there is one within the scope."""
        execution = self._live.get(task_id)
        return execution if execution is not None and execution.scope == scope else None

    def begin(self, scope: Scope, task_id: str, context_id: str) -> Execution:
        """An execution for a new task. Raises RESOURCE_EXHAUSTED when the scope has too many at work or the process holds
        too much, and UNAVAILABLE.
        """
        if self.closed:
            raise closing()
        full = self._engine.store.memory.refusal()
        if full is not None:
            raise full
        most = self._engine.options.tasks
        at_work = self._at_work.get(scope, 0)
        if at_work >= most > 0:
            raise too_many_tasks(most)
        execution = Execution(self._engine, scope, task_id, context_id, self._on_idle, self._pressure)
        self._at_work[scope] = at_work + 1
        self._live[task_id] = execution
        return execution

    def crowded(self, execution: Execution) -> bool:
        """Whether its scope has more tasks at work than it may, so that no further one of them may be worked on."""
        return self._at_work.get(execution.scope, 0) > self._engine.options.tasks > 0

    async def enter(self, scope: Scope, task_id: str, ended: Callable[[Execution], A2AError]) -> Execution:
        """The execution of a task, held and visited: the caller has to `leave` it.

        Raises TASK_NOT_FOUND, what `ended` gives for a task that has ended, NotOwnerError, and UNAVAILABLE.
        """
        refusal = self._engine.store.refusal()
        for _ in range(_LOOKS):
            execution = await self._found(scope, task_id)
            if execution.ended:
                await execution.settled()
                raise ended(execution)
            if refusal is not None:
                raise refusal
            if self.closed:
                raise closing()
            self._enliven(execution)
            execution.visits += 1
            try:
                await execution.hold()
            except VersionConflictError:
                self._drop(execution)
            except BaseException:
                self._drop(execution)
                raise
            else:
                return execution
        raise changed_hands()

    async def look(self, scope: Scope, task_id: str) -> None:
        """Raises NotOwnerError when another live replica works on the task."""
        if self.get(scope, task_id) is None:
            stored = await self._engine.store.get(scope, task_id)
            if stored is not None and stored.holder and self.get(scope, task_id) is None:
                raise NotOwnerError(stored.holder, stored.task)

    async def _found(self, scope: Scope, task_id: str) -> Execution:
        """The execution of a task: the live one, else one over what is stored. Raises TASK_NOT_FOUND, NotOwnerError."""
        execution = self.get(scope, task_id)
        if execution is not None and execution.task is not None and not execution.copy.lost:
            return execution
        stored = await self._engine.store.get(scope, task_id)
        # Somebody may have brought it to life in the meantime.
        execution = self.get(scope, task_id)
        if stored is not None and (execution is None or execution.copy.lost):
            if stored.holder:
                raise NotOwnerError(stored.holder, stored.task)
            context_id = stored.task.context_id
            return Execution(self._engine, scope, task_id, context_id, self._on_idle, self._pressure, stored)
        if execution is None or execution.task is None or execution.copy.lost:
            raise task_not_found(task_id)
        return execution

    def _drop(self, execution: Execution) -> None:
        """Forgets an execution that did not get its task."""
        if not execution.copy.opening:
            self._bury(execution)
        execution.leave()

    def _on_idle(self, execution: Execution) -> None:
        if self._bury(execution):
            execution.let_go()

    def _enliven(self, execution: Execution) -> None:
        if execution.task_id not in self._live:
            self._at_work[execution.scope] = self._at_work.get(execution.scope, 0) + 1
        self._live[execution.task_id] = execution

    def _bury(self, execution: Execution) -> bool:
        """Forgets an execution; whether it was there."""
        if self._live.get(execution.task_id) is not execution:
            return False
        del self._live[execution.task_id]
        left = self._at_work[execution.scope] - 1
        if left:
            self._at_work[execution.scope] = left
        else:
            del self._at_work[execution.scope]
        return True
