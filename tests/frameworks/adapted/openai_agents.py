"""An agent of the OpenAI Agents SDK with an offline model, for `a2a-bridge serve openai_agents.py:served`."""

import base64
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, ToolOutputFileContent, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from replies import Call, done, replies

import a2a_bridge

set_tracing_disabled(True)
NUMBERS = itertools.count(1)


@function_tool(needs_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@function_tool(needs_approval=True)
def question(text: str) -> str:
    """Asks the user. The answer is the result, and the function is not called."""
    raise AssertionError(text)


@function_tool
def report() -> ToolOutputFileContent:
    """Makes a file."""
    return ToolOutputFileContent(file_data=base64.b64encode(b"a,b\n").decode(), filename="table.csv")


def call_of(call: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        name=call.name,
        arguments=json.dumps(call.arguments),
        call_id=f"call-{next(NUMBERS)}",
        type="function_call",
    )


class Scripted(Model):
    """Does what the newest message says."""

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:
        raise NotImplementedError

    async def stream_response(
        self, system_instructions: str | None, given: Any, *arguments: Any, **named: Any
    ) -> AsyncIterator[Any]:
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        calls = {one["call_id"] for one in items if one.get("type") == "function_call"}
        done = {one["call_id"] for one in items if one.get("type") == "function_call_output"}
        assert calls == done, f"no result for {calls - done}"  # as real models do
        text, output = "", []
        async for said in self._said(items):
            if not isinstance(said, str):
                output.append(call_of(said))
                continue
            text += said
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                item_id="message",
                output_index=0,
                content_index=0,
                delta=said,
                logprobs=[],
                sequence_number=0,
            )
        if text:
            content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
            output.append(
                ResponseOutputMessage(
                    id="message", type="message", role="assistant", status="completed", content=content
                )
            )
        response = Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    async def _said(self, items: list[Any]) -> AsyncIterator[Any]:
        last = items[-1]
        if last.get("type") == "function_call_output":
            asked = {one["call_id"]: one["name"] for one in items if one.get("type") == "function_call"}
            results = []
            for one in reversed(items):
                if one.get("type") != "function_call_output":
                    break
                told = one["output"] if isinstance(one["output"], str) else "written"
                results.insert(0, (asked[one["call_id"]], told))
            yield done(results)
            return
        if not isinstance(last["content"], str):
            for block in last["content"]:
                if block["type"] == "input_image":
                    yield f"image {block['image_url'].partition(';')[0].removeprefix('data:')}"
            return
        users = [str(one["content"]) for one in items if one.get("role") == "user"]
        async for said in replies(last["content"], users):
            yield said


agent = Agent("scripted", model=Scripted(), tools=[delete, question, report])
served = a2a_bridge.Agent.of(agent, questions=["question"])
