import asyncio

from openai import AsyncOpenAI
from tell import FORMAT, FUNCTION, KEY, URL, chats, user


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=60)

    async def ask(messages, **options):
        found = await client.chat.completions.create(model="desk", messages=messages, **options)
        return found.choices[0].message.content

    async def stream(messages):
        events = await client.chat.completions.create(model="desk", messages=messages, stream=True)
        return "".join([one.choices[0].delta.content or "" async for one in events])

    await chats(
        ask,
        stream,
        lambda text: ask([user(text)], response_format=FORMAT),
        lambda text: ask([user(text)], tools=[FUNCTION]),
    )


asyncio.run(main())
