"""Objects of the official SDK, recognised by the modules of their classes; types of the installed SDK, and
its cards. A type set converts between them and the hub. The SDK is not imported before an object of it is
given.
"""

import inspect
import sys
from functools import cache, wraps
from typing import Any, Protocol

from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects.v0_3 import card as card_v0_3
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the package of the interface of executors, and that of request handlers and applications
_EXECUTION, _HANDLERS, _APPS = "a2a.server.agent_execution", "a2a.server.request_handlers", "a2a.server.apps"
_WEB = {"starlette", "fastapi"}


def _modules(thing: Any) -> list[str]:
    """The modules of the classes of an object, or of a class."""
    kind = thing if inspect.isclass(thing) else type(thing)
    return [str(getattr(base, "__module__", "")) for base in kind.__mro__]


def comes_from(thing: Any, package: str) -> bool:
    """True if a class of the object (or the given class), or a base of it, is defined in this package."""
    return any(module == package or module.startswith(f"{package}.") for module in _modules(thing))


def is_executor(thing: Any) -> bool:
    """True for an executor of the SDK, for a class of them, and for a function without arguments that is
    annotated to return one.
    """
    if comes_from(thing, _EXECUTION):
        return callable(getattr(thing, "execute", None)) and not inspect.isabstract(thing)
    return _is_factory(thing) and _returns_executor(thing)


def _is_factory(thing: Any) -> bool:
    """True for a function that can be called without arguments, and is no coroutine function."""
    if not inspect.isroutine(thing) and not hasattr(thing, "func"):
        return False
    if inspect.iscoroutinefunction(thing) or inspect.isgeneratorfunction(thing):
        return False
    try:
        inspect.signature(thing).bind()
    except (TypeError, ValueError):
        return False
    return not inspect.isasyncgenfunction(thing)


def _returns_executor(function: Any) -> bool:
    plain = getattr(function, "func", function)
    returned = getattr(plain, "__annotations__", {}).get("return")
    if isinstance(returned, str):  # as `from __future__ import annotations` leaves it
        returned = getattr(plain, "__globals__", {}).get(returned)
    return inspect.isclass(returned) and comes_from(returned, _EXECUTION)


def executor_in(thing: Any) -> Any:
    """The executor in an object, or made by a class or a function without arguments; None if there is none.

    A function without an annotation is called only if the SDK is imported: otherwise it has none to return.
    Raises TypeError for a class that needs arguments, and for a function that returns something else.
    """
    if not is_executor(thing):
        if "a2a.server" not in sys.modules or not _is_factory(thing) or _annotated(thing):
            return None
        made = thing()
        return made if is_executor(made) and not inspect.isclass(made) else None
    if not inspect.isclass(thing) and comes_from(thing, _EXECUTION):
        return thing
    name = getattr(thing, "__name__", type(thing).__name__)
    try:
        inspect.signature(thing).bind()
    except TypeError:
        text = f"{name} needs arguments: give an object of it, or a function without arguments that makes one"
        raise TypeError(text) from None
    made = thing()
    if not is_executor(made):
        raise TypeError(f"{name} made a {type(made).__name__}, which is no executor of the a2a-sdk")
    return made


def _annotated(function: Any) -> bool:
    return "return" in getattr(getattr(function, "func", function), "__annotations__", {})


def remedy(thing: Any) -> str:
    """What to give instead of an object of the SDK, or of a web application; empty for any other object."""
    if comes_from(thing, _EXECUTION):
        return "it is an abstract class of the a2a-sdk; give an executor with `execute` and `cancel`"
    if comes_from(thing, _HANDLERS):
        return (
            "it is a request handler of the a2a-sdk; give the executor in it: Agent(handler.agent_executor,"
            " card=…)"
        )
    if comes_from(thing, _APPS) or any(one.partition(".")[0] in _WEB for one in _modules(thing)):
        return (
            "it is a web application; give the executor that it was built with: Agent(executor, card=…). Or"
            " run it, and put `a2a-bridge gateway URL` before it"
        )
    return ""


class SdkAgentExecutor(Protocol):
    """An executor of the SDK, as far as type checkers know one without the SDK."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answers a message with events for the queue."""

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Ends the work on a task."""


class SdkTypes(Protocol):
    """The types of one major version of the SDK."""

    #: the base class of the queues that executors get
    queue: type[Any]
    #: True if the SDK's server answers with the first message of a run, also after a task, and drops the rest
    message_is_end: bool

    def request_context(self, run: Run, related: list[hub.Task]) -> Any:
        """The SDK's RequestContext of a run. related: the tasks that the message refers to."""

    def event(self, event: Any, run: Run) -> Event | None:
        """An event of the SDK as one of the hub, with the context of the run; None for an event that the
        SDK's server ignores. Raises ExecutorError.
        """

    def error(self, raised: BaseException) -> A2AError | None:
        """The error of the protocol in an exception of the SDK; None for any other exception."""

    def activated(self, context: Any) -> set[str] | None:
        """The extensions that an executor has activated in its RequestContext; None if it cannot."""


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
    """The hub's card for a card of the SDK, also for one that a function returns; other objects unchanged."""
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
