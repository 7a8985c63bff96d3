"""The table of peer profiles: its rows, how callers and agents are recognised, and profiles of users."""

import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from typer.testing import CliRunner

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli import app
from a2a_bridge.codec import loads
from a2a_bridge.peers import (
    UNKNOWN,
    AgentSigns,
    CallerSigns,
    ErrorData,
    Evidence,
    Files,
    Profile,
    Profiles,
    Quirks,
    find_profile,
)
from a2a_bridge.peers import table as recognition
from a2a_bridge.peers.table import PROFILES
from tests.docs.pages import DOCS

TABLE = Profiles()
OWN = Profile("own", "mine", callers=(CallerSigns("Go-http-client", sends={"x-own": "yes"}),))


@pytest.mark.parametrize(
    ("agent", "declared", "name"),
    [
        ("a2a-bridge", "1.0", "a2a-bridge"),
        ("a2a-bridge grpc-python-asyncio/1.76.0", None, "a2a-bridge"),
        ("Go-http-client/1.1", "1.0", "a2a-go-2"),
        ("Go-http-client/2.0", None, "a2a-go-0.3"),
        ("Go-http-client/2.0", " ", "a2a-go-0.3"),
        ("own/1.0 grpc-go/1.82.1", "0.3", "a2a-go-2-grpc"),
        ("grpc-go/1.83.0-dev", "1.0", "a2a-go-2-grpc"),
        ("grpc-go/1.100.0", "1.0", "a2a-go-2-grpc"),
        ("own/1.0 grpc-go/1.82.0", "0.3", "a2a-go-2.3-grpc"),
        ("grpc-go/1.80.0", "1.0", "a2a-go-2.3-grpc"),
        ("grpc-go/1.73.0", "0.3", "a2a-go-2.3-grpc"),
        ("grpc-go/1.70.0", None, "a2a-go-0.3"),
        ("python-httpx/0.28.1", "1.0", "a2a-python-1"),
        ("grpc-python-asyncio/1.76.0 grpc-c/51.0.0", None, "a2a-python-0.3"),
        ("Java-http-client/21.0.1", "1.0", "a2a-java-1"),
        ("grpc-java-netty/1.70.0", None, "a2a-java-0.3"),
        ("node", "1.0", "a2a-js-1"),
        ("grpc-node-js/1.14.1", None, "a2a-js-0.3"),
        ("tonic/0.14", "1.0", "a2a-rust"),
        (None, "1.0", "a2a-dotnet-preview"),
        ("", "1.0", "a2a-dotnet-preview"),
        (None, None, "unknown"),
        ("curl/8.5", "1.0", "unknown"),
    ],
)
def test_callers_are_recognised(agent: str | None, declared: str | None, name: str) -> None:
    parameters = {"accept": "*/*"}
    if agent is not None:
        parameters["user-agent"] = agent
    if declared is not None:
        parameters["a2a-version"] = declared
    for _ in range(2):  # the second time from memory
        assert TABLE.caller(parameters).name == name


def test_every_profile_is_recognised_or_can_be_named() -> None:
    # These call or answer as others do, and are named by `check` or by the operator.
    assert [one.name for one in PROFILES if not (one.callers or one.agents)] == [
        "google-adk-2",
        "a2a-java-1-alpha",
    ]
    assert [find_profile(one.name) for one in PROFILES] == list(PROFILES)
    assert find_profile("") is UNKNOWN
    with pytest.raises(LookupError, match=r"'nobody'; known: .*a2a-bridge, a2a-go-2"):
        find_profile("nobody")
    with pytest.raises(LookupError, match="nobody"):
        _ = DialOptions(peer="nobody").files


def test_agents_are_recognised_by_the_answer_that_holds_their_card() -> None:
    assert TABLE.agent({"x-powered-by": "Express"}, frozenset()).name == "a2a-js-0.3"
    assert TABLE.agent({"server": "uvicorn"}, frozenset({"url"})) is UNKNOWN
    fasta2a = ["name", "description", "version", "supportedInterfaces", "skills"]
    fasta2a += ["defaultInputModes", "defaultOutputModes", "capabilities"]
    assert TABLE.agent({}, [*fasta2a, "provider"]).name == "fasta2a-2"
    assert TABLE.agent({}, sorted(fasta2a)) is UNKNOWN
    assert TABLE.agent({}, fasta2a[:-1]) is UNKNOWN
    signs = AgentSigns(members=frozenset({"acme"}), lacks=frozenset({"supportedInterfaces"}))
    table = Profiles((Profile("own", "mine", agents=(signs,)),))
    assert table.agent({}, frozenset({"acme", "url"})).name == "own"
    assert table.agent({}, frozenset({"acme", "supportedInterfaces"})) is UNKNOWN


def test_names_chosen_by_callers_are_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "_REMEMBERED", 8)
    table = Profiles()
    for number in range(100):
        assert table.caller({"user-agent": f"node/{number}"}).name == "a2a-js-0.3"
    assert len(table._found) <= 8


def test_quirks_and_evidence_belong_together() -> None:
    with pytest.raises(ValueError, match="own: quirks and evidence differ in file_bytes"):
        Profile("own", "mine", quirks=Quirks(file_bytes=Files.RAW))
    with pytest.raises(ValueError, match="error_data"):
        Profile("own", "mine", evidence={"error_data": Evidence("x")})
    with pytest.raises(ValueError, match="without spaces"):
        Profile("my own", "mine")
    quirks = Quirks(error_data=ErrorData.OBJECT)
    profile = Profile("own", "mine", quirks=quirks, evidence={"error_data": Evidence("x")})
    assert profile.deviations == {"error_data": ErrorData.OBJECT}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Leaves the table of the process as it was."""
    monkeypatch.setattr(recognition, "_added", ())
    monkeypatch.setattr(recognition, "_table", None)
    return monkeypatch


def test_a_profile_of_a_user_comes_first_and_can_be_replaced(alone: pytest.MonkeyPatch) -> None:
    call = {"user-agent": "Go-http-client/1.1", "x-own": "yes, it is", "a2a-version": "1.0"}
    assert recognition.caller(call).name == "a2a-go-2"
    recognition.add_profile(OWN)
    assert recognition.caller(call) is OWN
    assert recognition.caller({**call, "x-own": "no"}).name == "a2a-go-2"
    again = Profile("own", "another", callers=OWN.callers)
    recognition.add_profile(again)
    assert recognition.caller(call) is again
    with pytest.raises(ValueError, match="two peer profiles are named 'a2a-go-2'"):
        recognition.add_profile(Profile("a2a-go-2", "mine"))
    assert recognition.caller(call) is again


def several() -> tuple[Profile, ...]:
    return (Profile("second", "from a function"),)


def test_profiles_come_from_entry_points(alone: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("own", f"{__name__}:OWN", recognition.GROUP),
        EntryPoint("more", f"{__name__}:several", recognition.GROUP),
    ]
    alone.setattr(EntryPoint, "load", lambda point: globals()[point.value.rpartition(":")[2]])
    alone.setattr(recognition, "entry_points", lambda *, group: points if group == "a2a_bridge.peers" else [])
    assert [one.name for one in recognition.profiles().all[:2]] == ["own", "second"]
    assert recognition.find_profile("second").about == "from a function"


def listed(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["peers", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("alone")
def test_the_command_lists_profiles_with_the_evidence_for_each_quirk() -> None:
    tree = loads(listed("--json"))
    assert isinstance(tree, dict)
    assert [one["name"] for one in tree["peers"]] == [one.name for one in PROFILES]
    for one in tree["peers"]:
        assert all(quirk["source"] for quirk in one["quirks"])
    [go] = loads(listed("a2a-go-0.3", "-o", "json"))["peers"]  # type: ignore[call-overload,index]
    assert {"name": "error_data", "value": "object"}.items() <= go["quirks"][1].items()
    text = listed("a2a-go-0.3")
    assert text.startswith("a2a-go-0.3: a2a-go 0.3\n  file_bytes = base64 (v0.3.15, a2apb/")
    assert "\n  grpc address: host:port, first entry (v0.3.15, a2aclient/" in text
    assert {"form": "bare", "entry": "first"}.items() <= go["grpcAddress"].items()
    rejected = CliRunner().invoke(app, ["peers", "nobody"])
    assert rejected.exit_code == 2
    assert "no peer profile 'nobody'" in " ".join(rejected.output.replace("│", " ").split())


def test_the_page_says_which_grpc_address_each_profile_dials() -> None:
    rows = re.findall(
        r"^\| (`a2a-[^|]+) \| ([^|]+) \| the (first|last) \|$",
        (DOCS / "reference/peers.md").read_text(),
        re.MULTILINE,
    )
    forms = {"`host:port`": "bare", "`host:port` or URL": "any"}
    told = {
        name.strip("` "): (forms[form], entry) for names, form, entry in rows for name in names.split(",")
    }
    assert told == {one.name: (one.grpc.form, one.grpc.entry) for one in PROFILES if one.grpc is not None}


def test_a_name_that_is_no_profile_is_rejected_before_anything_is_dialled() -> None:
    for command in (("gateway", "http://127.0.0.1:1"), ("send", "-a", "http://127.0.0.1:1", "hello")):
        result = CliRunner().invoke(app, [*command, "--peer", "nobody"])
        assert result.exit_code == 2
        assert "no peer profile 'nobody'" in " ".join(result.output.replace("│", " ").split())
