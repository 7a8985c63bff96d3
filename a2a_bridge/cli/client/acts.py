"""A2A's conformance documents (ACTS 0.1): variables, paths and assertions. It calls nobody.

Rules:
1. An assertion returns what is wrong, as texts with paths; an empty list is a pass.
2. A map whose keys are all operators is one assertion, any other map asserts member by member, a list element
   by element, everything else equality.
3. A variable that cannot be resolved is an error of the step (ACTS 12.2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

#: a member that is not there
ABSENT: Any = type("_Absent", (), {"__repr__": lambda _: "absent"})()
_TYPES = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_NUMBERS = {
    "gt": lambda value, limit: value > limit,
    "gte": lambda value, limit: value >= limit,
    "lt": lambda value, limit: value < limit,
    "lte": lambda value, limit: value <= limit,
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part in value,
    "matches": lambda value, pattern: re.search(pattern, value) is not None,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
_COUNTS = {
    "count": lambda size, wanted: size == wanted,
    "count_gte": lambda size, wanted: size >= wanted,
    "count_lte": lambda size, wanted: size <= wanted,
}
_OTHERS = {"type", "exists", "absent", "one_of", "all_of", "any_of", "not"}
OPERATORS = frozenset({*_NUMBERS, *_TEXTS, *_COUNTS, *_OTHERS})
_VARIABLE = re.compile(r"\{\{\s*([^}]+?)\s*\}\}")
_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+|\*)\]")
_UNTIL = re.compile(r"\s*(\S+)\s+(==|!=|in)\s+(.+?)\s*")


def problems(expected: Any, actual: Any, path: str = "") -> list[str]:
    """What is wrong with a value."""
    here = path or "the result"
    if isinstance(expected, dict):
        if expected and expected.keys() <= OPERATORS:
            return [text for name, value in expected.items() for text in _operator(name, value, actual, here)]
        if not isinstance(actual, dict):
            return [f"{here}: {_short(actual)} is no object"]
        return [
            text
            for name, value in expected.items()
            for text in problems(value, actual.get(name, ABSENT), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) < len(expected):
            return [f"{here}: {_short(actual)} has fewer than {len(expected)} elements"]
        return [
            text
            for number, value in enumerate(expected)
            for text in problems(value, actual[number], f"{path}[{number}]")
        ]
    same = expected == actual and isinstance(expected, bool) is isinstance(actual, bool)
    return [] if same else [f"{here}: {_short(actual)} instead of {_short(expected)}"]


def _operator(name: str, value: Any, actual: Any, here: str) -> list[str]:
    ok: bool
    if name == "exists":
        ok = (actual is not ABSENT) is bool(value)
    elif name == "absent":
        ok = (actual is ABSENT) is bool(value)
    elif name == "type":
        ok = isinstance(actual, _TYPES[value]) and (value == "boolean" or not isinstance(actual, bool))  # type: ignore[arg-type]
    elif name in ("one_of", "any_of"):
        ok = any(not problems(one, actual) for one in value)
    elif name == "all_of":
        return [text for one in value for text in problems(one, actual, here)]
    elif name == "not":
        ok = bool(problems(value, actual))
    elif name in _TEXTS:
        ok = isinstance(actual, str) and _TEXTS[name](actual, str(value))
    elif name in _COUNTS:
        ok = isinstance(actual, (list, dict)) and _COUNTS[name](len(actual), value)
    else:
        number = isinstance(actual, (int, float)) and not isinstance(actual, bool)
        ok = number and _NUMBERS[name](actual, value)
    return [] if ok else [f"{here}: {_short(actual)} is not {name} {_short(value)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def at(tree: Any, path: str) -> list[Any]:
    """The values at a path such as `task.artifacts[*].parts[0].text`."""
    found = [tree]
    for name, index in _SEGMENT.findall(path):
        following = []
        for one in found:
            if name and isinstance(one, dict) and name in one:
                following.append(one[name])
            elif index == "*" and isinstance(one, list):
                following += one
            elif index and index != "*" and isinstance(one, list) and int(index) < len(one):
                following.append(one[int(index)])
        found = following
    return found


def reached(condition: str, tree: Any) -> bool:
    """Whether the condition of `repeat.until` holds. Raises ValueError for one that is none."""
    found = _UNTIL.fullmatch(condition)
    if found is None:
        raise ValueError(f"{condition!r} is no condition")
    path, operator, text = found.groups()
    value = next(iter(at(tree, path)), None)
    words = [word.strip().strip("'\"") for word in text.strip("[]").split(",")]
    same = str(value) in words
    return same if operator in ("==", "in") else not same


def filled(tree: Any, variables: Mapping[str, Any]) -> Any:
    """A tree with the values of its variables. Raises LookupError for one that is unknown."""
    if isinstance(tree, dict):
        return {name: filled(value, variables) for name, value in tree.items()}
    if isinstance(tree, list):
        return [filled(one, variables) for one in tree]
    if not isinstance(tree, str):
        return tree
    whole = _VARIABLE.fullmatch(tree)
    if whole is not None:
        return _value(whole[1], variables)
    return _VARIABLE.sub(lambda found: str(_value(found[1], variables)), tree)


def _value(name: str, variables: Mapping[str, Any]) -> Any:
    if name == "$uuid":
        return str(uuid4())
    if name in variables:
        return variables[name]
    if name.startswith("env.") and name[4:] in os.environ:
        return os.environ[name[4:]]
    raise LookupError(f"the variable {name} is unknown")


#: state -> the states that may follow (ACTS 7.1); a state may repeat
_FOLLOWS = {
    "SUBMITTED": {
        "WORKING",
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "REJECTED",
        "INPUT_REQUIRED",
        "AUTH_REQUIRED",
    },
    "WORKING": {"COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"},
    "INPUT_REQUIRED": {"WORKING", "COMPLETED", "FAILED", "CANCELED", "REJECTED"},
    "AUTH_REQUIRED": {"WORKING", "COMPLETED", "FAILED", "CANCELED", "REJECTED"},
}


def stream_problems(expected: Mapping[str, Any], events: Sequence[Any]) -> list[str]:
    """What is wrong with the events of a stream."""
    found: list[str] = []
    if len(events) < expected.get("min_count", 0):
        found.append(f"{len(events)} events, fewer than {expected['min_count']}")
    if len(events) > expected.get("max_count", len(events)):
        found.append(f"{len(events)} events, more than {expected['max_count']}")
    if expected.get("ordering") == "monotonic_state":
        found += _order(events)
    for number, one in enumerate(expected.get("events", ())):
        wanted = {
            _camel(name): value
            for name, value in one.items()
            if name not in ("description", "match", "index")
        }
        if one.get("match") == "any_position":
            if not any(not problems(wanted, event) for event in events):
                found.append(f"no event is {_short(wanted)}")
        else:
            index = one.get("index", number)
            event = events[index] if index < len(events) else ABSENT
            found += problems(wanted, event, f"event {index}")
    if "final_event" in expected and events:
        choices = expected["final_event"].get("one_of", [expected["final_event"]])
        wanted_last = [{_camel(name): value for name, value in one.items()} for one in choices]
        if not any(not problems(_without_final(one), events[-1]) for one in wanted_last):
            found.append(f"the last event is {_short(events[-1])}")
    for number, event in enumerate(events):
        found += problems(expected.get("each_event", {}), event, f"event {number}")
    return found


def _without_final(wanted: Any) -> Any:
    """1.0 has no member `final`; the documents still name it."""
    if not isinstance(wanted, dict):
        return wanted
    return {name: _without_final(value) for name, value in wanted.items() if name != "final"}


def _camel(name: str) -> str:
    return {"status_update": "statusUpdate", "artifact_update": "artifactUpdate"}.get(name, name)


def _order(events: Sequence[Any]) -> list[str]:
    found, before = [], ""
    for event in events:
        inner = event.get("task") or event.get("statusUpdate") or {}
        state = str(inner.get("status", {}).get("state", "")).removeprefix("TASK_STATE_")
        if state and before and state != before and state not in _FOLLOWS.get(before, set()):
            found.append(f"the state goes from {before} to {state}")
        before = state or before
    return found
