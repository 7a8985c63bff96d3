"""The client of fasta2a. Argument: the URL of the agent."""

import asyncio
import json
import sys
import uuid

from fasta2a.client import A2AClient


async def main() -> None:
    client = A2AClient(sys.argv[1])
    message = {
        "role": "user",
        "message_id": uuid.uuid4().hex,
        "parts": [{"text": "a question"}],
    }
    print(json.dumps(await client.send_message(message), default=str))


asyncio.run(main())
