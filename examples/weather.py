"""The smallest agent: a function.

    a2a-bridge serve examples/weather.py
    a2a-bridge send -a :8080 Oslo --stream

Name, description and skill of the card come from the function. Because it yields, a response is a task whose
artifact arrives in pieces; had it returned its text, a response would be one message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from a2a_bridge import agent


@agent
async def weather(text: str) -> AsyncIterator[str]:
    """Tells the weather of a city."""
    yield "looking… "
    yield f"{text}: 21 °C"
