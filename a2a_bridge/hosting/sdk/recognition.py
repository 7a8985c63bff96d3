"""Recognises objects of the official SDK by the modules of their classes. It imports nothing of the SDK."""

from __future__ import annotations

import inspect
import sys
from typing import Any

#: the package of the interface of executors, and that of request handlers and applications
_EXECUTION, _HANDLERS, _APPS = "a2a.server.agent_execution", "a2a.server.request_handlers", "a2a.server.apps"
_WEB = {"starlette", "fastapi"}


def _modules(thing: Any) -> list[str]:
    """The modules of the classes of an object, or of a class."""
    kind = thing if inspect.isclass(thing) else type(thing)
    return [str(getattr(base, "__module__", "")) for base in kind.__mro__]


def _within(thing: Any, package: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for module in _modules(thing))


def is_executor(thing: Any) -> bool:
    """True for an executor of the SDK, for a class of them, and for a function without arguments that is
    annotated to return one.
    """
    if _within(thing, _EXECUTION):
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
    return inspect.isclass(returned) and _within(returned, _EXECUTION)


def executor_in(thing: Any) -> Any:
    """The executor that an application gives: an object, or what a class or a function without arguments
    makes; None if it is none.

    A function without an annotation is called if the SDK is imported: otherwise it has none to return.
    Raises TypeError for a class that needs arguments, and for a function that returns something else than it
    says.
    """
    if not is_executor(thing):
        if "a2a.server" not in sys.modules or not _is_factory(thing) or _annotated(thing):
            return None
        made = thing()
        return made if is_executor(made) and not inspect.isclass(made) else None
    if not inspect.isclass(thing) and _within(thing, _EXECUTION):
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
    if _within(thing, _EXECUTION):
        return "it is an abstract class of the a2a-sdk; give an executor with `execute` and `cancel`"
    if _within(thing, _HANDLERS):
        return (
            "it is a request handler of the a2a-sdk; give the executor in it: Agent(handler.agent_executor,"
            " card=…)"
        )
    if _within(thing, _APPS) or any(one.partition(".")[0] in _WEB for one in _modules(thing)):
        return (
            "it is a web application; give the executor that it was built with: Agent(executor, card=…). Or"
            " run it, and put `a2a-bridge gateway URL` before it"
        )
    return ""
