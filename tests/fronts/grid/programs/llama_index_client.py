import asyncio

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from tell import FORMAT, FUNCTION, KEY, URL, chats, user


async def main() -> None:
    model = OpenAILike(model="desk", api_base=f"{URL}/v1", api_key=KEY, is_chat_model=True, timeout=60)

    async def ask(messages, **options):
        return (await model.achat([ChatMessage(**one) for one in messages], **options)).message.content

    async def stream(messages):
        events = await model.astream_chat([ChatMessage(**one) for one in messages])
        return "".join([one.delta or "" async for one in events])

    await chats(
        ask,
        stream,
        lambda text: ask([user(text)], response_format=FORMAT),
        lambda text: ask([user(text)], tools=[FUNCTION]),
    )


asyncio.run(main())
