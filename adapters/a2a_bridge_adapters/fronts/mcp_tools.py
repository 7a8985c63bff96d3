"""The tools of an MCP server: one a skill and one for waiting, of one agent or of several, and their pages.

Rules:
1. Of several agents, the name of a tool begins with that of its agent. A name is at most 64 letters, digits,
   _ and -; one that is taken ends with a number.
2. Tools are made once for each card, in linear time.
3. A page has at most `PAGE` bytes: the official client reads 1 MiB. The next page begins after the tool that
   the cursor names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp import types
from mcp.server.context import ServerRequestContext

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Permit
from a2a_bridge.pb import lf_a2a_v1 as hub

STATUS_TOOL = "task_status"
#: bytes of a page of tools
PAGE = 512 << 10
_LONGEST_NAME = 64
#: characters of a name that no number replaces
_STEM = 56
_ARGUMENTS = {
    "message": {"type": "string", "description": "What to tell the agent, in plain language."},
    "data": {"type": "object", "description": "JSON for the agent, beside the message."},
    "task": {"type": "string", "description": "The id of a task that waits for an answer, to continue it."},
    "conversation": {
        "type": "string",
        "description": "The id of an earlier conversation, to continue it. By default that of this session.",
    },
}


def tools_of(card: hub.AgentCard) -> list[types.Tool]:
    """The tools of an agent: one a skill, or one for the agent, and `task_status`."""
    names = _Names(STATUS_TOOL)
    made = []
    described = [(one.id or one.name, one.name, _skill_text(one, card)) for one in card.skills]
    for name, title, text in described or [(card.name, card.name, card.description)]:
        made.append(
            types.Tool(
                name=names.unique(name),
                title=title or None,
                description=text or None,
                input_schema={"type": "object", "properties": _ARGUMENTS, "required": ["message"]},
            )
        )
    made.append(
        types.Tool(
            name=STATUS_TOOL,
            title="Wait for a task",
            description="Waits for a task that is still working, and returns its result or its state.",
            input_schema={
                "type": "object",
                "properties": {"task": {"type": "string", "description": "The id of the task."}},
                "required": ["task"],
            },
        )
    )
    return made


def _skill_text(skill: hub.AgentSkill, card: hub.AgentCard) -> str:
    lines = [skill.description or card.description]
    if skill.examples:
        lines.append("For example: " + "; ".join(skill.examples))
    return "\n".join(line for line in lines if line)


class _Names:
    """The names of tools, of letters, digits, _ and -."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)
        #: the last number of names with the same beginning: a card may have thousands of such skills
        self._numbers: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """A name that is not taken."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_LONGEST_NAME] or "ask"
        made, stem = plain, plain[:_STEM]
        while made in self._taken:
            number = self._numbers[stem] = self._numbers.get(stem, 1) + 1
            end = f"_{number}"
            made = plain[: _LONGEST_NAME - len(end)] + end
        self._taken.add(made)
        return made


class Toolbox(Protocol):
    """An agent as tools: see `mcp.McpFront`."""

    is_closed: bool
    #: whether a caller may use the agent; None: everybody may
    permit: Permit | None

    @property
    def card(self) -> hub.AgentCard:
        """Of the agent now."""

    @property
    def tools(self) -> list[types.Tool]:
        """Made once for each card."""

    async def deny(self, context: CallContext) -> None:
        """Has the access rules reject a call, so that it counts as one."""

    async def call(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        offered: Offered,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a call of a tool."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as clients see it."""

    tool: types.Tool
    #: of its agent
    front: Toolbox
    #: of the agent, at the time when the tool was made
    card: hub.AgentCard
    #: its name at the agent
    own: str
    #: the names of all tools of the agent, by their name at the agent
    names: Mapping[str, str]
    #: bytes of its description for clients
    size: int


@dataclass(slots=True)
class Tools:
    """The tools of some agents. fronts: by the name of the agent; empty for the only one."""

    fronts: Mapping[str, Toolbox]
    _made_of: list[tuple[str, Toolbox, hub.AgentCard]] = field(default_factory=list)
    _offered: dict[str, Offered] = field(default_factory=dict)

    def find(self, name: str) -> Offered | None:
        """The tool of a name; None if there is none now."""
        found = self._offered.get(name)
        if found is not None and found.front.card is found.card and not found.front.is_closed:
            return found  # without a look at the other agents
        return self._current().get(name)

    def page(
        self, cursor: str | None, permits: Callable[[Toolbox], bool]
    ) -> tuple[list[types.Tool], str | None]:
        """A page of tools, and the cursor of the next one. cursor: None for the first page. permits: whether
        the caller may use the tools of an agent. Raises LookupError for a cursor of a tool that is gone.
        """
        offered = self._current()
        rows: Iterator[Offered] = iter(offered.values())
        if cursor is not None:
            if cursor not in offered:
                raise LookupError(cursor)
            next(one for one in rows if one.tool.name == cursor)
        permitted: dict[Toolbox, bool] = {}
        page: list[types.Tool] = []
        size = 0
        for one in rows:
            if one.front not in permitted:
                permitted[one.front] = permits(one.front)
            if not permitted[one.front]:
                continue
            size += one.size
            if page and size > PAGE:
                return page, page[-1].name
            page.append(one.tool)
        return page, None

    def _current(self) -> dict[str, Offered]:
        """The tools by name. They are made anew when an agent comes, goes or shows another card."""
        agents = [(name, front, front.card) for name, front in self.fronts.items()]
        known = self._made_of
        if len(agents) != len(known) or any(
            one[1] is not other[1] or one[2] is not other[2] for one, other in zip(agents, known, strict=True)
        ):
            self._made_of, self._offered = agents, _offered(agents)
        return self._offered


def _offered(agents: list[tuple[str, Toolbox, hub.AgentCard]]) -> dict[str, Offered]:
    made: dict[str, Offered] = {}
    taken = _Names()
    for agent, front, card in agents:
        names: dict[str, str] = {}
        for tool in front.tools:
            own = tool.name
            if agent:
                tool = tool.model_copy(update={"name": taken.unique(f"{agent}_{own}")})  # noqa: PLW2901
            names[own] = tool.name
            size = len(tool.model_dump_json(by_alias=True, exclude_none=True).encode())
            made[tool.name] = Offered(tool, front, card, own, names, size)
    return made
