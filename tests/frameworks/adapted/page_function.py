"""The function of a page, which is desk.py in the working directory, with the scripted model."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence

import desk
from replies import replies


def words(heard: Sequence[str]) -> AsyncIterator[object]:
    return replies(heard[-1], heard)


def text(heard: Sequence[str]) -> str:
    """For a framework whose models are synchronous."""
    if heard[-1] == "slow":
        return "begun"  # its thread could not be stopped

    async def joined() -> str:
        return "".join([str(word) async for word in words(heard)])

    return asyncio.run(joined())


desk.words = words if inspect.isasyncgenfunction(desk.words) else text
served = desk.weather
