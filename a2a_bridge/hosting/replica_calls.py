"""Calls from one replica to another that holds the task, over Remote. It does not know which replica holds a
task.

Rules:
1. A call carries its context: tenant, principal with claims, parameters, origin, and the remaining time.
2. The other replica executes it like a call of its own, and never forwards it again.
3. Errors come back unchanged. A caller that leaves does not stop accepted work.

A question is a header in JSON and a serialized request; an answer is a header and a serialized response. Each
starts with the length of its header, so that replicas of other releases can detect formats they do not know.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from a2a_bridge.core.call import CallContext, Origin, Principal
from a2a_bridge.core.errors import A2AError, Blame, Reason, Violation, internal_error
from a2a_bridge.hosting.ports import OwnerLostError, Remote
from a2a_bridge.hosting.run_registry import NotOwnerError
from a2a_bridge.hosting.views import QueuePosition, TaskSnapshot
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting")

#: of the format. A replica refuses messages of another one
_RELEASE = 1
#: streams whose queue positions can be requested; older ones are unknown
_STREAMS = 4096
#: maximum seconds of a question that waits for nothing
_SOON = 30.0


class LocalTasks(Protocol):
    """An engine's methods for other replicas.

    All raise A2AError; NotOwnerError if this replica does not hold the task.
    """

    async def send_here(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> hub.SendMessageResponse:
        """Like send_message."""
        ...

    async def stream_here(
        self, request: hub.SendMessageRequest, context: CallContext, /
    ) -> tuple[TaskSnapshot, QueuePosition]:
        """Accepts a message: the task as it found it, durable, and its queue position."""
        ...

    async def cancel_here(self, request: hub.CancelTaskRequest, context: CallContext, /) -> hub.Task:
        """Like cancel_task."""
        ...


class Streamed(NamedTuple):
    """A message that another replica has accepted."""

    holder: str
    #: the task as the message found it
    snapshot: TaskSnapshot
    #: the key to ask for its queue position
    ticket: str


class ReplicaCalls:
    """Calls to other replicas, and the answers to theirs.

    Every call raises OwnerLostError if the receiver is dead, or no longer holds the task.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._places: OrderedDict[str, QueuePosition] = OrderedDict()

    # ------------------------------------------------------------------ asking

    async def send(
        self, holder: str, request: hub.SendMessageRequest, context: CallContext
    ) -> hub.SendMessageResponse:
        """Sends a message, and waits for the answer."""
        _, body = await self._ask(holder, "send", request.SerializeToString(), context)
        return hub.SendMessageResponse.FromString(body)

    async def stream(self, holder: str, request: hub.SendMessageRequest, context: CallContext) -> Streamed:
        """Sends a message whose events will be read here."""
        head, body = await self._ask(holder, "stream", request.SerializeToString(), context, _SOON)
        return Streamed(
            holder, TaskSnapshot(hub.Task.FromString(body), int(head["last"])), str(head["ticket"])
        )

    async def cancel(self, holder: str, request: hub.CancelTaskRequest, context: CallContext) -> hub.Task:
        """Cancels a task."""
        _, body = await self._ask(holder, "cancel", request.SerializeToString(), context)
        return hub.Task.FromString(body)

    async def waits(self, streamed: Streamed, number: int) -> bool:
        """True if the run of a message had not begun at this event."""
        try:
            head, _ = await self._ask(streamed.holder, "turn", streamed.ticket.encode(), CallContext(), _SOON)
        except A2AError as error:
            # A new owner of the task does not have the old queue.
            log.debug("the queue position of a message is unknown: %s", error)
            return False
        begun_at = head.get("begun_at", 0)
        return begun_at is None or number <= begun_at

    async def _ask(
        self, holder: str, operation: str, body: bytes, context: CallContext, most: float | None = None
    ) -> tuple[dict[str, Any], bytes]:
        left = None if context.deadline is None else max(0.0, context.deadline - monotonic())
        head = {"release": _RELEASE, "operation": operation, "context": _encode_context(context, left)}
        seconds = left if most is None else min(most, left or most)
        answer, content = _decode_frame(await self._remote.ask(holder, _encode_frame(head, body), seconds))
        context.reply.update(answer.get("reply", {}))
        if answer.get("elsewhere"):
            raise OwnerLostError
        if "error" in answer:
            raise _decode_error(answer["error"])
        return answer, content

    # ------------------------------------------------------------------ being asked

    def serve(self, local: LocalTasks) -> None:
        """Answers the calls of other replicas with `local`."""

        async def answer(question: bytes) -> bytes:
            return await self._answer(local, question)

        self._remote.serve(answer)

    async def _answer(self, local: LocalTasks, question: bytes) -> bytes:
        context = CallContext()
        try:
            head, body = _decode_frame(question)
            known = head.get("release") == _RELEASE
            context = _decode_context(head["context"]) if known else context
            operation = str(head["operation"]) if known else ""
            answer, content = await self._carried_out(local, operation, body, context)
        except NotOwnerError:
            answer, content = {"elsewhere": True}, b""
        except A2AError as error:
            answer, content = {"error": _encode_error(error)}, b""
        except Exception:
            log.exception("a call of another replica has failed")
            answer, content = {"error": _encode_error(internal_error())}, b""
        return _encode_frame(answer | {"reply": context.reply}, content)

    async def _carried_out(
        self, local: LocalTasks, operation: str, body: bytes, context: CallContext
    ) -> tuple[dict[str, Any], bytes]:
        match operation:
            case "send":
                response = await local.send_here(hub.SendMessageRequest.FromString(body), context)
                return {}, response.SerializeToString()
            case "cancel":
                task = await local.cancel_here(hub.CancelTaskRequest.FromString(body), context)
                return {}, task.SerializeToString()
            case "stream":
                snapshot, place = await local.stream_here(hub.SendMessageRequest.FromString(body), context)
                ticket = uuid4().hex
                self._places[ticket] = place
                if len(self._places) > _STREAMS:
                    self._places.popitem(last=False)
                return {"last": snapshot.last, "ticket": ticket}, snapshot.task.SerializeToString()
            case "turn":
                known = self._places.get(body.decode())
                return {"begun_at": 0 if known is None else known.begun_at}, b""
        raise _unable()


def _encode_frame(head: Mapping[str, Any], body: bytes) -> bytes:
    # Claims may have any type; types unknown to JSON are sent as text.
    text = json.dumps(head, default=str, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "big") + text + body


def _decode_frame(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Raises UNAVAILABLE for an empty answer."""
    if len(data) < 4:
        raise _unable()
    end = 4 + int.from_bytes(data[:4], "big")
    head: dict[str, Any] = json.loads(data[4:end])
    return head, data[end:]


def _encode_context(context: CallContext, left: float | None) -> dict[str, Any]:
    principal, origin = context.principal, context.origin
    return {
        "tenant": context.tenant,
        "parameters": {name.lower(): value for name, value in context.parameters.items()},
        "principal": None if principal is None else [principal.name, dict(principal.claims)],
        "origin": [origin.binding, origin.version, origin.peer, origin.base_url],
        "seconds": left,
    }


def _decode_context(tree: Mapping[str, Any]) -> CallContext:
    principal, seconds = tree["principal"], tree["seconds"]
    return CallContext(
        tenant=tree["tenant"],
        parameters=tree["parameters"],
        principal=None if principal is None else Principal(principal[0], principal[1]),
        deadline=None if seconds is None else monotonic() + seconds,
        origin=Origin(*tree["origin"]),
    )


def _encode_error(error: A2AError) -> dict[str, Any]:
    return {
        "reason": error.reason.name,
        "message": error.message,
        "violations": [[one.field, one.description] for one in error.violations],
        "metadata": error.metadata,
        "details": [dict(one) for one in error.details],
        "code": error.code,
        "name": error.name,
        "blame": error.blame.value,
        "retry_after": error.retry_after,
    }


def _decode_error(tree: Mapping[str, Any]) -> A2AError:
    return A2AError(
        Reason[tree["reason"]] if tree["reason"] in Reason.__members__ else Reason.INTERNAL_ERROR,
        tree["message"],
        violations=[Violation(*one) for one in tree["violations"]],
        metadata=tree["metadata"],
        details=tree["details"],
        code=tree["code"],
        name=tree["name"],
        blame=Blame(tree["blame"]),
        retry_after=tree["retry_after"],
    )


def _unable() -> A2AError:
    text = "the replica that works on the task cannot do this"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
