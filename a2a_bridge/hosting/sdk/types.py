"""The types of the SDK that is installed, and its cards. A type set converts between them and the hub."""

from __future__ import annotations

import inspect
from functools import cache, wraps
from typing import Any, Protocol

from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects.v0_3 import card as card_v0_3
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub


class SdkAgentExecutor(Protocol):
    """An executor of the SDK, as far as type checkers know one without the SDK."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answers a message with events for the queue."""
        ...

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Ends the work on a task."""
        ...


class SdkTypes(Protocol):
    """The types of one major version of the SDK."""

    #: the base class of the queues that executors get
    queue: type[Any]
    #: True if the SDK's server answers with the first message of a run, also after a task, and drops the rest
    message_is_end: bool

    def request_context(self, run: Run, related: list[hub.Task]) -> Any:
        """The SDK's RequestContext of a run. related: the tasks that the message refers to."""
        ...

    def event(self, event: Any, run: Run) -> Event | None:
        """An event of the SDK as one of the hub, with the context of the run; None for one that the SDK's
        server ignores. Raises ExecutorError.
        """
        ...

    def error(self, raised: BaseException) -> A2AError | None:
        """The error of the protocol in an exception of the SDK; None for any other exception."""
        ...

    def activated(self, context: Any) -> set[str]:
        """The extensions that an executor has activated in its RequestContext."""
        ...


@cache
def installed_types() -> SdkTypes:
    """The types of the SDK of this process."""
    from a2a import types as sdk  # an optional package, which whoever gives an executor has imported

    if hasattr(sdk.Message, "DESCRIPTOR"):
        from a2a_bridge.hosting.sdk.v1 import TypesV1

        return TypesV1()
    from a2a_bridge.hosting.sdk.v0_3 import TypesV03

    return TypesV03()


def card_of(given: Any) -> Any:
    """The card of the hub for a card of the SDK, also for one that a function returns; any other object
    unchanged.
    """
    if inspect.isroutine(given):
        return _card_function(given)
    module = type(given).__module__
    if module != "a2a" and not module.startswith(("a2a.", "a2a_pb2", "lf.a2a")):
        return given
    if hasattr(given, "SerializeToString"):
        return hub.AgentCard.FromString(given.SerializeToString())
    if hasattr(given, "model_dump"):
        tree = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        return card_v0_3.without_carrier(card_v0_3.FORM.decode(tree))
    return given


def _card_function(function: Any) -> Any:
    @wraps(function)
    async def made(context: Any) -> Any:
        card = function(context)
        return card_of(await card if inspect.isawaitable(card) else card)

    return made
