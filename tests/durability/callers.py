"""Callers over every binding, ours and official: a rejection is an A2AError, a broken connection is Lost."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from a2a_bridge import connect
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.durability.serving import Served
from tests.interop.sdk_client import sdk_client
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class Shown(NamedTuple):
    """An event as a caller saw it. number: of the event in its task; 0 if the client cannot see it."""

    event: hub.StreamResponse
    number: int = 0


@dataclass(frozen=True)
class Caller:
    """One client on one binding. numbers: whether it sees the numbers of events."""

    name: str
    client: Client
    numbers: bool

    async def send(
        self, text: str, message_id: str, *, task_id: str = "", immediately: bool = False, webhook: str = ""
    ) -> hub.SendMessageResponse:
        return await self.client.send_message(request(text, message_id, task_id, immediately, webhook))

    async def stream(
        self, text: str, message_id: str, *, task_id: str = "", webhook: str = ""
    ) -> AsyncGenerator[Shown, None]:
        asked = request(text, message_id, task_id, webhook=webhook)
        call = Call(ops.SEND_STREAMING_MESSAGE, asked, CallContext())
        async with aclosing(self.client.service.stream(call)) as events:
            async for event in events:
                yield Shown(event.message, self._number(event))

    async def subscribe(self, task_id: str, after: int | None = None) -> AsyncGenerator[Shown, None]:
        """after: resumes after the event of that number. Raises LookupError for a gap."""
        context = CallContext(parameters={} if after is None else {LAST_EVENT_PARAMETER: str(after)})
        asked = hub.SubscribeToTaskRequest(id=task_id)
        call = Call(ops.SUBSCRIBE_TO_TASK, asked, context)
        async with aclosing(self.client.service.stream(call)) as events:
            async for event in events:
                if after is not None and event.gap:
                    raise LookupError(f"events of {task_id} after {after} are not kept")
                yield Shown(event.message, self._number(event))

    async def get(self, task_id: str) -> hub.Task:
        return await self.client.get_task(hub.GetTaskRequest(id=task_id))

    async def cancel(self, task_id: str) -> hub.Task:
        return await self.client.cancel_task(hub.CancelTaskRequest(id=task_id))

    async def list(self, state: Any = hub.TASK_STATE_UNSPECIFIED, size: int = 100) -> list[hub.Task]:
        asked = hub.ListTasksRequest(status=state, page_size=size, include_artifacts=True)
        return list((await self.client.list_tasks(asked)).tasks)

    def _number(self, event: Event) -> int:
        return int(event.id.rpartition("-")[2]) if self.numbers and event.id else 0


def request(
    text: str, message_id: str, task_id: str = "", immediately: bool = False, webhook: str = ""
) -> hub.SendMessageRequest:
    made = hub.SendMessageRequest(
        message=hub.Message(
            message_id=message_id, task_id=task_id, role=hub.ROLE_USER, parts=[hub.Part(text=text)]
        )
    )
    if immediately:
        made.configuration.return_immediately = True
    if webhook:
        made.configuration.task_push_notification_config.url = webhook
    return made


def lost(error: BaseException) -> bool:
    """Whether an error shows that the connection broke or the process is gone, and is no answer of the agent."""
    return isinstance(error, A2AError) and error.reason in (Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED)


def card_of(served: Served) -> hub.AgentCard:
    """A card with the addresses of a process, made without a request."""
    urls = {"JSONRPC": f"{served.http}/", "HTTP+JSON": served.http, "GRPC": served.grpc}
    return hub.AgentCard(
        name="trials",
        description="d",
        version="1",
        capabilities=hub.AgentCapabilities(streaming=True, push_notifications=True),
        supported_interfaces=[interface(binding, urls[binding]) for binding in BINDINGS],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )


@asynccontextmanager
async def callers(
    served: Served, *, official: Sequence[str] = BINDINGS, bindings: Sequence[str] = BINDINGS
) -> AsyncIterator[list[Caller]]:
    """Our client on each of `bindings`, and the official one on each of `official`."""
    card = card_of(served)
    async with AsyncExitStack() as stack:
        made = [
            Caller(
                f"ours {binding}",
                await stack.enter_async_context(
                    connect(card, binding=binding, options=DialOptions(timeout=PATIENCE))
                ),
                numbers=True,
            )
            for binding in bindings
        ]
        for binding in official:
            service: Any = await stack.enter_async_context(sdk_client(card, binding))
            made.append(Caller(f"official {binding}", Client(service), numbers=False))
        yield made
