"""The targets of commands: addresses, card files and agents in Python code.

No connection is made here. The forms:

    https://agent.example            an agent by its base URL or card URL (a query is kept)
    :8080, :8080/agents/a            the same on this machine, over http
    localhost:50051                  host:port is gRPC, as are grpc:// and grpcs://
    card.json                        a card in a file
    weather.py, weather.py:agent     an agent in a file; without a name, the only one there
    ., folder                        the file agent.py, app.py or main.py of a folder, or its only one
    package.module:agent             an agent in a module

`load` finds an agent in Python code. This runs the code: only an import shows its definitions.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from a2a_bridge.hosting import Agent

_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):\d{1,5}")
_LOCAL = re.compile(r":\d{1,5}(?:[/?].*)?")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?")
_OBJECT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class TargetKind(Enum):
    """The kinds of targets."""

    URL = "an agent's URL"
    GRPC = "a gRPC address"
    CARD = "a card file"
    FILE = "a Python file"
    MODULE = "a Python module"


class BadTargetError(ValueError):
    """An invalid target. The text names the valid forms."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target. place: URL, gRPC address, path or module. name: dotted object in it; empty: the only one."""

    sort: TargetKind
    place: str
    name: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is an agent in Python code, and not a remote one."""
        return self.sort in (TargetKind.FILE, TargetKind.MODULE)


def parse(text: str) -> Target:
    """Reads a target. Raises BadTargetError."""
    text = text.strip()
    if "://" in text:
        return _with_scheme(text.partition("://")[0].lower(), text)
    if _LOCAL.fullmatch(text):
        _check_port(text[1:])
        return Target(TargetKind.URL, f"http://127.0.0.1{text}")
    head, colon, tail = text.rpartition(":")
    place, name = (head, tail) if colon and _OBJECT.fullmatch(tail) else (text, "")
    if place.endswith(".py") or (text and not name and is_folder(text)):
        return Target(TargetKind.FILE, place, name)
    if text.endswith(".json") or is_file(text):
        return Target(TargetKind.CARD, text)
    if _HOST_PORT.fullmatch(text):
        _check_port(text.rpartition(":")[2])
        return Target(TargetKind.GRPC, text)
    if ":" in text and _MODULE.fullmatch(text):
        return Target(TargetKind.MODULE, place, name)
    raise BadTargetError(_advice(text))


def is_file(text: str) -> bool:
    """Whether there is a file of this path. A text that is too long for a path is none."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


def is_folder(text: str) -> bool:
    """Whether there is a folder of this path."""
    try:
        return Path(text).is_dir()
    except OSError:
        return False


def _with_scheme(scheme: str, text: str) -> Target:
    if scheme not in ("http", "https", "grpc", "grpcs"):
        raise BadTargetError(f"{scheme}:// is not spoken here; use http, https, grpc or grpcs")
    from a2a_bridge.bindings.places import read_place  # a supervisor of workers does without

    try:
        read_place(text)
        has_port = urlsplit(text).port is not None
    except ValueError as error:
        raise BadTargetError(str(error)) from None
    if scheme in ("http", "https"):
        return Target(TargetKind.URL, text)
    if not has_port:
        raise BadTargetError(f"{text} names no port; gRPC has no usual one")
    return Target(TargetKind.GRPC, text)


def _check_port(text: str) -> None:
    digits = re.match(r"\d+", text)
    if digits is not None and int(digits[0]) > 65535:
        raise BadTargetError(f"{digits[0]} is not a port")


def _advice(text: str) -> str:
    if not text:
        return "an empty target"
    host = re.fullmatch(r"[A-Za-z0-9_.-]+(/\S*)?", text)
    if host and ("." in text or text.startswith("localhost")):
        return (
            f"{text!r} is ambiguous: write https://{text} for a URL, {text.partition('/')[0]}:PORT for gRPC"
        )
    if is_file(f"{text}.py"):
        return f"there is no {text!r}; did you mean {text}.py?"
    return (
        f"{text!r} is no target: give a URL, :PORT, host:port (gRPC), a card file, file.py, file.py:object "
        "or module:object"
    )


#: names of the file with the agent of a folder, the first one counts
_USUAL = ("agent.py", "app.py", "main.py")


def load(target: Target, **options: Any) -> Agent:
    """The agent a target names, or the only one in its module; or one of an object of another framework, if
    no Agent is there. options: of `Agent.of`. Raises BadTargetError, which lists the agents of the module.
    """
    module = _module_of(target)
    found: dict[str, Any] = agents_of(module) or objects_of(module)
    if target.name:
        return _agent_of(_find(module, target, found), target, found, options)
    if not found:
        raise BadTargetError(f"there is no agent in {target.place}{_elsewhere(module)}")
    if len(found) > 1:
        choices = ", ".join(f"{target.place}:{name}" for name in found)
        raise BadTargetError(f"there are several agents in {target.place}; choose one: {choices}")
    name, thing = next(iter(found.items()))
    return _agent_of(thing, replace(target, name=name), found, options)


def _agent_of(thing: Any, target: Target, found: dict[str, Any], options: Mapping[str, Any]) -> Agent:
    """The agent of an object in code. Raises BadTargetError."""
    from a2a_bridge.hosting import Agent, factories
    from a2a_bridge.hosting.adapters import MissingAdapterError, NoAgentError, kind_of, remedy_of_value

    place = f"{target.place}:{target.name}"
    try:
        agent = Agent.of(thing, **options)
    except NoAgentError as error:
        if error.known:
            raise BadTargetError(f"{place}: {error}") from None
        if callable(thing):
            advice = "; decorate it with @agent"
            if needed := factories.lacks(thing):
                advice += f", or, if it makes an agent, leave out its arguments ({', '.join(needed)})"
        else:
            remedy = (
                remedy_of_value(thing) if thing is not None else "a function that makes it may lack `return`"
            )
            advice = f": {remedy}" if remedy else _offer(found)
        raise BadTargetError(f"{place} is {kind_of(thing)}, not an agent{advice}") from None
    except (MissingAdapterError, TypeError) as error:
        raise BadTargetError(f"{place}: {error}") from None
    except Exception as error:
        traceback.print_exc()
        text = f"{place} cannot be served, see the error above: {type(error).__name__}: {error}"
        raise BadTargetError(text) from error
    if not agent.is_open:
        agent.origin = place
    return agent


def load_named(target: Target) -> Any:
    """The object that a target names in code. Raises BadTargetError."""
    if not target.is_code or not target.name:
        raise BadTargetError(f"{target.place!r} is not file.py:NAME or package.module:NAME")
    return _find(_module_of(target), target, None)


def objects_of(module: ModuleType) -> dict[str, Any]:
    """The objects in a module that an adapter recognises and executors of the a2a-sdk, by name; or else the
    classes of such executors that the module defines; or else the first object of a known framework.
    """
    from a2a_bridge.hosting import sdk
    from a2a_bridge.hosting.adapters import adapter_of, framework_of

    named = [(name, value) for name, value in vars(module).items() if not name.startswith("_")]
    own = [(name, value) for name, value in named if not isinstance(value, (type, ModuleType))]
    found = [one for one in own if sdk.is_executor(one[1]) or adapter_of(one[1]) is not None]
    found = found or [
        (name, value)
        for name, value in named
        if isinstance(value, type) and value.__module__ == module.__name__ and sdk.is_executor(value)
    ]
    found = found or [one for one in own if framework_of(one[1]) is not None][:1]
    names = {id(value): name for name, value in reversed(found)}
    return {name: value for name, value in found if names[id(value)] == name}


def agents_of(module: ModuleType) -> dict[str, Agent]:
    """The agents a module defines or imports, by name; an agent with several names counts once."""
    from a2a_bridge.hosting import Agent

    found: dict[str, Agent] = {}
    for name, value in vars(module).items():
        if isinstance(value, Agent) and not any(value is known for known in found.values()):
            found[name] = value
    return found


def _module_of(target: Target) -> ModuleType:
    return _from_file(Path(target.place)) if target.sort is TargetKind.FILE else _from_name(target.place)


def _find(module: ModuleType, target: Target, found: dict[str, Any] | None) -> Any:
    """The object of a name. found: the agents there, if one is wanted. Raises BadTargetError."""
    thing: Any = module
    for part in target.name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            # Of any kind: what `NAME` was meant to be is not known.
            alike = get_close_matches(part, [name for name in dir(thing) if not name.startswith("_")], n=1)
            offer = _offer(found) if found or (found is not None and not alike) else ""
            meant = f"; did you mean {alike[0]}?" if alike else ""
            raise BadTargetError(f"{target.place} has no {target.name}{offer}{meant}") from None
    return thing


#: what starts a server in Python code
_STARTS = re.compile(r"\buvicorn\.(run|Server)\b|\b(web\.run_app|serve_forever|wait_for_termination)\(")


def _elsewhere(module: ModuleType) -> str:
    """Where the agent is that a module lacks, as far as the module shows it."""
    from a2a_bridge.hosting import sdk
    from a2a_bridge.hosting.factories import is_factory

    file = Path(module.__file__ or "")
    starts = is_file(str(file)) and _STARTS.search(file.read_text("utf-8", "replace")) is not None
    text = ", which starts a server of its own" if starts else ""
    for name, value in vars(module).items():
        source = getattr(sys.modules.get(getattr(value, "__module__", "")), "__file__", None)
        if isinstance(value, type) and sdk.is_executor(value) and source is not None:
            return f"{text}; the executor {name} is in {_from_here(source)}: name that file"
    if starts:
        return f"{text}: start it with `python {_from_here(file)}`, and `a2a-bridge gateway URL` before it"
    made = [
        f"{_from_here(file)}:{name}"
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and name not in _STARTING and is_factory(value)
    ]
    named = f", or name a function that makes an agent, such as {made[-1]}" if made else ""
    return f"; decorate a function with @a2a_bridge.agent{named}"


#: functions that start a program
_STARTING = ("main", "cli", "run")


def _from_here(path: str | Path) -> Path:
    """A path from the working directory, if it is below that."""
    found = Path(path).resolve()
    return found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found


def _offer(found: dict[str, Any]) -> str:
    if not found:
        return "; there is no agent: decorate a function with @a2a_bridge.agent"
    return f"; agents there: {', '.join(found)}"


def _file_in(folder: Path) -> Path:
    """The Python file with the agent of a folder. Raises BadTargetError."""
    for name in _USUAL:
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.py"))
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in found[:10])
    what = f"has several Python files ({names})" if found else "has no Python file"
    raise BadTargetError(f"the folder {folder} {what}; name the file with the agent: FILE.py")


def _from_file(path: Path) -> ModuleType:
    if path.is_dir():
        path = _file_in(path)
    if not path.is_file():
        raise BadTargetError(f"there is no file {path}; name one that has an agent, from {Path.cwd()}")
    folder, name = path.resolve().parent, path.stem
    if name == "__main__":
        # Under this name it would start its own server. In a package it may import its neighbours as such.
        if (folder / "__init__.py").is_file():
            return _from_name(f"{folder.name}.{name}", folder.parent)
        name = "_main_"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadTargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # As `python file.py` would: the file's folder first, and the module findable by its name.
    sys.path.insert(0, str(folder))
    sys.modules[name] = module
    return _run(lambda: spec.loader.exec_module(module), module, str(path))


def _from_name(name: str, folder: Path | None = None) -> ModuleType:
    """The module of a name. folder: of its package; None for the working directory. Raises BadTargetError."""
    sys.path.insert(0, str(folder or Path.cwd()))
    try:
        known = importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # also `__main__`, which is this command
        known = False
    if not known:
        text = f"there is no module {name}; name a file (FILE.py), or run this in the folder of the package"
        raise BadTargetError(text)
    return _run(lambda: importlib.import_module(name), None, name)


def _run(load: Any, module: ModuleType | None, place: str) -> ModuleType:
    from a2a_bridge.app.process import being_read
    from a2a_bridge.hosting.adapters import absent_framework, install

    reading = being_read.set(place)
    try:
        loaded = load()
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (framework := absent_framework(error.name or "")):
            text = f"{place} needs {framework.title}, which is not installed"
            raise BadTargetError(f"{text}: {install(framework)}") from error
        traceback.print_exc()
        text = f"{place} cannot be imported, at the line shown above: {type(error).__name__}: {error}"
        raise BadTargetError(text) from error
    except SystemExit as error:
        traceback.print_exc()
        code = 0 if error.code is None else error.code
        text = f"{place} cannot be imported, at the line shown above: it ends the process with {code!r}"
        raise BadTargetError(f'{text}; call sys.exit below `if __name__ == "__main__":`') from error
    finally:
        being_read.reset(reading)
    return loaded if module is None else module
