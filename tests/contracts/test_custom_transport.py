"""The example of a third-party transport passes the suite it points its readers to."""

import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions, connect, serve_agent
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.bindings.binding import GROUP, DialOptions, HostOptions, ListenAddress, find, names
from a2a_bridge.cards import interface
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.testing.contracts import BindingContract
from examples.custom_transport.a2a_tcp import BINDING, TcpBinding
from tests.agents import EchoAgent
from tests.patience import PATIENCE
from tests.rejections import rejected

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_transport"


class TestTcpBinding(BindingContract):
    binding = BINDING
    paths = False

    def url(self, address: ListenAddress, path: str) -> str:
        return f"tcp://{address}"


def test_the_example_passes_its_own_tests() -> None:
    # All of its tests have run above; these few show that they run there as well.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_contract.py",
            "-k",
            "deadline",
        ],
        cwd=EXAMPLE,
        # Stands for `pip install -e .`, which would need a network.
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(EXAMPLE), *sys.path))},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_example_is_found_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    points = [EntryPoint(name, value, GROUP) for name, value in declared.items()]
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(
        "a2a_bridge.bindings.binding.entry_points", lambda *, group: points if group == GROUP else []
    )
    assert find("TCP+JSON").kind.name == "TCP+JSON"
    assert "TCP+JSON" in names()


async def test_an_agent_is_served_and_called_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("TCP+JSON", "examples.custom_transport.a2a_tcp:BINDING", GROUP)]
    monkeypatch.setattr("a2a_bridge.bindings.binding.entry_points", lambda *, group: points)
    own = interface("TCP+JSON", "tcp://127.0.0.1:0")
    async with serve_agent(EchoAgent(), [interface("JSONRPC"), own]) as server:
        assert [one.protocol_binding for one in server.card.supported_interfaces] == ["JSONRPC", "TCP+JSON"]
        assert server.card.supported_interfaces[1].url.startswith("tcp://127.0.0.1:")
        async with connect(server.card, binding="TCP+JSON") as peer:
            assert (await peer.send("hello")).text == "hello"


async def test_its_callers_are_identified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    points = [EntryPoint("TCP+JSON", "examples.custom_transport.a2a_tcp:BINDING", GROUP)]
    monkeypatch.setattr("a2a_bridge.bindings.binding.entry_points", lambda *, group: points)
    file = KeyFile(tmp_path / "keys.json")
    key = DialOptions(parameters={"x-api-key": file.create("ann").text})
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]))
    async with serve_agent(EchoAgent(), [interface("TCP+JSON", "tcp://127.0.0.1:0")], options) as server:
        async with connect(server.card.supported_interfaces[0], options=key) as peer:
            assert (await peer.send("hello")).text == "hello"
        async with connect(server.card.supported_interfaces[0]) as peer:
            with pytest.raises(A2AError) as caught:
                await peer.send("hello")
    assert caught.value.reason is Reason.UNAUTHENTICATED


async def test_a_transport_that_identifies_nobody_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    class Ignoring(TcpBinding):
        def host(self, address: ListenAddress, options: HostOptions) -> Any:
            return super().host(address, replace(options, authenticate=None))

    class Installed:
        name = "TCP+JSON"

        def load(self) -> Any:
            return Ignoring()

    monkeypatch.setattr("a2a_bridge.bindings.binding.entry_points", lambda *, group: [Installed()])
    file = KeyFile(tmp_path / "keys.json")
    key = DialOptions(parameters={"x-api-key": file.create("ann").text})
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]))
    async with (
        serve_agent(EchoAgent(), [interface("TCP+JSON", "tcp://127.0.0.1:0")], options) as server,
        connect(server.card.supported_interfaces[0], options=key) as peer,
    ):
        for _ in range(2):
            with rejected(Reason.UNAUTHENTICATED):
                await peer.send("hello")
        with rejected(Reason.UNAUTHENTICATED):
            await anext(peer.stream("hello"))
    assert caplog.text.count("TCP+JSON does not identify its callers") == 1
