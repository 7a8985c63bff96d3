import asyncio

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from tell import TOOL, URL, mcp


async def main() -> None:
    tools = {
        one.metadata.name: one for one in await McpToolSpec(BasicMCPClient(f"{URL}/mcp")).to_tool_list_async()
    }

    async def names():
        return list(tools)

    async def call(arguments):
        return await tools[TOOL].acall(**arguments)

    await mcp(names, call)


asyncio.run(main())
