"""`--help` is short, `--help-all` is complete, and unknown variables are errors."""

import json
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from a2a_bridge.cli import app

RUNNER = CliRunner()
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def shown(*arguments: str) -> str:
    done = RUNNER.invoke(app, [*arguments], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("name", ["serve", "gateway"])
def test_the_help_of_a_server_fits_on_a_screen(name: str) -> None:
    text = shown(name, "--help")
    assert len(text.splitlines()) <= 60
    assert "A2A_BRIDGE_" not in text
    for flag in ("--http", "--grpc", "--public-url", "--store", "--config", "--log-level", "--help-all"):
        assert f"  {flag} " in text
    assert "--drain-window" not in text
    assert [line for line in text.splitlines() if line in ("Listen:", "Card:", "Store:", "Limits:")]


@pytest.mark.parametrize("name", ["serve", "gateway", "send", "compare", "usage"])
def test_all_help_has_every_flag_and_variable(name: str) -> None:
    text = " ".join(shown(name, "--help-all").split())
    for option in COMMANDS[name].params:
        if option.param_type_name == "option":
            assert any(f"{name} " in text for name in option.opts)
            assert option.envvar is None or option.envvar in text
            for word in option.help.split():
                assert word in text


def test_an_error_of_peers_is_json_with_either_flag() -> None:
    for words in (("--json",), ("-o", "json")):
        done = RUNNER.invoke(app, ["peers", "nobody", *words])
        assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")


@pytest.mark.parametrize("name", ["usage", "peers"])
def test_other_commands_show_all_flags_without_variables(name: str) -> None:
    text = shown(name, "--help")
    assert "A2A_BRIDGE_" not in text
    for option in COMMANDS[name].params:
        if option.param_type_name == "option":
            assert max(option.opts, key=len) in text


def test_an_unknown_variable_is_an_error() -> None:
    done = RUNNER.invoke(app, ["peers"], env={"A2A_BRIDGE_STROE": "memory://"})
    assert done.exit_code == 2
    assert "A2A_BRIDGE_STROE: no command has this variable; did you mean A2A_BRIDGE_STORE?" in done.stderr
    assert done.stdout == ""
    for unknown in ("A2A_BRIDGE_HTTP_FILE", "A2A_BRIDGE_", "A2A_BRIDGE_PORTS", "A2A_BRIDGE_HEADERS"):
        assert RUNNER.invoke(app, ["peers"], env={unknown: "x"}).exit_code == 2


def test_an_unknown_variable_is_an_error_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["a2a-bridge", "peers", "-o", "json"])
    done = RUNNER.invoke(app, ["peers", "-o", "json"], env={"A2A_BRIDGE_STROE": "memory://"})
    assert done.exit_code == 2
    assert "did you mean A2A_BRIDGE_STORE?" in json.loads(done.stdout)["error"]["message"]


def test_variables_of_other_commands_and_of_services_are_none() -> None:
    variables = {
        "A2A_BRIDGE_HTTP": ":0",
        "A2A_BRIDGE_STORE": "memory://",
        "A2A_BRIDGE_CACERT": "ca.pem",
        "A2A_BRIDGE_HEADER_X_TEAM": "blue",
        "A2A_BRIDGE_SERVICE_HOST": "10.0.0.1",
        "A2A_BRIDGE_SERVICE_PORT": "8080",
        "A2A_BRIDGE_SERVICE_PORT_HTTP": "8080",
        "A2A_BRIDGE_PORT": "tcp://10.0.0.1:8080",
        "A2A_BRIDGE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "A2A_BRIDGE_PORT_8080_TCP_ADDR": "10.0.0.1",
        "A2A_BRIDGE_ADMIN_PORT_9090_TCP_PROTO": "tcp",
    }
    assert RUNNER.invoke(app, ["peers"], env=variables).exit_code == 0
