"""`send`: from the flags to one message, and its result."""

from __future__ import annotations

from functools import partial

import typer

from a2a_bridge.app.peer import request_of
from a2a_bridge.cli.environment import Environment
from a2a_bridge.codec import DecodeError, decoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct
from a2a_bridge_tools.client.flags import ContinueFlags, SendFlags
from a2a_bridge_tools.client.parts import json_object, parts_of
from a2a_bridge_tools.client.progress import show_waiting
from a2a_bridge_tools.client.reaching import Session, run
from a2a_bridge_tools.client.results import show_answer, show_end, show_events
from a2a_bridge_tools.client.waiting import remember, send_and_wait

_decode_struct = decoder(Struct)


def send_message(context: typer.Context, text: str | None, flags: SendFlags) -> None:
    """Sends the message of the flags and prints the result. Raises typer.Exit and typer.BadParameter."""
    order = Environment.of(context).order
    if flags.return_immediately and flags.wait and {"wait", "return_immediately"} <= set(order):
        raise typer.BadParameter("is the opposite of --wait", param_hint="--async")
    request = request_with(parts_of(text, flags, order), flags)
    wait = flags.wait and "return_immediately" not in order
    run(
        context,
        flags,
        partial(_sent, request=request, flags=flags, now=flags.return_immediately and not wait),
    )


def request_with(parts: list[hub.Part], flags: ContinueFlags) -> hub.SendMessageRequest:
    """A request with the ids and the metadata of the flags. Raises typer.BadParameter."""
    request = request_of(parts, task=flags.task_id, context_id=flags.context_id)
    if flags.metadata:
        try:
            request.metadata.CopyFrom(_decode_struct(json_object(flags.metadata, "--metadata")))
        except DecodeError as error:
            raise typer.BadParameter(str(error), param_hint="--metadata") from None
    return request


async def _sent(session: Session, *, request: hub.SendMessageRequest, flags: SendFlags, now: bool) -> None:
    if now:
        request.configuration.return_immediately = True
        async with show_waiting(session, request):
            answer = await session.peer.send_message(request, session.context)
        if answer.HasField("task"):
            remember(session, answer.task)
            show_answer(session, hub.StreamResponse(task=answer.task), flags)
        else:
            show_answer(session, hub.StreamResponse(message=answer.message), flags)
        return
    events = send_and_wait(session, request, flags, streamed=flags.stream)
    async with show_waiting(session, request):
        last = await show_events(session, events, flags, live=flags.stream)
    if last is not None and not flags.stream:
        show_end(session, last, flags)
