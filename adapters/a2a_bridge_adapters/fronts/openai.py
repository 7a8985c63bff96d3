"""An agent as a model of OpenAI's API: chat completions and responses, with streams. `openai_serving` has the
paths and the models.

Rules:
1. Only the newest message of the user goes to the agent, which keeps the conversation itself.
2. A conversation is found again by the header X-A2A-Conversation, by `previous_response_id`, or by the whole
   transcript before the newest message. Each is looked for among those of the caller. A transcript leads to a
   conversation once: two chats that are alike so far go on in two, also if one of them goes on by the id of
   its response. A conversation of the header is found by the header only.
3. A task that waits is continued by the next message of its conversation, until the task ends.
4. A caller that leaves cancels the task.
5. Until the first event of a stream, an error has its HTTP status. Later it is an event.
6. Structured output is sent when it has been checked, also in a stream. A question is none: the next message
   of a conversation with a name answers it, and in any other its task is cancelled.

It is a plain ASGI application without a framework, so that it can be mounted anywhere and adds no package.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from a2a_bridge.bindings.asgi import Receive, Scope, Send, client_left
from a2a_bridge.bindings.memory import MOST_BYTES, size_of
from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.bindings.shares import SharedTable
from a2a_bridge.codec import JsonObject, dumps
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.callers import Permit
from a2a_bridge.core.errors import A2AError, Reason, internal_error
from a2a_bridge.core.messages import text_part
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.callers import context_for, may_send, owner_of, problem_headers, respond
from a2a_bridge_adapters.fronts.conversations import MOST, Conversation, Conversations, context_of, new_name
from a2a_bridge_adapters.fronts.openai_answers import (
    Chat,
    Problem,
    Response,
    closing,
    model_document,
    text_of_parts,
)
from a2a_bridge_adapters.fronts.openai_requests import Ask, RequestError, Wanted, digest, quoted
from a2a_bridge_adapters.fronts.structured import SchemaError, Structure, UnfitError, validator_of
from a2a_bridge_adapters.fronts.turn import Answer, Turn, Upstream

_log = logging.getLogger("a2a_bridge.fronts")

#: the name of the front, for logs and metrics
BINDING = "OPENAI"
HEADER = "x-a2a-conversation"
#: characters of HEADER
_LONGEST_NAME = 256
#: seconds of silence after which a stream begins, and then gets a comment, so that proxies keep it open
_SILENCE = 10.0
#: the errors for a message to a task that does not wait any more
_TASK_IS_OVER = (Reason.TASK_NOT_FOUND, Reason.UNSUPPORTED_OPERATION)
_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(slots=True, eq=False)
class _Left:
    """A conversation as an answer left it. key: of its transcript, by owner."""

    conversation: Conversation
    key: tuple[str, str]
    #: bytes
    size: int
    #: whether a transcript has led to it
    taken: bool = False


@dataclass(slots=True)
class _Exchange:
    """A request for an answer."""

    ask: Ask
    form: Chat | Response
    conversation: Conversation
    owner: str
    context: CallContext
    #: the form of the answer; None for text
    structure: Structure | None
    #: the conversation before this request, found by its transcript or a response; None for others
    left: _Left | None
    #: that the header gives the conversation; empty for others
    name: str
    started: bool = False
    #: the text so far
    said: str = ""


class OpenAiFront:
    """An agent as a model. name: of the agent on a server with several; empty: the card has the name. permit:
    see `HostOptions`; None: everybody may use it.
    """

    def __init__(self, upstream: Upstream, name: str = "", permit: Permit | None = None) -> None:
        self._upstream = upstream
        self._name = name
        self._permit = permit
        tables = upstream.tables
        self._named = Conversations(BINDING, tables)
        #: conversations by owner and digest of the transcript
        self._transcripts: SharedTable[list[_Left]] = SharedTable(MOST, tables, most_bytes=MOST_BYTES)
        #: conversations by owner and id of the response
        self._responses: SharedTable[_Left] = SharedTable(MOST, tables, most_bytes=MOST_BYTES)

    @property
    def model(self) -> str:
        """The name of the model."""
        if self._name:
            return self._name
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self._upstream.card.name).strip("-") or "agent"

    def document(self) -> JsonObject:
        """The model as the API describes it."""
        return model_document(self._upstream.card, self.model)

    def goes_by(self, name: str) -> bool:
        """Whether a name is one of the model, or of the agent in its card."""
        return name in (self.model, self._upstream.card.name)

    def permits(self, principal: Principal | None) -> bool:
        """Whether a caller may use the agent."""
        return may_send(self._permit, principal)

    async def deny(self, context: CallContext) -> None:
        """Has the access rules reject a call, so that it counts as one."""
        await self._upstream.deny(context)

    async def answer(self, scope: Scope, receive: Receive, send: Send, ask: Ask, *, is_chat: bool) -> None:
        """Answers a request for this model. Raises RequestError."""
        structure = None if ask.wanted is None else await _structure(ask.wanted)
        context = context_for(BINDING, scope)
        owner = owner_of(context)
        form = (
            Chat(self.model, include_usage=ask.include_usage)
            if is_chat
            else Response(self.model, ask.previous_response_id, ask.wanted)
        )
        name = _name_of(scope)
        left = None if name else self._left(ask, owner)
        if name and ask.previous_response_id:
            raise RequestError(f"previous_response_id: not beside {HEADER}", "previous_response_id")
        if name:
            conversation = self._named.named(owner, name)
        elif left is not None:
            conversation = replace(left.conversation)
        else:
            conversation = Conversation(context_of(BINDING, owner, new_name()))
        exchange = _Exchange(ask, form, conversation, owner, context, structure, left, name)
        work = asyncio.create_task(self._run(exchange, send))
        leaving = asyncio.create_task(client_left(receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The server stops, and has waited. It waits no longer than for this answer.
            work.cancel()
            await asyncio.wait({work})
            await self._fail(exchange, Problem(503, "the server is stopping", code="server_stopping"), send)
            return
        finally:
            leaving.cancel()
            if not work.done():
                work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if leaving.cancelled() or not leaving.done():
                raise

    def _left(self, ask: Ask, owner: str) -> _Left | None:
        """The conversation that a response or a transcript leads to; None for a new one."""
        if ask.previous_response_id:
            known = self._responses.get((owner, ask.previous_response_id))
            if known is None:
                text = f"Previous response with id {quoted(ask.previous_response_id)} not found."
                raise RequestError(text, ask.previous_at, "previous_response_not_found")
            alike = self._transcripts.get(known.key) or []
            if known in alike:
                self._keep_alike(known.key, [one for one in alike if one is not known])
            elif known.taken and alike:
                # The transcript of a chat that is alike has led there: this chat takes the place of that one.
                *others, known = alike
                self._keep_alike(known.key, others)
                self._keep_response(owner, ask.previous_response_id, known)
            return known
        if ask.transcript:
            key = owner, digest(ask.transcript)
            found = self._transcripts.get(key)
            if found:
                *others, left = found
                self._keep_alike(key, others)
                left.taken = True
                return left
            _log.info("a chat is not known here, so the agent sees its newest message only")
        return None

    async def _run(self, exchange: _Exchange, send: Send) -> None:
        """Runs a turn and sends the answer."""
        turn = self._turn(exchange)
        try:
            async with turn:
                answer = await (self._stream if exchange.ask.stream else self._wait)(exchange, turn, send)
        except A2AError as error:
            if error.reason in _TASK_IS_OVER and exchange.conversation.waiting and not exchange.said:
                # It has ended since, as by another answer to its question, and took no message.
                _forget_waiting(exchange)
                await self._run(exchange, send)
                return
            problem = Problem.of(error)
            problem.headers = problem_headers(error)
            if not error.reason.kind.retry or turn.task_id:
                problem.headers.append(_NO_RETRY)
            self._restore(exchange, turn)
            await self._fail(exchange, problem, send)
            return
        except asyncio.CancelledError:
            _forget_waiting(exchange)  # the turn cancels the task
            raise
        except Exception:  # noqa: BLE001  the caller gets an error without its text
            _log.exception("a request of OpenAI's API failed")
            await self._fail(exchange, Problem.of(internal_error()), send)
            return
        if answer.failed:
            _forget_waiting(exchange)
            is_shown = exchange.started and exchange.structure is None
            problem = Problem.of_task(answer, "" if is_shown else text_of_parts(answer.parts).strip())
            problem.headers.append(_NO_RETRY)
            await self._fail(exchange, problem, send)
            return
        if exchange.structure is None:
            rest = closing(answer, exchange.said)
        else:
            try:
                rest = await _structured(exchange.structure, answer)
            except UnfitError as error:
                assert exchange.ask.wanted is not None  # noqa: S101  for the type checker
                problem = Problem.of_unfit(exchange.ask.wanted, str(error))
                problem.headers.append(_NO_RETRY)
                self._note_unfit(exchange, answer)
                await self._fail(exchange, problem, send)
                return
        exchange.said += rest
        self._note(exchange, answer)
        if not exchange.ask.stream:
            await respond(send, 200, dumps(exchange.form.document(exchange.said.strip("\n"))))
            return
        await self._open(exchange, send)
        if rest:
            await _write(send, exchange.form.delta(rest))
        await _write(send, exchange.form.ending(exchange.said), more=False)

    def _turn(self, exchange: _Exchange) -> Turn:
        """The turn of a request: to the task that waits, or to the context."""
        conversation = exchange.conversation
        message = hub.Message(message_id=new_name(), role=hub.ROLE_USER, parts=exchange.ask.parts)
        if conversation.waiting:
            message.task_id = conversation.waiting
        else:
            message.context_id = conversation.context_id
        return Turn(self._upstream, message, exchange.context, conversation.shown)

    async def _wait(self, exchange: _Exchange, turn: Turn, _: Send) -> Answer:
        while await turn.next() is not None:
            pass
        answer = turn.answer
        if exchange.structure is None:
            exchange.said = text_of_parts(answer.parts)
        return answer

    async def _stream(self, exchange: _Exchange, turn: Turn, send: Send) -> Answer:
        while True:
            try:
                async with asyncio.timeout(_SILENCE):
                    update = await turn.next()
            except TimeoutError:
                await self._open(exchange, send)
                await _write(send, [b": working\n\n"])
                continue
            if update is None:
                return turn.answer
            text = text_of_parts(update.parts)
            if text and exchange.structure is None:
                await self._open(exchange, send)
                exchange.said += text
                await _write(send, exchange.form.delta(text))

    async def _open(self, exchange: _Exchange, send: Send) -> None:
        """Begins the stream, unless it has begun."""
        if exchange.started:
            return
        exchange.started = True
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
        await _write(send, exchange.form.opening())

    async def _fail(self, exchange: _Exchange, problem: Problem, send: Send) -> None:
        if exchange.started:
            await _write(send, exchange.form.failing(problem, exchange.said), more=False)
        else:
            await send_problem(send, problem)

    def _restore(self, exchange: _Exchange, turn: Turn) -> None:
        """Keeps a conversation whose message did not get through, so that the caller can try again."""
        if not turn.task_id or exchange.conversation.waiting:
            self._put_back(exchange)

    def _put_back(self, exchange: _Exchange) -> None:
        """Has the transcript before this request lead to its conversation again."""
        left = exchange.left
        if left is not None and not exchange.ask.previous_response_id:
            left.taken = False
            self._keep_alike(left.key, [*(self._transcripts.get(left.key) or []), left])

    def _note_unfit(self, exchange: _Exchange, answer: Answer) -> None:
        """Remembers how a conversation goes on whose caller did not get the answer."""
        _forget_waiting(exchange)
        if exchange.name:
            exchange.conversation.note(answer)
            self._named.keep(exchange.owner, exchange.name, exchange.conversation)
            return
        if answer.waits:
            self._upstream.spawn(self._upstream.cancel(answer.task_id, exchange.context))
        self._put_back(exchange)

    def _note(self, exchange: _Exchange, answer: Answer) -> None:
        """Remembers how the conversation goes on."""
        conversation = exchange.conversation
        conversation.note(answer)
        if exchange.name:
            self._named.keep(exchange.owner, exchange.name, conversation)
        newest = ("user", exchange.ask.newest)
        transcript = (*exchange.ask.transcript, newest, ("assistant", exchange.said))
        left = _Left(replace(conversation), (exchange.owner, digest(transcript)), conversation.size)
        if isinstance(exchange.form, Response):
            self._keep_response(exchange.owner, exchange.form.id, left)
        if not exchange.name:
            self._keep_alike(left.key, [*(self._transcripts.get(left.key) or []), left])

    def _keep_response(self, owner: str, response: str, left: _Left) -> None:
        self._responses.put((owner, response), left, size_of(owner, response) + left.size)

    def _keep_alike(self, key: tuple[str, str], lefts: list[_Left]) -> None:
        """Has a transcript lead to these conversations, the newest first."""
        if not lefts:
            self._transcripts.pop(key)
            return
        lefts = lefts[-_ALIKE:]
        size = sum([one.size for one in lefts])
        self._transcripts.put(key, lefts, size_of(*key) + size)


def _forget_waiting(exchange: _Exchange) -> None:
    """Has the next message begin a task: the one that waited is over."""
    for one in (exchange.conversation, None if exchange.left is None else exchange.left.conversation):
        if one is not None:
            one.waiting, one.shown = "", {}


async def _structure(wanted: Wanted) -> Structure:
    """The form that a request asks for. Raises RequestError."""
    if wanted.schema is None:
        return Structure(None)
    try:
        return Structure(await run_in_worker(validator_of, wanted.schema))
    except SchemaError as error:
        raise RequestError(f"{wanted.path}: {error}", wanted.path) from None


async def _structured(structure: Structure, answer: Answer) -> str:
    """The JSON text of an answer. Raises UnfitError."""
    note = (text_part(answer.note), *answer.note_parts) if answer.note else answer.note_parts
    if answer.waits:
        raise UnfitError(f"the agent asks: {text_of_parts(note)}")
    return await structure.text_of(answer.parts or note)


def _name_of(scope: Scope) -> str:
    """The name that the header gives the conversation; empty without the header. Raises RequestError."""
    names: list[str] = [
        value.decode("latin-1") for name, value in scope["headers"] if name == HEADER.encode()
    ]
    if not names:
        return ""
    if len(names) > 1 or not 0 < len(names[0]) <= _LONGEST_NAME:
        raise RequestError(f"the header {HEADER} is one name of at most {_LONGEST_NAME} characters")
    return names[0]


#: conversations of one caller with the same transcript
_ALIKE = 10
_NO_RETRY = (b"x-should-retry", b"false")


async def _write(send: Send, events: Iterable[bytes], *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": b"".join(events), "more_body": more})


async def send_problem(send: Send, problem: Problem) -> None:
    """Answers with an error."""
    await respond(send, problem.status, problem.body, problem.headers)
