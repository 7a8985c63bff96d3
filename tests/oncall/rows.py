"""The columns of the table: a mistake or a fault, and what somebody on call sees of it. No tests.

Rules:
1. Every message has to name its fix: `fix` is the flag, the command, the key of a file or the thing to do, as
   the message says it. The line "Usage" and the pointer to --help of a wrong command line do not count. Where
   the log need not say it, because it is the fault of a caller, docs/reference/symptoms.md does.
2. A row is data; what it breaks is a small function of `scene.py` or of the module of the table.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: what counts as a fix: a flag, a command, a variable, a table or key of the file, or what to do
_FIX = re.compile(
    r"--[a-z][a-z0-9-]+"
    r"|a2a-bridge [a-z]+"
    r"|A2A_BRIDGE_[A-Z_]+"
    r"|\[[a-z]+\.[A-Za-z]+\]"
    r"|(?i:did you mean) '?\w+'?\?"
    r"|http://\S+ if that is"
    r"|at the line shown above"
    r"|agents there: "
    r"|use a name that is in it"
    r"|@a2a_bridge\.agent"
    r"|pip install \S+"
    r"|mkdir -p "
    r"|renew it"
    r"|asyncio\.to_thread"
    r"|agents\.py:[a-z]+"
    r"|a newer a2a-bridge"
    r"|with the traceback"
)
_POINTERS = ("Usage: ", "Try 'a2a-bridge ")


@dataclass(frozen=True)
class Mistake:
    """A command line that ends. Names in braces stand for files and addresses of `scene.Scene`."""

    name: str
    #: the command line
    line: str
    #: what is said, in order
    says: tuple[str, ...]
    fix: str
    code: int = 2
    env: Mapping[str, str] = field(default_factory=dict)
    #: whether a traceback of the operator's own code is shown
    traceback: bool = False
    #: makes what the command line names, and puts it into the names
    prepare: Callable[..., Awaitable[Any]] | None = None


@dataclass(frozen=True)
class Fault:
    """A server that is hurt while it runs.

    hurt: breaks it, and makes the calls; gives the HTTP and the gRPC status that the caller saw. status: the
    expected ones; "" for no call. log: what the log says, in order. metric: a sample that is at least 1, or
    (name, labels, value).
    """

    name: str
    #: flags of the server
    flags: str
    hurt: Callable[..., Awaitable[tuple[int, str]]]
    status: tuple[int, str]
    log: tuple[str, ...]
    #: in the log, or in docs/reference/symptoms.md
    fix: str
    metric: tuple[str, Mapping[str, str]] | None = None
    value: float | None = None
    command: str = "serve {agent}"
    code: int = 0
    #: makes what the flags name, and puts it into the names
    prepare: Callable[..., Awaitable[Any]] | None = None
    #: whether the log has a traceback of the operator's own code
    traceback: bool = False


def check_fix(fix: str, text: str, name: str) -> None:
    """Fails unless a text names a fix, and the fix is one."""
    said = "\n".join(line for line in text.splitlines() if not line.startswith(_POINTERS))
    assert fix in said, f"{name}: {fix!r} is not in\n{said}"
    assert _FIX.search(fix), f"{name}: {fix!r} is no flag, command, setting or thing to do"


def check_parts(parts: tuple[str, ...], text: str, name: str) -> None:
    """Fails unless the parts stand in a text, in this order."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{name}: {part!r} is not in\n{text}"
        at = found + len(part)
