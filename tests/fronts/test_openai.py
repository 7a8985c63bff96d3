"""The front for OpenAI's API with the official client, before agents of 1.0 and 0.3."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import reduce
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from a2a_bridge import A2AError, Reason, Run
from a2a_bridge.hosting import Event
from a2a_bridge_adapters.fronts.openai_serving import openai_front
from tests.fronts.desk import FORMS, PNG, At, Desk, serving
from tests.fronts.fronts import authentication, listening
from tests.patience import PATIENCE

Messages = list[dict[str, Any]]


@asynccontextmanager
async def fronted(target: Any, **options: Any) -> AsyncIterator[str]:
    app = openai_front(target, **options)
    async with listening(app) as url:
        try:
            yield url
        finally:
            await app.close()


def client(url: str, key: str = "none") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE)


async def chat(api: AsyncOpenAI, messages: Messages | str, *, model: str = "desk", **options: Any) -> str:
    given: Any = [user(messages)] if isinstance(messages, str) else messages
    found = await api.chat.completions.create(model=model, messages=given, **options)
    assert (found.choices[0].finish_reason, found.model) == ("stop", model)
    return str(found.choices[0].message.content)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def test_the_models(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        assert [one.id async for one in api.models.list()] == ["desk"]
        assert (await api.models.retrieve("desk")).object == "model"
        with pytest.raises(
            openai.NotFoundError, match="the model 'gpt' does not exist; this agent is 'desk'"
        ):
            await api.models.retrieve("gpt")


async def test_a_chat(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        assert await chat(api, "hello", temperature=0.5, max_tokens=9, stop=["x"], tools=[]) == "hello!"
        assert await chat(api, "direct reply") == "reply"
        image = {"url": "data:image/png;base64," + base64.b64encode(PNG).decode()}
        parts = [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": image},
            {"type": "image_url", "image_url": {"url": "https://files.example/a.png"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:text/csv;base64,YSxi", "filename": "a.csv"}},
        ]
        assert await chat(api, [{"role": "system", "content": "be nice"}, user(parts)]) == "look!"
        assert [(one.WhichOneof("content"), one.media_type, one.filename) for one in desk.parts] == [
            ("text", "", ""),
            ("raw", "image/png", ""),
            ("url", "image/*", ""),
            ("raw", "audio/wav", ""),
            ("raw", "text/csv", "a.csv"),
        ]
        assert desk.parts[1].raw == PNG


async def test_files_of_the_agent_are_markdown(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        text = await chat(api, "files")
        streamed = ""
        async for one in await api.chat.completions.create(
            model="desk", messages=[{"role": "user", "content": "files"}], stream=True
        ):
            streamed += one.choices[0].delta.content or ""
    assert text.startswith("here\n\n[text/csv](https://files.example/a%20b.csv)\n")
    assert f"![dot.png](data:image/png;base64,{base64.b64encode(PNG).decode()})" in text
    assert "[a b.pdf](data:application/pdf;base64,JVBERi0=)" in text
    assert '```json\n{\n  "degrees": 21\n}\n```' in text
    assert streamed.strip("\n") == text


async def test_a_stream(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        stream = await api.chat.completions.create(
            model="desk",
            messages=[{"role": "user", "content": "hello"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [one async for one in stream]
    assert [one.choices[0].delta.content for one in chunks[:-1]] == ["", "hello", "!", None]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-1].choices, chunks[-1].usage is not None) == ([], True)
    assert len({one.id for one in chunks}) == 1


async def test_a_chat_goes_on_by_its_transcript(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        messages = [{"role": "system", "content": "it is noon"}, user("turn")]
        for count in (1, 2, 3):
            answer = await chat(api, messages)
            assert answer == f"turn {count}"
            # Clients change what the system says, and remove space.
            messages = [{"role": "system", "content": f"it is {count}"}, *messages[1:]]
            messages += [assistant(f" {answer}\n"), user("turn")]
        assert await chat(api, "turn") == "turn 1"
    assert sorted(desk.seen.values()) == [1, 3]


async def test_chats_that_are_alike_do_not_mix(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        for _ in range(2):
            assert await chat(api, "turn") == "turn 1"
        both = [user("turn"), assistant("turn 1"), user("turn")]
        assert await chat(api, both) == "turn 2"
        assert await chat(api, both) == "turn 2"
        # A third chat with this transcript has not been here.
        assert await chat(api, both) == "turn 1"
    assert sorted(desk.seen.values()) == [1, 2, 2]


async def test_a_chat_that_fails_leaves_one_that_is_alike_alone(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        for _ in range(2):
            assert await chat(api, "turn") == "turn 1"
        so_far = [user("turn"), assistant("turn 1")]
        with pytest.raises(openai.APIStatusError):
            await chat(api, [*so_far, user("refuse")])
        again = [await chat(api, [*so_far, user("turn")]) for _ in range(2)]
    # The agent counts the message that it refused.
    assert sorted(again) == ["turn 2", "turn 3"]
    assert sorted(desk.seen.values()) == [2, 3]


async def test_a_chat_with_a_name_or_an_id_does_not_mix_with_one_that_is_alike(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        both = [user("turn"), assistant("turn 1"), user("turn")]
        header = {"X-A2A-Conversation": "mine"}
        assert await chat(api, "turn") == "turn 1"
        assert await chat(api, "turn", extra_headers=header) == "turn 1"
        assert await chat(api, both) == "turn 2"
        assert await chat(api, both, extra_headers=header) == "turn 2"
        for id_first in (True, False):
            assert await chat(api, "turn") == "turn 1"
            response = await api.responses.create(model="desk", input="turn")
            for by_id in (id_first, not id_first):
                if by_id:
                    again = await api.responses.create(
                        model="desk", input="turn", previous_response_id=response.id
                    )
                    assert again.output_text == "turn 2"
                else:
                    assert await chat(api, both) == "turn 2"
    assert sorted(desk.seen.values()) == [2] * 6


async def test_a_task_that_has_ended_is_not_continued(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        header = {"X-A2A-Conversation": "mine"}
        assert await chat(api, "ask", extra_headers=header) == "so far\n\nwhich one?"
        with pytest.raises(openai.InternalServerError):
            await chat(api, "fail", extra_headers=header)
        assert await chat(api, "turn", extra_headers=header) == "turn 3"
        first = await api.responses.create(model="desk", input="ask")
        with pytest.raises(openai.InternalServerError):
            await api.responses.create(model="desk", input="fail", previous_response_id=first.id)
        again = await api.responses.create(model="desk", input="turn", previous_response_id=first.id)
        assert again.output_text == "turn 3"
        # Another answer to a question that has been answered, as clients do that go back.
        first = await api.responses.create(model="desk", input="ask")
        await api.responses.create(model="desk", input="red", previous_response_id=first.id)
        other = await api.responses.create(model="desk", input="turn", previous_response_id=first.id)
        assert other.output_text == "turn 3"
        # The caller leaves.
        assert await chat(api, "ask", extra_headers=header) == "so far\n\nwhich one?"
        call = asyncio.create_task(chat(api, "work", extra_headers=header))
        await desk.working.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await desk.cancelled.wait()
        assert await chat(api, "turn", extra_headers=header) == "turn 6"


async def test_a_transcript_belongs_to_its_caller(desk_at: At) -> None:
    desk, target = desk_at
    async with (
        fronted(target, authenticate=authentication()) as url,
        client(url, "key of ann") as ann,
        client(url, "key of bob") as bob,
    ):
        assert await chat(ann, "turn") == "turn 1"
        both = [user("turn"), assistant("turn 1"), user("turn")]
        assert await chat(bob, both) == "turn 1"
        assert await chat(ann, both) == "turn 2"
        for api, count in ((ann, 1), (bob, 1), (ann, 2), (bob, 2)):
            header = {"X-A2A-Conversation": "mine"}
            assert await chat(api, "turn", extra_headers=header) == f"turn {count}"
    assert sorted(desk.seen.values()) == [1, 2, 2, 2]
    sent = [value for parameters in desk.parameters for value in parameters.values()]
    assert not [value for value in sent if "key of" in value]


async def test_a_response_belongs_to_its_caller(desk_at: At) -> None:
    async with (
        fronted(desk_at[1], authenticate=authentication()) as url,
        client(url, "key of ann") as ann,
        client(url, "key of bob") as bob,
    ):
        first = await ann.responses.create(model="desk", input="turn")
        with pytest.raises(openai.BadRequestError) as caught:
            await bob.responses.create(model="desk", input="turn", previous_response_id=first.id)
        assert (caught.value.code, caught.value.param) == (
            "previous_response_not_found",
            "previous_response_id",
        )
        second = await ann.responses.create(model="desk", input="turn", previous_response_id=first.id)
        assert (second.output_text, second.previous_response_id) == ("turn 2", first.id)


async def test_a_question_is_answered_by_the_next_message(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        asked = await chat(api, "ask red or blue?")
        assert asked == "so far\n\nred or blue?"
        messages = [user("ask red or blue?"), assistant(asked), user("red")]
        assert await chat(api, messages) == "you said red"
        first = await api.responses.create(model="desk", input="ask red or blue?")
        second = await api.responses.create(model="desk", input="blue", previous_response_id=first.id)
        assert (first.output_text, second.output_text) == (asked, "you said blue")
        header = {"X-A2A-Conversation": "one"}
        assert await chat(api, "auth", extra_headers=header) == "log in at https://login.example"
        assert await chat(api, "done", extra_headers=header) == "you said done"
        assert await chat(api, "turn", extra_headers=header) == "turn 3"


async def test_responses(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        found = await api.responses.create(
            model="desk",
            instructions="be nice",
            input=[
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "yes?"}]},  # type: ignore[list-item]
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "look"},
                        {"type": "input_image", "image_url": "https://files.example/a.png", "detail": "auto"},
                        {"type": "input_file", "file_url": "https://files.example/a.pdf"},
                    ],
                },
            ],
        )
        assert (found.output_text, found.status, found.error) == ("look!", "completed", None)
        assert [one.WhichOneof("content") for one in desk.parts] == ["text", "url", "url"]
        stream = await api.responses.create(model="desk", input="hello", stream=True)
        events = [one async for one in stream]
    assert [one.type for one in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [one.sequence_number for one in events] == list(range(10))
    assert (events[-1].type, events[-1].response.output_text) == ("response.completed", "hello!")


async def test_messages_that_are_referred_to(desk_at: At) -> None:
    """The second turn of the Vercel AI SDK."""
    desk, target = desk_at
    async with fronted(target, authenticate=authentication()) as url:
        ann, bob = client(url, "key of ann"), client(url, "key of bob")
        async with ann, bob:
            given: list[Any] = [user("turn")]
            for count in (1, 2, 3):
                answer = await ann.responses.create(model="desk", input=given)
                assert answer.output_text == f"turn {count}"
                given += [{"type": "item_reference", "id": answer.output[0].id}, user("turn")]
            with pytest.raises(openai.BadRequestError, match="not found"):
                await bob.responses.create(model="desk", input=given)
            with pytest.raises(openai.BadRequestError, match="not beside previous_response_id"):
                await ann.responses.create(model="desk", input=given, previous_response_id=answer.id)
    assert sorted(desk.seen.values()) == [3]


async def test_texts_that_are_empty_are_left_out(desk_at: At) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        content = [{"type": "text", "text": ""}, {"type": "text", "text": "turn"}]
        messages = [user(""), assistant(""), user(content)]
        assert await chat(api, messages) == "turn 1"
        assert [one.text for one in desk.parts] == ["turn"]
        assert await chat(api, [*messages, assistant("turn 1"), user(""), user("turn")]) == "turn 2"


async def test_a_task_that_fails_says_what_it_had_said(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        with pytest.raises(openai.InternalServerError) as failed:
            await chat(api, "break")
    assert failed.value.body is not None
    assert failed.value.body["message"] == "so far\n\nbroken"  # type: ignore[index]


async def test_tasks_that_fail(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as failed:
                await chat(api, "fail", stream=stream)
            assert (failed.value.code, failed.value.message.endswith("failed'}}")) == ("task_failed", False)
            with pytest.raises(openai.BadRequestError, match="rejected"):
                await chat(api, "reject", stream=stream)
        with pytest.raises(openai.InternalServerError) as crashed:
            await api.responses.create(model="desk", input="crash")
        assert "secret" not in str(crashed.value)
    # The client tries again unless it is told not to.
    assert sum(desk_at[0].seen.values()) == 5


async def test_a_stream_that_fails(desk_at: At) -> None:
    async with fronted(desk_at[1]) as url, client(url) as api:
        stream = await api.chat.completions.create(
            model="desk", messages=[{"role": "user", "content": "break"}], stream=True
        )
        with pytest.raises(openai.APIError, match="broken"):
            [one async for one in stream]
        events = [one async for one in await api.responses.create(model="desk", input="break", stream=True)]
    assert [one.type for one in events[-2:]] == ["error", "response.failed"]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None
    assert events[-1].response.error.message == "broken"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_cancels_the_task(desk_at: At, stream: bool) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url) as api:
        call = asyncio.create_task(chat(api, "work", stream=stream))
        await desk.working.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await desk.cancelled.wait()


CHAT: Any = {"model": "desk", "messages": [user("x")]}
JSON, PLAIN = {"Content-Type": "application/json; charset=utf-8"}, {"Content-Type": "text/plain"}
RESPONSE: Any = {"model": "desk", "input": "x"}
#: deeper than Python writes
DEEP: Any = reduce(lambda inner, _: {"a": inner}, range(900), None)
#: path, body or members of a good one, status, member
WRONG = (
    ("chat/completions", b"{", 400, None),
    ("chat/completions", b"\xff", 400, None),
    ("chat/completions", b"[" * 100_000, 400, None),
    ("chat/completions", b"[]", 400, None),
    ("chat/completions", {"model": None}, 400, "model"),
    ("chat/completions", {"model": "gpt"}, 404, "model"),
    ("chat/completions", {"messages": None}, 400, "messages"),
    ("chat/completions", {"messages": []}, 400, "messages"),
    ("chat/completions", {"messages": [3]}, 400, "messages[0]"),
    ("chat/completions", {"messages": [{"role": "king"}]}, 400, "messages[0].role"),
    ("chat/completions", {"messages": [{"role": ["user"]}]}, 400, "messages[0].role"),
    ("chat/completions", {"messages": [user("x"), assistant("y")]}, 400, "messages[1].role"),
    ("chat/completions", {"messages": [user("")]}, 400, "messages[0].content"),
    ("chat/completions", {"messages": [user(3)]}, 400, "messages[0].content"),
    ("chat/completions", {"messages": [user("\ud800")]}, 400, "messages[0].content"),
    ("chat/completions", {"model": "\ud800"}, 404, "model"),
    ("chat/completions", {"messages": [{"role": DEEP}]}, 400, "messages[0].role"),
    ("chat/completions", {"messages": [user([{"type": DEEP}])]}, 400, "messages[0].content[0].type"),
    ("chat/completions", {"model": "m" * 1_000_000}, 404, "model"),
    ("chat/completions", {"n": True}, 400, "n"),
    ("chat/completions", {"messages": [user([{"type": "video"}])]}, 400, "messages[0].content[0].type"),
    ("chat/completions", {"messages": [user([{"type": "text"}])]}, 400, "messages[0].content[0].text"),
    (
        "chat/completions",
        {"messages": [user([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])]},
        400,
        "messages[0].content[0].image_url.url",
    ),
    (
        "chat/completions",
        {"messages": [user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}])]},
        400,
        "messages[0].content[0].image_url.url",
    ),
    (
        "chat/completions",
        {"messages": [user([{"type": "file", "file": {"file_id": "f"}}])]},
        400,
        "messages[0].content[0].file.file_id",
    ),
    ("chat/completions", {"stream": "yes"}, 400, "stream"),
    ("chat/completions", {"stream_options": 1}, 400, "stream_options"),
    ("chat/completions", {"n": 2}, 400, "n"),
    ("chat/completions", {"tools": [{"type": "function"}]}, 400, "tools"),
    ("chat/completions", {"tool_choice": "required"}, 400, "tool_choice"),
    ("chat/completions", {"functions": [{}]}, 400, "functions"),
    ("chat/completions", {"response_format": {"type": "xml"}}, 400, "response_format.type"),
    ("chat/completions", {"response_format": 1}, 400, "response_format"),
    ("chat/completions", {"response_format": DEEP}, 400, "response_format.type"),
    ("chat/completions", {"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema"),
    ("chat/completions", {"logprobs": True}, 400, "logprobs"),
    ("responses", {"input": None}, 400, "input"),
    ("responses", {"input": [{"type": "function_call_output"}]}, 400, "input[0].type"),
    ("responses", {"input": [{"type": DEEP}]}, 400, "input[0].type"),
    ("responses", {"input": [{"type": "item_reference"}]}, 400, "input[0].id"),
    ("responses", {"input": [{"type": "item_reference", "id": "rs_1"}, user("x")]}, 400, "input[0].id"),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, 400, "input[0].role"),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}, user("x")]}, 400, "input[0].id"),
    ("chat/completions", {"messages": [user([])]}, 400, "messages[0].content"),
    ("chat/completions", {"messages": [user([{"type": "text", "text": ""}])]}, 400, "messages[0].content"),
    ("responses", {"tools": [{"type": "web_search"}]}, 400, "tools"),
    ("responses", {"background": True}, 400, "background"),
    ("responses", {"text": {"format": {"type": "json_schema"}}}, 400, "text.format.schema"),
    ("responses", {"text": 3}, 400, "text"),
    ("completions", {}, 404, None),
    ("responses", {"previous_response_id": 3}, 400, "previous_response_id"),
    ("responses", {"previous_response_id": "resp_1"}, 400, "previous_response_id"),
    ("embeddings", {}, 404, None),
)


async def test_requests_that_are_wrong() -> None:
    desk = Desk()
    async with (
        asyncio.timeout(PATIENCE),
        serving(desk, *FORMS[0]) as card,
        fronted(card) as url,
        httpx.AsyncClient(timeout=PATIENCE) as http,
    ):
        for path, wrong, status, param in WRONG:
            good = RESPONSE if path == "responses" else CHAT
            body = wrong if isinstance(wrong, bytes) else json.dumps(good | wrong).encode()
            response = await http.post(f"{url}/v1/{path}", content=body, headers=JSON)
            error = response.json()["error"]
            assert (response.status_code, error["param"]) == (status, param), (wrong, response.text)
            assert 0 < len(error["message"]) < 1000
            assert error["type"] == "invalid_request_error"
        assert (await http.get(f"{url}/v1/chat/completions")).status_code == 405
        # What a form of a web page can send.
        plain = await http.post(f"{url}/v1/responses", content=json.dumps(RESPONSE), headers=PLAIN)
        assert (plain.status_code, plain.json()["error"]["type"]) == (415, "invalid_request_error")
        for names in (
            [("x-a2a-conversation", "a"), ("x-a2a-conversation", "b")],
            [("x-a2a-conversation", "a" * 257)],
        ):
            response = await http.post(f"{url}/v1/responses", json=RESPONSE, headers=names)
            assert response.status_code == 400
    assert not desk.seen


async def test_hosts_that_are_not_allowed() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(Desk(), *FORMS[0]) as card,
        fronted(card, allowed_hosts=("127.0.0.1:*", "chat.example")) as url,
        httpx.AsyncClient(timeout=PATIENCE) as http,
    ):
        for host, status in (
            ("127.0.0.1:9", 200),
            ("Chat.Example", 200),
            ("chat.example:80", 421),
            ("127.0.0.1.evil.example:80", 421),
            ("evil.example", 421),
        ):
            response = await http.get(f"{url}/v1/models", headers={"Host": host})
            assert response.status_code == status, host


async def test_an_agent_that_is_gone() -> None:
    async with asyncio.timeout(PATIENCE), serving(Desk(), *FORMS[0]) as card:
        pass
    async with asyncio.timeout(PATIENCE), fronted(card) as url:
        api = client(url).with_options(max_retries=0)
        with pytest.raises(openai.InternalServerError) as gone:
            await chat(api, "x")
        assert (gone.value.status_code, gone.value.code) == (503, "unavailable")
        await api.close()


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        (Reason.UNAUTHENTICATED, 502, "agent_unauthenticated"),
        (Reason.PERMISSION_DENIED, 502, "agent_permission_denied"),
        (Reason.RESOURCE_EXHAUSTED, 503, "agent_resource_exhausted"),
    ],
)
async def test_an_agent_that_rejects_the_front_does_not_reject_the_key_of_its_caller(
    reason: Reason, status: int, code: str
) -> None:
    class Rejecting(Desk):
        async def execute(self, run: Run, /) -> AsyncIterator[Event]:
            raise A2AError(reason, "no")
            yield

    async with (
        asyncio.timeout(PATIENCE),
        serving(Rejecting(), *FORMS[0]) as card,
        fronted(card, authenticate=authentication()) as url,
        client(url, "key of ann").with_options(max_retries=0) as api,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await chat(api, "x")
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert "www-authenticate" not in caught.value.response.headers


class Endless(Desk):
    """Says one word, if it is asked for, and works."""

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        yield run.start()
        if run.text == "say":
            yield run.artifact("word", artifact_id="a")
        self.working.set()
        await self._work()


async def test_a_server_that_stops_tells_its_callers() -> None:
    desk = Endless()
    async with asyncio.timeout(PATIENCE), serving(desk, *FORMS[0]) as card:
        app = openai_front(card)
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(listening(app))
            api = client(url).with_options(max_retries=0)
            stream = await api.chat.completions.create(model="desk", messages=[user("say")], stream=True)
            words = aiter(stream)
            while not (await anext(words)).choices[0].delta.content:
                pass
            desk.working.clear()
            waiting = asyncio.create_task(chat(api, "wait"))
            await desk.working.wait()
            stopping = asyncio.create_task(stack.aclose())
            with pytest.raises(openai.InternalServerError) as caught:
                await waiting
            assert (caught.value.status_code, caught.value.code) == (503, "server_stopping")
            with pytest.raises(openai.APIError, match="the server is stopping"):
                await anext(words)
            await stopping
        await api.close()
        await app.close()
    await asyncio.wait_for(desk.cancelled.wait(), PATIENCE)
