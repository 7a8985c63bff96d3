"""Nodes and checkpointers of compiled graphs: what their structure says before a run."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from langgraph.graph import END

#: the names of a graph and the graphs around it, from outside: of the nodes that run them
Path = tuple[str, ...]

#: nodes of LangChain after a model that change no text
_HARMLESS = (
    "HumanInTheLoopMiddleware.",
    "ModelCallLimitMiddleware.",
    "TodoListMiddleware.",
    "ToolCallLimitMiddleware.",
    "ToolCallLimitMiddleware[",
    "generate_structured_response",
)
#: the variable with all of `wrap_model_call` in the node of a model
_HANDLER = "awrap_model_call_handler"
#: those of LangChain that drop an answer of the model
_GUARDS = ("ModelRefusalMiddleware.awrap_model_call",)
#: packages whose other functions around a model change no text of it
_LANGCHAIN = frozenset(
    {"langchain", "langchain_anthropic", "langchain_aws", "langchain_core", "langchain_openai", "langsmith"}
)


def last_nodes(graph: Any) -> Mapping[Path, frozenset[str]]:
    """The nodes with which a graph can end, of the graph and of each graph below it.

    The text of any other node may be stopped or changed by the nodes after it.
    """
    found: dict[Path, frozenset[str]] = {(): _last_nodes(graph)}
    for name, below in graph.get_subgraphs(recurse=True):
        found[tuple(name.split("|"))] = _last_nodes(below)
    return found


def _last_nodes(graph: Any) -> frozenset[str]:
    builder = getattr(graph, "builder", None)
    if builder is None:
        return frozenset()  # a functional graph: it has no edges, and its text may be changed
    following = {name: frozenset(_following(builder, name)) for name in builder.nodes}
    return frozenset(
        name
        for name, node in builder.nodes.items()
        if _may_end(following, name, frozenset()) and not _is_wrapped(node)
    )


def _is_wrapped(node: Any) -> bool:
    """True for the model of `create_agent` with a `wrap_model_call` around it that may change its text."""
    handler = _closure(getattr(getattr(node, "runnable", None), "afunc", None)).get(_HANDLER)
    return _may_change(handler, set())


def _may_change(thing: Any, seen: set[int]) -> bool:
    """True if a function is not of LangChain, or calls such a function from its closure."""
    if not isinstance(thing, (FunctionType, MethodType, partial)) or id(thing) in seen:
        return False
    seen.add(id(thing))
    if isinstance(thing, partial):
        return _may_change(thing.func, seen)
    name, package = thing.__qualname__, thing.__module__.partition(".")[0]
    if package not in _LANGCHAIN or name in _GUARDS:
        return True
    # It makes the prompt only, although by a function of the user.
    return not name.startswith("dynamic_prompt.") and any(
        _may_change(one, seen)
        for value in _closure(thing).values()
        for one in (value if isinstance(value, (list, tuple)) else (value,))
    )


def _closure(function: Any) -> dict[str, Any]:
    """The variables of a function's closure by name."""
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        return {}
    return dict(inspect.getclosurevars(function).nonlocals)


def _following(builder: Any, name: str) -> Iterator[str]:
    """The nodes that may follow a node; END if any may, or none."""
    found = [end for start, end in builder.edges if start == name]
    found += [end for starts, end in builder.waiting_edges if name in starts]
    for branch in builder.branches.get(name, {}).values():
        found += [END] if branch.ends is None else branch.ends.values()
    found += builder.nodes[name].ends or ()
    yield from found or [END]


def _may_end(following: Mapping[str, frozenset[str]], name: str, seen: frozenset[str]) -> bool:
    """True if the graph may end after a node, or after harmless nodes after it."""
    harmless = (one for one in following[name] if one.startswith(_HARMLESS) and one not in seen)
    return END in following[name] or any(_may_end(following, one, seen | {name}) for one in harmless)


def is_synchronous(checkpointer: Any) -> bool:
    """True for a checkpointer whose asynchronous methods say that there are none."""
    read = getattr(type(checkpointer), "aget_tuple", None)
    if not inspect.iscoroutinefunction(read) or _waits(read):
        return False
    try:
        # Without an `await` it is done at once, and needs no loop.
        read(checkpointer, {"configurable": {"thread_id": "", "checkpoint_ns": ""}}).send(None)
    except NotImplementedError:
        return True
    except Exception:  # noqa: BLE001  whatever it lacks now, such as its tables, it may have later
        return False
    return False


def _waits(function: Any) -> bool:
    return any(one.opname in ("GET_AWAITABLE", "GET_AITER") for one in dis.get_instructions(function))
