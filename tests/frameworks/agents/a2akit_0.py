"""An a2akit worker. Argument: the port."""

import sys

import uvicorn
from a2akit import A2AServer, AgentCardConfig, TaskContext, Worker


class Answering(Worker):
    """Sends a constant answer."""

    async def handle(self, ctx: TaskContext) -> None:
        await ctx.complete("the answer")


port = int(sys.argv[1])
server = A2AServer(worker=Answering(), agent_card=AgentCardConfig(name="Answering", description="Answers."))
uvicorn.run(server.as_fastapi_app(), host="127.0.0.1", port=port, log_level="warning")
