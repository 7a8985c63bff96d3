"""Stack traces of the code of agents, for logs and for the terminal.

Rules:
1. The frames of this project are left out, and so are those of installed packages and of Python between the
   frames of the agent's code. The innermost frame is always shown.
2. Without a frame of the agent's code, such as that of an agent that is an installed package, the outermost
   and the innermost frames are shown.
3. The exceptions that led to it are shown in the same way.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

#: the packages of this project
OWN = ("a2a_bridge", "a2a_bridge_transports", "a2a_bridge_adapters", "a2a_bridge_tools")
INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
#: frames that are shown of an exception without a frame of the agent's code: from its outer and its inner end
_OUTER, _INNER = 2, 3


def agent_trace(error: BaseException) -> str:
    """The trace of an exception in the form of Python, with the frames that the rules show."""
    found = TracebackException.from_exception(error, compact=True)
    hidden = sum(_shorten(one) for one in _all(found))
    text = "".join(found.format()).rstrip("\n")
    note = f"\n({hidden} frames of libraries are left out; --log-level debug logs all)" if hidden else ""
    return text + note


def place_of_crash(error: BaseException) -> str:
    """The innermost line of the agent's code in the trace of an exception: `file:line in function`."""
    stack = TracebackException.from_exception(error, compact=True, lookup_lines=False).stack
    own = [one for one in stack if _is_of_agent(one)] or list(stack)
    return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""


def _all(error: TracebackException) -> Iterator[TracebackException]:
    """An exception, and those that it has or that led to it."""
    yield error
    for one in (error.__cause__, error.__context__, *(error.exceptions or ())):
        if one is not None:
            yield from _all(one)


def _shorten(error: TracebackException) -> int:
    """Leaves frames out of the trace of one exception; their number, without those of this project."""
    whole = [one for one in error.stack if not one.filename.startswith(_own_folders())]
    shown = [place for place, one in enumerate(whole) if _is_of_agent(one)]
    if shown:
        kept = {*shown, len(whole) - 1}
    else:
        kept = {*range(_OUTER), *range(max(0, len(whole) - _INNER), len(whole))}
    error.stack = StackSummary.from_list([one for place, one in enumerate(whole) if place in kept])
    return len(whole) - len(error.stack)


def _is_of_agent(frame: FrameSummary) -> bool:
    return not frame.filename.startswith(("<", *INSTALLED, *PYTHON, *_own_folders()))


def _own_folders() -> tuple[str, ...]:
    files = (getattr(sys.modules.get(name), "__file__", None) for name in OWN)
    return tuple(f"{Path(file).parent}/" for file in files if file)
