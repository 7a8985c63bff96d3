import asyncio

from openai import AsyncOpenAI
from tell import KEY, SCHEMA, URL, chats


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=60)

    async def ask(messages, **options):
        return (await client.responses.create(model="desk", input=messages, **options)).output_text

    async def stream(messages):
        events = await client.responses.create(model="desk", input=messages, stream=True)
        return "".join([one.delta async for one in events if one.type == "response.output_text.delta"])

    form = {"format": {"type": "json_schema", "name": "weather", "schema": SCHEMA}}
    function = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
    await chats(ask, stream, lambda text: ask(text, text=form), lambda text: ask(text, tools=[function]))


asyncio.run(main())
