"""Fronts in an application of somebody else."""

import asyncio

import pytest
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.routing import Mount

from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
from a2a_bridge_adapters.fronts.openai_serving import openai_front
from tests.fronts.desk import FORMS, Desk, serving
from tests.fronts.fronts import listening
from tests.fronts.test_mcp import ERAS, TOOL, client, text_of
from tests.patience import PATIENCE


@pytest.mark.parametrize("era", ERAS)
async def test_a_front_that_is_mounted(era: str) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), serving(desk, *FORMS[0]) as card:
        tools, model = mcp_front(card), openai_front(card)
        whole = Starlette(routes=[Mount("/tools", tools), Mount("/model/v1", model)])
        async with listening(whole) as url:
            async with client(f"{url}/tools", era) as mcp:
                assert text_of(await mcp.call_tool(TOOL, {"message": "hello"})).startswith("hello!")
            async with AsyncOpenAI(base_url=f"{url}/model/v1", api_key="x") as api:
                assert [one.id async for one in api.models.list()] == ["desk"]
            await tools.close()
            await model.close()
