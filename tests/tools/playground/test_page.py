"""The page of the playground before an agent, as a user meets it: `a2a-bridge serve FILE --ui` in a browser."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.commands import ANY_PORT
from tests.tools.playground.browser import TABS, View, browser, program, show

__all__ = ["browser", "show"]

AGENT = Path(__file__).with_name("talkative_agent.py")
EXAMPLES = Path(__file__).parents[3] / "examples"
CURRENT = ("JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0")
DELIVER_HERE = ("--push-allow", "127.0.0.0/8")


@pytest.fixture(scope="module")
def ui(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a playground; not started without a browser."""
    usage = tmp_path_factory.mktemp("usage") / "usage.json"
    watched = ("--admin", "127.0.0.1:0", "--usage-file", str(usage))
    with program("serve", str(AGENT), *ANY_PORT, "--ui", *watched, *DELIVER_HERE) as addresses:
        yield addresses["ui"]


@pytest.fixture
def view(show: Callable[..., View], ui: str) -> View:
    return show(ui, f"cells={quote(','.join(CURRENT))}")


def test_the_first_view_says_what_will_be_shown(show: Callable[..., View], ui: str) -> None:
    view = show(ui)
    assert all(box.is_checked() for box in view.get("cell").all())
    expect(view.get("intro")).to_contain_text("It makes 9 calls")
    view.cells("GRPC 1.0")
    expect(view.get("intro")).to_contain_text("It makes one call")
    view.get("send-example").click()
    expect(view.get("status")).to_have_text("SendMessage: 1 interface done")
    expect(view.get("text")).to_have_value("count 3")
    expect(view.get("intro")).to_have_count(0)


def test_recent_tasks_are_in_the_tab_of_tasks(view: View) -> None:
    view.tab("task")
    expect(view.get("no-tasks")).to_be_visible()
    view.send("hello")
    view.tab("task")
    expect(view.get("recent-task")).to_have_count(3)
    expect(view.get("recent-task").first).to_contain_text("JSONRPC 1.0")
    view.get("recent-open").nth(2).click()
    expect(view.get("task-cell")).to_have_value("GRPC 1.0")
    expect(view.get("task")).to_contain_text("completed")


def test_an_agent_without_notifications_has_no_form_for_them(show: Callable[..., View]) -> None:
    with program("serve", str(EXAMPLES / "weather.py"), *ANY_PORT, "--ui") as addresses:
        view = show(addresses["ui"])
        view.tab("webhooks")
        expect(view.get("no-push")).to_contain_text("declares no push notifications")
        expect(view.get("webhook-register")).to_have_count(0)


def test_nothing_is_cut_on_a_phone(show: Callable[..., View], ui: str) -> None:
    view = show(ui, viewport={"width": 390, "height": 800})
    view.send("hello")
    # All tabs stand in one row.
    assert len({view.get(f"tab-{name}").bounding_box()["y"] for name in TABS}) == 1  # type: ignore[index]
    # The bindings of a version stand in one row.
    rows = {box.get_attribute("data-cell"): box.bounding_box() for box in view.get("cell").all()}
    assert len({rows[cell]["y"] for cell in CURRENT}) == 1  # type: ignore[index]
    view.tab("history")
    region = view.page.get_by_role("region", name="Calls")
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth")
    expect(view.get("history-open").first).to_be_in_viewport()


def test_a_message_over_three_bindings(view: View) -> None:
    view.send("tck-stream-chunked", stream=True)
    expect(view.get("status")).to_have_text("SendStreamingMessage: 3 interfaces done, all equal")
    expect(view.get("lane-row")).to_have_count(3)
    assert [one.get_attribute("data-cell") for one in view.get("lane-row").all()] == list(CURRENT)
    for cell in CURRENT:
        line, answer = view.line(cell), view.answer(cell)
        expect(line.get_by_test_id("state")).to_have_text("completed")
        expect(line).to_contain_text(re.compile(r"completed[\d.]+ ms[\d.]+ ms"))
        expect(line.get_by_test_id("lane-choose")).to_have_attribute("aria-pressed", "true")
        expect(answer.get_by_test_id("result")).to_have_text("chunk-1 chunk-2 chunk-3")
        expect(answer.get_by_test_id("event")).to_have_count(6)
        ids = [one.get_attribute("data-id") for one in answer.get_by_test_id("event").all()]
        assert ids == [*"123456"], cell
    expect(view.get("mark")).to_have_text(["first", "= same", "= same"])
    tracks = [one.get_attribute("aria-label") for one in view.get("track").all()]
    assert [one.split(":")[0] for one in tracks] == list(CURRENT)
    assert all("6 events" in one and one.endswith("completed") for one in tracks), tracks
    view.get("times").click()
    expect(view.get("time-row")).to_have_count(3)
    view.picture("compose")


def test_results_of_all_interfaces_leave_room_for_their_details(show: Callable[..., View], ui: str) -> None:
    view = show(ui, viewport={"width": 1280, "height": 900})
    for box in view.get("cell").all():
        box.check()
    view.send("hello", stream=True)
    expect(view.get("lane-row")).to_have_count(9)
    expect(view.get("track").last).to_be_in_viewport()
    view.tab("frames")
    expect(view.get("frame").first).to_be_in_viewport()


def test_tabs_without_content_say_what_they_are_for(show: Callable[..., View]) -> None:
    with program("serve", str(AGENT), *ANY_PORT, "--ui") as addresses:
        view = show(addresses["ui"])
        for tab, name, said in (
            ("task", "no-tasks", "Read one task over one interface"),
            ("webhooks", "delivery-count", "each notification that the agent sends is shown here"),
            ("history", "no-calls", "Each call of this page is kept here"),
            ("errors", "no-errors", "one bad call over each chosen interface"),
        ):
            view.tab(tab)
            expect(view.get(name)).to_contain_text(said)
        expect(view.get("lane-row")).to_have_count(0)


def test_the_frames_are_those_of_the_wire(view: View) -> None:
    view.send("tck-stream-chunked", stream=True)
    view.tab("frames")
    frames = view.get("frame")
    expect(frames.nth(0)).to_contain_text("POST / HTTP/1.1")
    expect(frames.nth(0)).to_contain_text('"method":"SendStreamingMessage"')
    expect(frames.nth(1)).to_contain_text("HTTP/1.1 200 OK")
    expect(frames.nth(1)).to_contain_text("text/event-stream")
    expect(frames.nth(1)).to_contain_text('data: {"jsonrpc":"2.0"')
    view.choose("view-decoded")
    expect(frames.nth(1).locator("pre")).to_have_count(6)
    events = [json.loads(one.text_content() or "") for one in frames.nth(1).locator("pre").all()]
    assert [next(iter(one["result"])) for one in events] == [
        "task",
        "statusUpdate",
        *["artifactUpdate"] * 3,
        "statusUpdate",
    ]
    view.get("frames-lane").select_option("GRPC 1.0|client")
    expect(frames.first).to_contain_text("/lf.a2a.v1.A2AService/SendStreamingMessage")
    expect(frames.last).to_contain_text("grpc-status: 0 OK")
    assert frames.last.get_attribute("data-label") == "trailers"
    view.choose("view-core")
    assert json.loads(frames.nth(0).locator("pre").text_content() or "")["message"]["role"] == "ROLE_USER"
    assert "artifactUpdate" in json.loads(frames.nth(3).locator("pre").text_content() or "")


def test_the_call_as_a_command(show: Callable[..., View], ui: str) -> None:
    view = show(ui, permissions=["clipboard-read", "clipboard-write"])
    view.send("hello")
    view.tab("copy")
    expect(view.get("copy-text")).to_contain_text("curl ")
    expect(view.get("copy-text")).to_contain_text('"method":"SendMessage"')
    view.get("copy-kind").select_option("python")
    expect(view.get("copy-text")).to_contain_text("import asyncio")
    view.get("copy-cell").select_option("GRPC 1.0")
    view.get("copy-kind").select_option("grpcurl")
    expect(view.get("copy-text")).to_contain_text("grpcurl ")
    view.get("copy").click()
    expect(view.get("copy")).to_have_text("Copied")
    assert view.page.evaluate("navigator.clipboard.readText()") == view.get("copy-text").text_content()


def test_text_parts_and_json_are_one_request(view: View, tmp_path: Path) -> None:
    view.get("example").click()
    expect(view.get("text")).to_have_value("count 3")
    view.get("text").fill("hello")
    view.choose("mode-parts")
    expect(view.get("part")).to_have_count(1)
    expect(view.get("part-content")).to_have_value("hello")
    view.get("add-part").click()
    view.get("part-kind").nth(1).select_option("data")
    view.get("part-content").nth(1).fill('{"n": [1')
    expect(view.get("json-fault")).to_be_visible()
    view.get("part-content").nth(1).fill('{"n": [1]}')
    view.get("add-part").click()
    view.get("part-kind").nth(2).select_option("raw")
    file = tmp_path / "small.txt"
    file.write_text("five!")
    view.get("part-file").set_input_files(file)
    expect(view.get("part").nth(2)).to_contain_text("5 bytes")
    view.choose("mode-json")
    written = json.loads(view.get("json").input_value())
    raw = {"raw": "Zml2ZSE=", "filename": "small.txt", "mediaType": "text/plain"}
    assert written["message"]["parts"] == [{"text": "hello"}, {"data": {"n": [1]}}, raw]
    view.get("json").fill("{")
    view.get("send").click()
    expect(view.get("json-fault")).to_be_visible()
    expect(view.get("lane-row")).to_have_count(0)
    written["message"]["parts"].reverse()
    view.get("json").fill(json.dumps(written))
    view.get("send").click()
    expect(view.get("status")).to_have_text("SendMessage: 3 interfaces done, all equal")
    expect(view.answer("GRPC 1.0").get_by_test_id("result")).to_contain_text("small.txt: 5 bytes")


def test_headers_are_sent_and_their_values_are_not_kept(view: View) -> None:
    view.page.get_by_text("Headers", exact=True).first.click()
    view.get("headers").fill("no header")
    view.get("send").click()
    expect(view.get("problem")).to_contain_text("not a header")
    view.get("headers").fill("x-probe: secret-value")
    view.send("hello")
    view.tab("frames")
    expect(view.get("frame").first).to_contain_text("x-probe")
    expect(view.get("frame").first).not_to_contain_text("secret-value")


def test_what_an_agent_says_is_never_markup(view: View) -> None:
    text = '<img src="x" onerror="document.title = 1"><b>bold</b>'
    view.send(text, stream=True)
    expect(view.answer("JSONRPC 1.0").get_by_test_id("result").locator("pre")).to_have_text(text)
    assert view.page.locator("img").count() == 0
    for tab in ("frames", "diff", "copy"):
        view.tab(tab)
    assert view.page.locator("img").count() == 0
    assert "Talkative" in view.page.title()


def test_long_texts_and_long_streams_are_cut(view: View) -> None:
    view.cells("JSONRPC 1.0")
    view.send("long " * 1000)
    result = view.answer("JSONRPC 1.0").get_by_test_id("result")
    expect(result.get_by_role("button")).to_have_text("Show all 5,000 characters")
    result.get_by_role("button").click()
    expect(result.locator("pre")).to_have_text("long " * 1000)
    view.send("count 2500", stream=True)
    expect(view.get("dropped")).to_contain_text("further lines are not shown")
    assert 1500 < view.get("event").count() <= 2000
    expect(view.get("state")).to_have_text("completed")


def test_a_call_is_stopped(view: View) -> None:
    view.cells("HTTP+JSON 1.0")
    expect(view.get("stop")).to_be_disabled()
    view.get("stream").check()
    view.get("text").fill("tck-cancel")
    view.get("send").click()
    expect(view.line("HTTP+JSON 1.0")).to_contain_text("working")
    view.get("stop").click()
    expect(view.get("status")).to_have_text("SendStreamingMessage: stopped")
    expect(view.get("send")).to_be_enabled()
    # The task goes on without its caller.
    view.get("open-task").click()
    view.get("task-cancel").click()
    expect(view.get("task")).to_contain_text("canceled")


def test_a_task_is_opened_followed_and_cancelled(view: View) -> None:
    view.send("tck-stream-chunked", stream=True)
    view.answer("GRPC 1.0").get_by_test_id("open-task").click()
    task = view.get("task-id").input_value()
    expect(view.get("task")).to_contain_text(task)
    expect(view.get("task")).to_contain_text("chunk-1 chunk-2 chunk-3")
    expect(view.get("task-cell")).to_have_value("GRPC 1.0")
    view.get("task-after").fill("2")
    view.get("task-go-on").click()
    expect(view.get("status")).to_have_text("SubscribeToTask: 1 interface done")
    assert [one.get_attribute("data-id") for one in view.get("event").all()] == [*"3456"]
    expect(view.get("task-after")).to_have_value("6")
    view.get("task-list").click()
    expect(view.get("task-row").filter(has_text=task)).to_have_count(1)

    view.tab("compose")
    view.get("text").fill("tck-cancel")
    view.cells("JSONRPC 1.0")
    view.get("send").click()
    view.get("open-task").click()
    expect(view.get("task")).to_contain_text("working")
    view.get("task-subscribe").click()
    expect(view.answer("JSONRPC 1.0").get_by_test_id("event")).to_have_count(1)
    view.get("task-cancel").click()
    expect(view.get("task")).to_contain_text("canceled")


def test_a_webhook_is_registered_and_delivers(view: View) -> None:
    view.cells("JSONRPC 1.0")
    view.send("tck-input-required")
    view.get("open-task").click()
    view.tab("webhooks")
    url = view.get("webhook-url").text_content() or ""
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/webhook/[\w-]+", url)
    assert view.get("webhook-task").input_value()
    view.get("webhook-register").click()
    expect(view.get("webhook-outcome")).to_contain_text("✓ registered")
    view.tab("compose")
    view.get("reply").click()
    view.send("that is all")
    view.tab("webhooks")
    expect(view.get("delivery").first).to_contain_text("completed")
    expect(view.get("delivery-count")).to_contain_text("newest first")
    view.get("delivery").first.get_by_role("group").first.click()
    expect(view.get("delivery").first).to_contain_text("statusUpdate")
    expect(view.get("delivery").first).to_contain_text("Content-Type")


def test_a_message_registers_the_webhook_of_its_own_task(view: View) -> None:
    view.tab("webhooks")
    view.get("webhook-compose").click()
    view.cells("GRPC 1.0")
    view.send("tck-complete-task")
    view.tab("webhooks")
    expect(view.get("delivery").first).to_contain_text("completed")


def test_the_card_and_what_a_check_finds(view: View) -> None:
    view.tab("card")
    expect(view.get("card")).to_contain_text("Talks much")
    expect(view.get("card")).to_contain_text("streaming, pushNotifications")
    expect(view.get("interface")).to_have_count(9)
    view.get("check").click()
    expect(view.get("check-outcome")).to_contain_text("All is well")
    without = view.get("finding").count()
    assert view.get("finding").filter(has_text="✗").count() == 0
    view.get("check-send").click()
    expect(view.get("finding").filter(has_text="message")).not_to_have_count(0)
    expect(view.get("check-outcome")).to_contain_text("All is well")
    assert view.get("finding").count() > without


def test_the_openapi_documents_of_the_interfaces(view: View) -> None:
    view.tab("card")
    parts = view.get("openapi")
    assert [one.get_attribute("data-cell") for one in parts.all()] == [
        f"HTTP+JSON {version}" for version in ("1.0", "0.3", "0.2.5")
    ]
    newest = parts.first
    newest.locator("summary").click()
    sent = newest.get_by_test_id("openapi-row").filter(has_text="POST /message:send").first
    expect(sent).to_contain_text("SendMessage")
    expect(sent).to_contain_text("A2A-Version")
    expect(newest.get_by_test_id("openapi-text")).to_contain_text('"openapi": "3.1.0"')


def test_history_is_exported_cleared_imported_and_sent_again(view: View, tmp_path: Path) -> None:
    view.send("remember me")
    view.tab("history")
    row = view.get("history-row").filter(has_text="remember me").first
    expect(row).to_contain_text("✓ ok")
    row.get_by_test_id("history-open").click()
    expect(view.get("lane-row")).to_have_count(3)
    with view.page.expect_download() as started:
        row.get_by_test_id("history-export-one").click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    assert json.loads(file.read_text("utf-8").splitlines()[0])["call"] == "SendMessage"
    with view.page.expect_download() as started:
        view.get("history-export").click()
    assert started.value.suggested_filename == "a2a-calls.ndjson"
    view.get("history-clear").click()
    expect(view.get("history-row")).to_have_count(0)
    view.get("history-import").set_input_files(file)
    expect(view.get("history-outcome")).to_contain_text("✓ imported")
    expect(view.get("history-row")).to_have_count(1)
    view.get("history-pin").click()
    expect(view.get("history-pin")).to_have_text("Unpin")
    view.get("history-clear").click()
    expect(view.get("history-row")).to_have_count(1)
    view.get("history-open").click()
    expect(view.answer("GRPC 1.0").get_by_test_id("result")).to_contain_text("remember me")
    view.get("history-pin").click()
    view.get("history-replay").click()
    expect(view.get("text")).to_have_value("remember me")
    view.get("send").click()
    expect(view.get("status")).to_have_text("SendMessage: 3 interfaces done, all equal")


def test_the_record_of_a_command_is_shown(view: View, tmp_path: Path) -> None:
    """Its events come in pieces, with a heartbeat between them."""
    request = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "recorded"}]}}
    headers = [["Content-Type", "text/event-stream"]]
    lines: list[dict[str, Any]] = [
        {"at": 0.0, "hop": "upstream", "exchange": 0, "call": "SendStreamingMessage", "request": request},
        {"at": 0.1, "hop": "upstream", "exchange": 1, "sent": True, "head": "POST / HTTP/1.1", "body": "{}"},
        {
            "at": 0.2,
            "hop": "upstream",
            "exchange": 1,
            "sent": False,
            "head": "HTTP/1.1 200 OK",
            "headers": headers,
        },
        {"at": 0.3, "hop": "upstream", "exchange": 1, "sent": False, "body": ': beat\n\ndata: {"who'},
        {"at": 0.4, "hop": "upstream", "exchange": 1, "sent": False, "body": 'le": true}\n\n'},
    ]
    file = tmp_path / "record.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    view.tab("history")
    view.get("history-import").set_input_files(file)
    view.get("history-row").filter(has_text="recorded").first.get_by_test_id("history-open").click()
    view.tab("frames")
    assert view.get("frame").nth(1).locator(".heartbeat").all_text_contents() == [": beat\n"]
    expect(view.get("frame").nth(1)).to_contain_text("+400 ms")
    view.choose("view-decoded")
    assert json.loads(view.get("frame").nth(1).locator("pre").text_content() or "") == {"whole": True}


def test_a_file_that_is_no_record_is_rejected(view: View, tmp_path: Path) -> None:
    file = tmp_path / "wrong.ndjson"
    file.write_text("[]\n")
    view.tab("history")
    view.get("history-import").set_input_files(file)
    expect(view.get("problem")).to_contain_text("line 1")
    (rejected,) = view.faults
    assert "400" in rejected
    view.faults.clear()


def test_one_error_in_every_encoding(view: View) -> None:
    view.tab("errors")
    for version in view.get("version").all():
        version.check()
    view.get("error-send").click()
    expect(view.get("meaning")).to_have_text("All 9 mean TaskNotFoundError")
    columns = {one.get_attribute("data-cell"): one for one in view.get("error-column").all()}
    expect(columns["JSONRPC 1.0"]).to_contain_text('"code": -32001')
    expect(columns["HTTP+JSON 1.0"]).to_contain_text("404 Not Found")
    expect(columns["GRPC 1.0"]).to_contain_text("grpc-status: 5 NOT_FOUND")
    expect(columns["GRPC 1.0"]).to_contain_text("google.rpc.ErrorInfo")
    view.choose("show-core")
    expect(view.get("frame").last).to_contain_text("TaskNotFoundError")
    view.cells(*CURRENT)
    view.choose("show-decoded")
    inputs = view.get("error-input").locator("option").count()
    assert inputs == 9
    for number in range(inputs):
        view.get("error-input").select_option(str(number))
        view.get("error-send").click()
        expect(view.get("meaning")).to_have_text(re.compile(r"All 3 mean \w+Error"))
        if number == 0:
            view.picture("errors")


def test_who_called_and_the_metrics(view: View) -> None:
    view.send("hello")
    view.tab("usage")
    expect(view.get("usage-row").filter(has_text="SendMessage").first).to_contain_text("a2a-bridge")
    expect(view.get("metrics")).to_contain_text("# TYPE ")


def test_a_link_opens_what_it_names(show: Callable[..., View], ui: str) -> None:
    first = show(ui, "operation=SendStreamingMessage&text=hello+link&cells=GRPC+0.3,JSONRPC+1.0")
    expect(first.get("text")).to_have_value("hello link")
    expect(first.get("stream")).to_be_checked()
    chosen = [one.get_attribute("data-cell") for one in first.get("cell").all() if one.is_checked()]
    assert chosen == ["JSONRPC 1.0", "GRPC 0.3"]
    first.get("text").fill("another text")
    first.tab("errors")
    second = show(first.page.url)
    expect(second.get("error-send")).to_be_visible()
    second.tab("compose")
    expect(second.get("text")).to_have_value("another text")
    expect(show(ui, "tab=task&task=some-task").get("task-id")).to_have_value("some-task")


def test_without_its_token_there_is_no_page(browser: Browser, ui: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        response = page.goto(ui.partition("?")[0])
        assert response is not None
        assert response.status == 403
        assert page.get_by_role("tablist").count() == 0


def test_everything_without_a_mouse(view: View) -> None:
    press = view.page.keyboard.press
    press("Tab")
    expect(view.get("tab-compose")).to_be_focused()
    press("ArrowLeft")
    expect(view.get("tab-usage")).to_be_focused()
    expect(view.get("usage-refresh")).to_be_visible()
    press("Home")
    expect(view.get("tab-compose")).to_be_focused()
    # In the order of the page: operation, stream, modes, text.
    for name in ("operation", "stream", "mode-text", "text"):
        press("Tab")
        expect(view.get(name)).to_be_focused()
    press("ControlOrMeta+a")
    view.page.keyboard.type("by keyboard")
    press("Control+Enter")
    expect(view.get("status")).to_have_text("SendMessage: 3 interfaces done, all equal")
    expect(view.answer("GRPC 1.0").get_by_test_id("result")).to_contain_text("by keyboard")
    for _ in range(60):
        press("Tab")
        if view.get("tab-timeline").evaluate("one => one === document.activeElement"):
            break
    press("ArrowRight")
    expect(view.get("tab-frames")).to_be_focused()
    expect(view.get("frame").first).to_be_visible()
    outline = view.get("tab-frames").evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline == "solid"


def test_a_narrow_page_scrolls_in_one_direction(show: Callable[..., View], ui: str) -> None:
    view = show(ui, viewport={"width": 320, "height": 640})
    view.send("tck-stream-chunked", stream=True)
    view.tab("frames")
    _fill(view)
    for tab in TABS:
        view.tab(tab)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= 320, tab
        view.keeps_everything_inside()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_is_accessible(show: Callable[..., View], ui: str, scheme: str) -> None:
    view = show(ui, color_scheme=scheme)
    background = view.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    level = sum(map(int, re.findall(r"\d+", background)))
    assert (level > 600) is (scheme == "light"), background
    view.send("tck-stream-chunked", stream=True)
    if scheme == "dark":
        view.picture("dark")
    for detail in ("frames", "diff", "copy", "timeline"):
        view.tab(detail)
        view.has_no_faults_of_accessibility()
    view.choose("mode-parts")
    _fill(view)
    for tab in TABS:
        view.tab(tab)
        view.has_no_faults_of_accessibility()


def _fill(view: View) -> None:
    """Puts something into each tab."""
    view.get("open-task").first.click()
    view.get("task-list").click()
    expect(view.get("task-row").first).to_be_visible()
    view.tab("card")
    view.get("check").click()
    expect(view.get("check-outcome")).to_contain_text("All is well")
    view.tab("history")
    view.get("history-open").first.click()
    expect(view.get("lane-row").first).to_be_visible()
    view.tab("errors")
    view.get("error-send").click()
    expect(view.get("meaning")).to_contain_text("TaskNotFoundError")
    view.tab("usage")
    expect(view.get("metrics")).to_be_visible()
