import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from tell import KEY, URL, chats


class Weather(BaseModel):
    degrees: float


async def main() -> None:
    model = OpenAIChatModel(
        "desk",
        provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY),
        profile=OpenAIModelProfile(supports_json_schema_output=True),
    )
    agent = Agent(model)

    def parted(messages):
        made = {
            "user": lambda text: ModelRequest(parts=[UserPromptPart(text)]),
            "assistant": lambda text: ModelResponse(parts=[TextPart(text)]),
        }
        *before, last = messages
        return last["content"], [made[one["role"]](one["content"]) for one in before]

    async def ask(messages):
        text, before = parted(messages)
        return (await agent.run(text, message_history=before)).output

    async def stream(messages):
        text, before = parted(messages)
        async with agent.run_stream(text, message_history=before) as events:
            return "".join([one async for one in events.stream_text(delta=True)])

    async def structured(text):
        return (await Agent(model, output_type=NativeOutput(Weather)).run(text)).output

    async def tools(text):
        with_tool = Agent(model)

        @with_tool.tool_plain
        def f() -> str:
            return ""

        return (await with_tool.run(text)).output

    await chats(ask, stream, structured, tools)


asyncio.run(main())
