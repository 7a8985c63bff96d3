"""The measured agent's echo as a provider of litellm's proxy, which is in an environment of its own."""

from typing import Any

import litellm  # type: ignore[import-not-found,unused-ignore]


class Echo(litellm.CustomLLM):  # type: ignore[misc,unused-ignore]
    """The provider."""

    async def acompletion(self, *_: Any, **options: Any) -> Any:
        """Repeats the newest message."""
        text = options["messages"][-1]["content"]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return litellm.ModelResponse(choices=[choice], model=options["model"])


echo = Echo()
