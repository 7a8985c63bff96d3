"""What an agent of a framework says about itself, as members of its card. It imports no framework."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from a2a_bridge.hosting.hosted_agent import skill_of
from a2a_bridge.pb import lf_a2a_v1 as hub


def members(
    name: str | None, *, description: Any = "", instructions: Any = "", tools: Iterable[Any] = ()
) -> dict[str, Any]:
    """The members of a card that are known. description: of the agent; without one the first line of its
    instructions counts, if they are a text. tools: each is a skill, if it has a name and a text.
    """
    found: dict[str, Any] = {"name": name} if name else {}
    for text in (description, instructions):
        if isinstance(text, str) and text.strip():
            found["description"] = text.strip() if text is description else text.strip().splitlines()[0]
            break
    skills = [skill for one in tools if (skill := _skill(one)) is not None]
    return {**found, "skills": skills} if skills else found


def _skill(tool: Any) -> hub.AgentSkill | None:
    """The skill of a tool: an object with name and description, or a function with a docstring."""
    name = getattr(tool, "name", None) or getattr(tool, "__name__", "")
    text = getattr(tool, "description", None) or (inspect.getdoc(tool) if inspect.isroutine(tool) else "")
    if not (isinstance(name, str) and name and isinstance(text, str) and text.strip()):
        return None
    return skill_of(name, text.strip())
