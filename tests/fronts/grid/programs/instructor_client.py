import asyncio

import instructor
from openai import AsyncOpenAI
from pydantic import BaseModel
from tell import KEY, URL, told, user


class Weather(BaseModel):
    degrees: float


async def main() -> None:
    made = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=60)

    def asking(mode):
        client = instructor.from_openai(made, mode=mode)
        return lambda: client.chat.completions.create(
            model="desk", messages=[user("data")], response_model=Weather, max_retries=0
        )

    await told("structured", asking(instructor.Mode.JSON_SCHEMA))
    await told("tools", asking(instructor.Mode.TOOLS))


asyncio.run(main())
