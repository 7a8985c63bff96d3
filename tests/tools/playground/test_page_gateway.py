"""The page of the playground before a gateway to agents of the official SDK, and before an agent elsewhere."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.commands import ANY_PORT
from tests.peers.processes import JSONRPC, Agent
from tests.tools.playground.browser import View, browser, program, show, started

__all__ = ["browser", "show"]

EXAMPLES = Path(__file__).parents[3] / "examples"
CURRENT = ("JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0")


@pytest.fixture(scope="module")
def gateway(
    browser: Browser, peer_agents: Callable[..., Agent], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A gateway to an agent of the SDK 0.3.26, and to one of the SDK 1.3.0."""
    with ExitStack() as stack:
        newer = stack.enter_context(started(sys.executable, str(EXAMPLES / "sdk_agent.py"), "0"))
        upstreams = {"old": peer_agents("0.3.26", JSONRPC).http, "new": newer["http"]}
        config = tmp_path_factory.mktemp("gateway") / "bridge.toml"
        config.write_text(
            "".join(f'[agents.{name}]\nupstream = "{url}"\n' for name, url in upstreams.items())
        )
        yield stack.enter_context(program("gateway", "--config", str(config), *ANY_PORT, "--ui"))


@pytest.fixture
def view(show: Callable[..., View], gateway: dict[str, str]) -> View:
    view = show(gateway["ui"], f"agent=old&cells={quote('JSONRPC 1.0,HTTP+JSON 1.0,GRPC 1.0')}")
    expect(view.get("agent")).to_have_value("old")
    return view


def test_what_the_gateway_says_to_its_agent(view: View) -> None:
    view.send("script:work;chunk one;last two;done", stream=True)
    expect(view.get("status")).to_have_text("SendStreamingMessage: 3 interfaces done, all equal")
    expect(view.get("lane-row")).to_have_count(4)
    upstream = view.answer("JSONRPC 1.0", "upstream")
    expect(view.line("JSONRPC 1.0", "upstream").get_by_test_id("state")).to_have_text("completed")
    expect(upstream.get_by_test_id("result")).to_contain_text("onetwo")
    view.picture("gateway")
    view.get("every-upstream").check()
    expect(view.get("lane-row")).to_have_count(6)
    view.keeps_everything_inside()
    for cell in CURRENT:
        expect(view.line(cell, "upstream")).to_be_visible()
    tracks = [one.get_attribute("aria-label") or "" for one in view.get("track").all()]
    assert [one.partition(":")[0] for one in tracks] == [
        name for cell in CURRENT for name in (cell, f"{cell}, upstream")
    ]
    view.tab("frames")
    view.get("frames-lane").select_option("GRPC 1.0|upstream")
    expect(view.get("frame").first).to_contain_text('"method":"message/stream"')
    expect(view.get("frame").nth(1)).to_contain_text('"kind":"status-update"')
    view.get("frames-lane").select_option("GRPC 1.0|client")
    expect(view.get("frame").first).to_contain_text("/lf.a2a.v1.A2AService/SendStreamingMessage")
    view.send("script:work;last one;done")
    expect(view.line("JSONRPC 1.0", "upstream").get_by_test_id("mark")).to_have_text("= same")


def test_the_cards_beside_each_other(view: View) -> None:
    view.tab("card")
    expect(view.get("card")).to_contain_text("JSONRPC 0.3")
    changed = view.get("card-difference")
    expect(changed.filter(has_text="supportedInterfaces[0].protocolVersion")).to_contain_text(["1.0"])
    assert changed.count() > 3


def test_an_error_of_the_agent_on_both_hops(view: View) -> None:
    view.tab("errors")
    view.get("error-send").click()
    expect(view.get("meaning")).to_have_text("All 3 mean TaskNotFoundError")
    expect(view.get("error-column")).to_have_count(6)
    expect(view.get("error-code")).to_have_text(["TaskNotFoundError"] * 6)


def test_a_difference_names_the_rule_that_explains_it(view: View) -> None:
    view.get("agent").select_option("new")
    expect(view.get("cell").first).to_be_checked()
    view.send("ask me")
    expect(view.get("state").first).to_have_text("input-required")
    view.get("open-task").first.click()
    view.tab("compose")
    view.get("operation").select_option("CreateTaskPushNotificationConfig")
    request = json.loads(view.get("json").input_value())
    assert request["taskId"] == view.page.url.rpartition("task=")[2].partition("&")[0]
    named = {"id": "probe", "url": "http://127.0.0.1:9/", "tenant": "north"}
    view.get("json").fill(json.dumps(request | named))
    view.cells("JSONRPC 1.0", "HTTP+JSON 1.0", "HTTP+JSON 0.3")
    view.get("send").click()
    for cell, mark in {"HTTP+JSON 1.0": "= same", "HTTP+JSON 0.3": "≈ explained"}.items():
        expect(view.line(cell).get_by_test_id("mark")).to_have_text(mark)
    view.tab("diff")
    lost = view.get("diff-row").filter(
        has=view.page.get_by_role("rowheader", name="HTTP+JSON 0.3", exact=True)
    )
    assert lost.get_attribute("data-result") == "explained"
    expect(lost).to_contain_text("[0].tenant")
    expect(lost).to_contain_text("'north'")
    expect(lost).to_contain_text("0.3: ")
    # The agent behind the gateway is of 1.0; what it got came through 0.3.
    assert view.page.locator('[data-result="lost"]:visible').count() == 0
    view.picture("differences")


def test_another_agent_is_another_link(view: View) -> None:
    expect(view.get("agent-name")).to_have_count(0)
    view.get("agent").select_option("new")
    view.tab("card")
    expect(view.get("card")).to_contain_text("Parrot")
    assert "agent=new" in view.page.url
    view.page.reload()
    expect(view.get("card")).to_contain_text("Parrot")


def test_an_agent_elsewhere_that_goes_away(show: Callable[..., View]) -> None:
    with ExitStack() as stack:
        agent = ExitStack()
        stack.enter_context(agent)
        weather = agent.enter_context(program("serve", str(EXAMPLES / "weather.py"), *ANY_PORT))
        view = show(stack.enter_context(program("ui", weather["http"]))["ui"])
        expect(view.get("agent-name")).to_have_text("weather")
        view.send("Oslo", stream=True)
        expect(view.get("status")).to_have_text("SendStreamingMessage: 9 interfaces done, all equal")
        expect(view.answer("GRPC 1.0").get_by_test_id("result")).to_contain_text("Oslo: 21 °C")
        agent.close()
        view.get("send").click()
        expect(view.get("problem")).to_be_visible()
        view.page.reload()
        expect(view.get("agent-problem")).to_be_visible()
        expect(view.get("send")).to_be_disabled()
        view.get("read-again").click()
        expect(view.get("agent-problem")).to_be_visible()
        assert all("502" in fault for fault in view.faults), view.faults
        view.faults.clear()
