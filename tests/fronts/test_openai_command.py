"""`a2a-bridge front openai` as a program, with the official client."""

import asyncio
import ssl
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpx2Client

from tests.certificates import new_identity
from tests.fronts.desk import At
from tests.fronts.fronts import running
from tests.fronts.test_openai import chat, user
from tests.patience import PATIENCE


@pytest.mark.process
async def test_tls_and_limits_of_a_caller(desk_at: At, card_file: str, tmp_path: Path) -> None:
    desk, _ = desk_at
    identity = new_identity()
    certificate, key = identity.written(tmp_path, "server")
    flags = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--max-streams", "1", "--max-parts", "2")
    async with running("openai", card_file, "--http", "127.0.0.1:0", *flags) as url:
        assert url.startswith("https://")
        context = ssl.create_default_context(cadata=identity.certificate.decode())
        async with AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="x",
            max_retries=0,
            http_client=DefaultAsyncHttpx2Client(verify=context, timeout=PATIENCE),
        ) as api:
            parts = [{"type": "text", "text": "x"}] * 3
            with pytest.raises(openai.BadRequestError, match="at most 2 are taken"):
                await chat(api, [user(parts)])
            first = asyncio.create_task(chat(api, "work"))
            await desk.working.wait()
            with pytest.raises(openai.RateLimitError, match="more than 1 streams at once") as limited:
                await chat(api, "hello")
            assert limited.value.response.headers["retry-after"] == "1"
            desk.released.set()
            assert await first == "worked"
