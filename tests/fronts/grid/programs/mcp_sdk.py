import asyncio

from mcp import Client
from tell import TOOL, URL, mcp


async def main() -> None:
    async with Client(f"{URL}/mcp") as client:

        async def names():
            return [one.name for one in (await client.list_tools()).tools]

        async def call(arguments):
            result = await client.call_tool(TOOL, arguments)
            return result.structured_content or "".join(one.text for one in result.content)

        await mcp(names, call)


asyncio.run(main())
