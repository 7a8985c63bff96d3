"""tests/peers/agent_0_3.py that also sends push notifications by the SDK, as a program of its own."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

import agent_0_3
import httpx
import scripted_v0
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
)


def request_handler() -> Any:
    configs = InMemoryPushNotificationConfigStore()
    return DefaultRequestHandler(
        agent_executor=scripted_v0.ScriptedExecutor(),
        task_store=InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
    )


agent_0_3.request_handler = request_handler

if __name__ == "__main__":
    scripted_v0.main(agent_0_3.BINDINGS, agent_0_3.build)
