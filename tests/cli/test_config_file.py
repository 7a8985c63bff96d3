"""Configuration files: lines of keys, and what is wrong with a file."""

import json
from codecs import BOM_UTF8
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from a2a_bridge.cli.config_file import ConfigError, ConfigFile, suggestion
from a2a_bridge.cli.connect import card_file
from a2a_bridge.cli.server_flags import OPERATIONS, GatewayFlags, ServeFlags
from a2a_bridge.cli.settings import effective
from a2a_bridge.core import operations as ops
from a2a_bridge.testing.each import each

TEXT = '''# a comment
http = ":0"
"max-calls" = 5
card = """
max_streams = 1
"""
max_streams = 2

[agents.weather]
upstream = ":1"
  grpc-tls = true
[agents."traffic"] # with a comment
upstream = ":2"
[[rules]]
operations = ["read"]
[[rules]]
scopes = [
  "a",
]
'''


def written(folder: Path, text: str) -> Path:
    path = folder / "bridge.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("http",), 2),
        (("max_calls",), 3),
        (("max_streams",), 7),
        (("agents",), 9),
        (("agents", "weather"), 9),
        (("agents", "weather", "grpc_tls"), 11),
        (("agents", "weather", "no_such_key"), 9),
        (("agents", "traffic", "upstream"), 13),
        (("rules", 0, "operations"), 15),
        (("rules", 1, "scopes", 0), 17),
        (("other",), 0),
    ],
)
def test_the_line_of_a_key(place: tuple[str | int, ...], line: int, tmp_path: Path) -> None:
    assert ConfigFile.read(written(tmp_path, TEXT)).line_of(place) == line


def problems(group: type, text: str, folder: Path) -> list[str]:
    """What is wrong with a file, each with its line."""
    with pytest.raises(ConfigError) as caught:
        effective(group, ConfigFile.read(written(folder, text)), {})
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{folder}/bridge.toml:") for line in lines)
    return [line.removeprefix(f"{folder}/bridge.toml:") for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('stroe = ":1"', "1: unknown key stroe; did you mean store?"),
        ("zzzzzz = 1", "1: unknown key zzzzzz"),
        ("\nmax_calls = '5'", "2: max_calls has to be a valid integer"),
        ("max_calls = true", "1: max_calls has to be a valid integer"),
        ("max-calls = -1", "1: max_calls has to be greater than or equal to 0"),
        ("linger = 1e300", "1: linger has to be less than or equal to 1000000000"),
        ("linger = nan", "1: linger has to be less than or equal to 1000000000"),
        ("linger = '1y'", "1: linger '1y' is no time such as 5s, 500ms or 2m"),
        ("linger = '300000h'", "1: linger has to be less than or equal to 1000000000"),
        ("no_http = 1", "1: no_http has to be a valid boolean"),
        ('grpc_tls = "yes"', "1: grpc_tls has to be a valid boolean"),
        ('log_level = "loud"', "1: log_level has to be 'error', 'warning', 'info' or 'debug'"),
        ("http = 8080", '1: http has to be a text: "…"'),
        ('header = "X: a"', "1: header has to be a valid list"),
        ("max_calls = 1\nmax-calls = 2", "1: max_calls stands there twice, with _ and with -"),
        ("config = 'x'", "1: unknown key config; did you mean log_config?"),
        ("print_envoy_config = true", "1: unknown key print_envoy_config"),
        ("[agents.a]\npeer = 'x'", "1: upstream of [agents.a] is missing"),
        ("[agents.a]\nupstream = ':1'\nperr = 'x'", "3: unknown key perr of [agents.a]; did you mean peer?"),
        (
            "[agents.a]\nupstream = ':1'\nmax_calls = 'x'",
            "3: max_calls of [agents.a] has to be a valid integer",
        ),
        (
            "[agents.A_b]\nupstream = ':1'",
            "1: A_b of [agents]: a name has 1 to 63 of a-z, 0-9 and -, and does not begin with -",
        ),
        (
            "[[rules]]\noperations = ['read']\n[[rules]]\nscopes = 'x'",
            "4: scopes of [rules.1] has to be a valid tuple",
        ),
        (
            "a = 1\n[[rules]]",
            '2: rules: entry 1 says nothing, and would allow everything; principals = ["*"] says that',
        ),
        (
            "[[rules]]\noperations = []",
            '1: rules: entry 1 says nothing, and would allow everything; principals = ["*"] says that',
        ),
        (
            "max_calls = 1\n[[rules]]\noperations = ['read', 'SendMesage']",
            f"3: [[rules]] 1: operations: 'SendMesage' is none of {', '.join(sorted(OPERATIONS))}",
        ),
        (
            "[[rules]]\nagents = ['blue']\n[agents.red]\nupstream = ':1'",
            "2: [[rules]] 1: agents: none of the agents here: red",
        ),
        ("MAX_CALLS = 5", "1: unknown key MAX_CALLS; did you mean max_calls?"),
        ("Store_Key = 'hunter2'", "1: unknown key Store_Key; did you mean store_key?"),
        ("a = 1\na = 2", "2: is not TOML: Cannot overwrite a value"),
        ("a = ", "1: is not TOML: Invalid value"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, expected: str, tmp_path: Path) -> None:
    assert expected in problems(GatewayFlags, text, tmp_path)


def test_the_mark_of_a_byte_order_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_bytes(BOM_UTF8 + b"max_calls = 5")
    assert effective(GatewayFlags, ConfigFile.read(path), {}).values["max_calls"] == 5
    path = tmp_path / "card.json"
    url = {"url": "http://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    path.write_bytes(BOM_UTF8 + json.dumps({"name": "a", "supportedInterfaces": [url]}).encode())
    assert card_file(path).name == "a"


def test_rules_of_files_know_the_operations() -> None:
    assert {one.name for one in ops.ALL} | ops.GROUPS.keys() == OPERATIONS


def test_every_problem_is_told_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "max_calls = 'x'\nstroe = ':1'\n[agents.a]\nagent = 5\nbridge_key = 'x'\n"
    assert [line.partition(":")[0] for line in problems(ServeFlags, text, tmp_path)] == ["1", "2", "4", "5"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('store_key = "hunter2"', 1),
        ('bridge-key = "hunter2"', 1),
        ('store = "postgresql://bridge:hunter2@db/bridge"', 1),
        ('store = "postgresql://db/bridge?password=hunter2"', 1),
        ('header = ["Authorization: Bearer hunter2"]', 1),
        ('header = ["hunter2"]', 1),
        ('[agents.a]\nupstream = ":1"\nheader = ["X-Api-Key: hunter2"]', 3),
    ],
)
def test_a_secret_in_a_file_is_an_error_that_does_not_repeat_it(
    text: str, where: int, tmp_path: Path
) -> None:
    (problem,) = problems(GatewayFlags, text, tmp_path)
    assert problem.startswith(f"{where}: ")
    assert "is a secret: write" in problem
    assert "@FILE" in problem
    assert "hunter2" not in problem


def test_a_wrong_value_is_not_repeated(tmp_path: Path) -> None:
    for text in ("store_key = ['hunter2']", "[agents.a]\nupstream = ['hunter2']", "max_calls = 'hunter2'"):
        assert "hunter2" not in "".join(problems(GatewayFlags, text, tmp_path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        ConfigFile.read(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 \(byte 2\)"):
        ConfigFile.read(tmp_path / "latin.toml")
    path = written(tmp_path, f'store = "@{tmp_path}/none"')
    with pytest.raises(ConfigError, match=r"1: store: .*none cannot be read"):
        effective(GatewayFlags, ConfigFile.read(path), {})


@each(
    "text, reason",
    [
        ("max_calls = " + "9" * 5000, "has a number or a date that is out of range"),
        ("exec = " + "[" * 5000, "has too many brackets inside of each other"),
    ],
)
def test_toml_that_python_cannot_read(text: str, reason: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bridge.toml"
        path.write_text(text)
        with pytest.raises(ConfigError, match=reason):
            ConfigFile.read(path)


def test_suggestions() -> None:
    assert suggestion("stroe", ["store", "http"]) == "; did you mean store?"
    assert suggestion("zzz", ["store", "http"]) == ""
