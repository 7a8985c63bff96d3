import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from tell import TOOL, URL, mcp


async def main() -> None:
    client = MultiServerMCPClient({"desk": {"url": f"{URL}/mcp", "transport": "streamable_http"}})
    async with client.session("desk") as session:
        tools = {one.name: one for one in await load_mcp_tools(session)}

        async def names():
            return list(tools)

        async def call(arguments):
            return await tools[TOOL].ainvoke(arguments)

        await mcp(names, call)


asyncio.run(main())
