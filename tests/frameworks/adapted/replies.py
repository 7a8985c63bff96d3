"""What a scripted model says: for agents of frameworks, and for the stand-ins of tests/adapters."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


async def replies(newest: str, users: Sequence[str]) -> AsyncIterator[str | Call]:
    """Texts and calls for the newest message. users: the texts of the user, the newest one included."""
    match newest:
        case "chunks":
            for word in ("one ", "two ", "three"):
                yield word
        case "recall":
            yield ",".join(users)
        case "slow":
            yield "begun"
            await asyncio.Event().wait()
        case "crash":
            raise RuntimeError("a secret of the framework")
        case "approve":
            yield Call("delete", {"path": "x"})
        case "both":
            for path in ("x", "y"):
                yield Call("delete", {"path": path})
        case "question":
            yield Call("question", {"text": "which colour?"})
        case "file":
            yield Call("report", {})
        case text:
            yield f"data {text}" if text.startswith("{") else f"heard {text}"


def done(results: Iterable[tuple[str, Any]]) -> str:
    """What the model says after its calls. results: the name of each tool, and its result."""
    return "done: " + ", ".join(f"got {told}" if name == "question" else str(told) for name, told in results)
