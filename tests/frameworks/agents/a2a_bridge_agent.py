"""An agent of this project, as clients of frameworks call it."""

from a2a_bridge import agent


@agent
async def answering(text):  # type: ignore[no-untyped-def]
    """Answers."""
    yield "the answer"
