import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel
from tell import KEY, URL, chats


class Weather(BaseModel):
    degrees: float


@function_tool
def f() -> str:
    return ""


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=60)
    model = OpenAIChatCompletionsModel("desk", client)
    agent = Agent("desk", model=model)

    async def ask(messages):
        return (await Runner.run(agent, messages)).final_output

    async def stream(messages):
        running = Runner.run_streamed(agent, messages)
        texts = [
            one.data.delta
            async for one in running.stream_events()
            if one.type == "raw_response_event" and one.data.type == "response.output_text.delta"
        ]
        return "".join(texts)

    async def structured(text):
        return (await Runner.run(Agent("desk", model=model, output_type=Weather), text)).final_output

    async def tools(text):
        return (await Runner.run(Agent("desk", model=model, tools=[f]), text)).final_output

    await chats(ask, stream, structured, tools)


asyncio.run(main())
