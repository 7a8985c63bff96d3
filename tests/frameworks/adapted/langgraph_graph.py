"""Graphs of LangGraph with an offline model, for `a2a-bridge serve langgraph_graph.py:make_graph`."""

import uuid
from collections.abc import AsyncIterator
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from replies import done, replies

from a2a_bridge.ext import hub


@tool
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@tool
def question(text: str) -> str:
    """Asks the user."""
    return str(interrupt(text))


@tool
def report() -> str:
    """Makes a file."""
    get_stream_writer()("writing")
    get_stream_writer()(hub.Part(raw=b"a,b\n", media_type="text/csv", filename="table.csv"))
    return "written"


class Scripted(BaseChatModel):
    """Does what the newest message says."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **named: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("not streamed"))])

    async def _astream(
        self, messages: list[BaseMessage], *arguments: Any, **named: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        open_calls: set[str] = set()
        for message in messages:
            # As real models do.
            if isinstance(message, AIMessage):
                assert not open_calls, f"no result for {open_calls}"
                open_calls = {str(one["id"]) for one in message.tool_calls}
            elif isinstance(message, ToolMessage):
                open_calls.discard(message.tool_call_id)
            else:
                assert not open_calls, f"no result for {open_calls}"
        async for said in self._said(messages):
            if isinstance(said, str):
                chunk = AIMessageChunk(said)
            else:
                call = {"name": said.name, "args": said.arguments, "id": uuid.uuid4().hex}
                chunk = AIMessageChunk("", tool_calls=[call])
            yield ChatGenerationChunk(message=chunk)

    async def _said(self, messages: list[BaseMessage]) -> AsyncIterator[Any]:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            results = []
            for message in reversed(messages):
                if not isinstance(message, ToolMessage):
                    break
                results.insert(0, (str(message.name), message.content))
            yield done(results)
            return
        if not isinstance(last.content, str):
            for block in last.content:
                if block["type"] != "text":
                    yield f"{block['type']} {block['mime_type']}"
                elif block["text"].startswith("{"):
                    yield f"data {block['text']}"
            return
        users = [str(one.content) for one in messages if one.type == "human"]
        async for said in replies(last.content, users):
            yield said


async def make_graph(config: RunnableConfig) -> AsyncIterator[Any]:
    """As for the server of LangGraph; this checkpointer needs a running loop, and has to be closed."""
    assert config == {"configurable": {}}
    async with AsyncSqliteSaver.from_conn_string("threads.db") as saver:
        yield create_agent(
            Scripted(),
            [delete, question, report],
            middleware=[HumanInTheLoopMiddleware(interrupt_on={"delete": True})],
            checkpointer=saver,
        )


class Length(TypedDict):
    words: str
    length: int


def measure(state: Length) -> dict[str, int]:
    return {"length": len(state["words"])}


class Words(TypedDict):
    words: str


#: without chat messages
data = (
    StateGraph(Length, input_schema=Words).add_node("measure", measure).add_edge(START, "measure").compile()
)
