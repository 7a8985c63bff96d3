import asyncio

from langchain_openai import ChatOpenAI
from tell import FUNCTION, KEY, SCHEMA, URL, chats


async def main() -> None:
    model = ChatOpenAI(model="desk", base_url=f"{URL}/v1", api_key=KEY, timeout=60)

    async def ask(messages):
        return (await model.ainvoke(messages)).content

    async def stream(messages):
        return "".join([one.content async for one in model.astream(messages)])

    schema = {"title": "weather", "description": "The weather", **SCHEMA}
    await chats(
        ask,
        stream,
        model.with_structured_output(schema, method="json_schema").ainvoke,
        model.bind_tools([FUNCTION]).ainvoke,
    )


asyncio.run(main())
