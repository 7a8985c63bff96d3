import asyncio

import litellm
from tell import FORMAT, FUNCTION, KEY, URL, chats, user


async def main() -> None:
    async def ask(messages, **options):
        found = await litellm.acompletion(
            "openai/desk", messages=messages, api_base=f"{URL}/v1", api_key=KEY, **options
        )
        return found.choices[0].message.content

    async def stream(messages):
        events = await litellm.acompletion(
            "openai/desk", messages=messages, api_base=f"{URL}/v1", api_key=KEY, stream=True
        )
        return "".join([one.choices[0].delta.content or "" async for one in events])

    await chats(
        ask,
        stream,
        lambda text: ask([user(text)], response_format=FORMAT),
        lambda text: ask([user(text)], tools=[FUNCTION]),
    )


asyncio.run(main())
