"""Shapes of graphs: nodes and their forms of messages, tools, guards, pictures."""

import base64
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from comparing import WITHHELD, Answer, Shape, main
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware, wrap_model_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

PICTURE = b"\x89PNG"
_ENCODED = base64.b64encode(PICTURE).decode()


class Scripted(BaseChatModel):
    """Says one message after the other, in words."""

    messages: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _next(self) -> AIMessage:
        return self.messages.pop(0)

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **named: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    async def _astream(
        self, messages: list[BaseMessage], *arguments: Any, **named: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message = self._next()
        for word in str(message.text).partition(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_calls=message.tool_calls))


def says(*texts: str) -> Scripted:
    return Scripted(messages=[AIMessage(one) for one in texts])


Node = Callable[..., Any]


def spoken(text: str) -> Node:
    model = says(text)

    async def node(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return node


def stripped(text: str) -> Node:
    model = says(f" {text} ")

    async def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(str((await model.ainvoke(state["messages"])).text).strip())]}

    return node


def classified(text: str) -> Node:
    model = says("a class")

    async def node(state: MessagesState) -> Any:
        await model.ainvoke(state["messages"])
        return {"messages": [AIMessage(text)]}

    return node


def twice(text: str) -> Node:
    model = says("a class", text)

    async def node(state: MessagesState) -> Any:
        await model.ainvoke(state["messages"])
        return {"messages": await model.ainvoke(state["messages"])}

    return node


def silent(text: str) -> Node:
    model = says(text)

    async def node(state: MessagesState) -> Any:
        await model.ainvoke(state["messages"])
        return {"messages": []}

    return node


def given(made: Callable[[str], Any]) -> Callable[[str], Node]:
    def node_of(text: str) -> Node:
        def node(state: MessagesState) -> Any:
            return made(text)

        return node

    return node_of


NODES: dict[str, Callable[[str], Node]] = {
    "a message of a model": spoken,
    "a message without its spaces": stripped,
    "another message": classified,
    "the second of two messages": twice,
    "no message": silent,
    "a dictionary": given(lambda text: {"messages": [{"role": "ai", "content": text}]}),
    "a pair": given(lambda text: {"messages": ("ai", text)}),
    "pairs": given(lambda text: {"messages": [("ai", text), ("ai", "again")]}),
    "a command": given(lambda text: Command(update={"messages": [{"role": "assistant", "content": text}]})),
    "two commands": given(lambda text: [Command(update={"messages": [AIMessage(text)]}), {"messages": []}]),
    "a message of the user": given(lambda text: {"messages": [HumanMessage(text, name="researcher")]}),
}


def sequence(*nodes: str, texts: str = "one") -> Any:
    graph, before = StateGraph(MessagesState), START
    for place, kind in enumerate(nodes):
        graph.add_node(str(place), NODES[kind](f"{texts} {place}"))
        graph.add_edge(before, str(place))
        before = str(place)
    return graph.compile()


def beside(*nodes: str) -> Any:
    graph = StateGraph(MessagesState)
    for place, kind in enumerate(nodes):
        graph.add_node(str(place), NODES[kind](f"one {place}"))
        graph.add_edge(START, str(place))
    return graph.compile()


def within(kind: str) -> Any:
    graph = StateGraph(MessagesState).add_node("inner", sequence(kind, kind)).add_edge(START, "inner")
    return graph.add_node("last", spoken("last one")).add_edge("inner", "last").compile()


def routed(kind: str) -> Any:
    async def route(state: MessagesState) -> Command[str]:
        await says("a class").ainvoke(state["messages"])
        return Command(goto="answer")

    graph = StateGraph(MessagesState).add_node("route", route, destinations=("answer", END))
    return graph.add_edge(START, "route").add_node("answer", NODES[kind]("one two")).compile()


def redacted(kind: str) -> Any:
    def redact(state: MessagesState) -> Any:
        last = state["messages"][-1]
        return {"messages": [type(last)(str(last.text).replace(WITHHELD, "[REDACTED]"), id=last.id)]}

    graph = StateGraph(MessagesState).add_node("model", NODES[kind](f"write to {WITHHELD}"))
    return graph.add_edge(START, "model").add_node("redact", redact).add_edge("model", "redact").compile()


@tool
def look(place: str) -> str:
    """Looks."""
    return f"seen {place}"


@tool(return_direct=True)
def fetch(place: str) -> str:
    """Fetches."""
    return f"fetched {place}"


class Replacing(AgentMiddleware):
    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return None if last.tool_calls else {"messages": [AIMessage("replaced", id=last.id)]}


@wrap_model_call
async def rewritten(request: Any, handler: Any) -> Any:
    response = await handler(request)
    for message in response.result:
        message.content = str(message.text).replace(WITHHELD, "[REDACTED]")
    return response


class Passing(AgentMiddleware):
    """The first of two around the model, as a method."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


MIDDLEWARE: dict[str, Callable[[], list[Any]]] = {
    "no middleware": list,
    "redacting": lambda: [PIIMiddleware("email", strategy="redact", apply_to_output=True)],
    "blocking": lambda: [PIIMiddleware("email", strategy="block", apply_to_output=True)],
    "replacing": lambda: [Replacing()],
    "rewriting": lambda: [rewritten],
    "rewriting within another": lambda: [Passing(), rewritten],
}


def agent(before: str, called: str, middleware: str) -> Any:
    call = {"name": called, "args": {"place": "x"}, "id": uuid.uuid4().hex}
    calls = [AIMessage(before, tool_calls=[call])] if called else []
    model = Scripted(messages=[*calls, AIMessage(f"write to {WITHHELD} now")])
    return create_agent(model, [look, fetch], middleware=MIDDLEWARE[middleware]())


PICTURES: dict[str, Any] = {
    "image_url": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_ENCODED}"}},
    "image": {"type": "image", "base64": _ENCODED, "mime_type": "image/png"},
    "image of LangChain 0": {
        "type": "image",
        "source_type": "base64",
        "data": _ENCODED,
        "mime_type": "image/png",
    },
    "image_generation_call": {"type": "image_generation_call", "id": "1", "result": _ENCODED},
}


def drawing(block: str, provider: str) -> Any:
    def node(state: MessagesState) -> Any:
        content = [{"type": "text", "text": "drawn"}, PICTURES[block]]
        return {"messages": [AIMessage(content, response_metadata={"model_provider": provider})]}

    return StateGraph(MessagesState).add_node("draw", node).add_edge(START, "draw").compile()


async def plain(graph: Any) -> Answer:
    """The new messages: those of models, and what comes after them."""
    messages = (await graph.ainvoke({"messages": [HumanMessage("go")]}))["messages"][1:]
    last = max((place for place, one in enumerate(messages) if isinstance(one, AIMessage)), default=-1)
    texts = [
        str(one.text) for place, one in enumerate(messages) if isinstance(one, AIMessage) or place > last
    ]
    return Answer("".join(texts))


async def pictured(graph: Any) -> Answer:
    return (await plain(graph))._replace(files=(PICTURE,))


def shapes() -> Iterator[tuple[str, Shape]]:
    for kind in NODES:
        for make in (sequence, within, routed, redacted):
            yield f"{make.__name__} {kind}", Shape(partial(make, kind), plain)
        yield f"within and told {kind}", Shape(partial(within, kind), plain, {"subgraphs": True})
    for make, pair in product((sequence, beside), product(NODES, NODES)):
        yield f"{make.__name__} {pair}", Shape(partial(make, *pair), plain)
    for before, called, middleware in product(("", "let me see"), ("", "look", "fetch"), MIDDLEWARE):
        name = f"an agent that says {before!r} and calls {called!r}, {middleware}"
        yield name, Shape(partial(agent, before, called, middleware), plain)
    for block, provider in product(PICTURES, ("", "openai", "google_genai")):
        yield f"{block} of {provider!r}", Shape(partial(drawing, block, provider), pictured)


if __name__ == "__main__":
    main(dict(shapes()))
