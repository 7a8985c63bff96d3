"""Finds an agent in the user's Python code. This runs the code: only an import shows its definitions."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from a2a_bridge.cli.target import BadTargetError, Target, TargetKind
from a2a_bridge.hosting import Agent

#: names of the file with the agent of a folder, the first one counts
_USUAL = ("agent.py", "app.py", "main.py")


def load(target: Target) -> Agent:
    """The agent a target names, or the only one in its module. Raises BadTargetError, which lists the
    agents of the module.
    """
    module = _module_of(target)
    found = agents_of(module)
    if target.name:
        thing = _find(module, target, found)
        if not isinstance(thing, Agent):
            advice = "; decorate it with @agent" if callable(thing) else _offer(found)
            raise BadTargetError(
                f"{target.place}:{target.name} is a {type(thing).__name__}, not an agent{advice}"
            )
        return thing
    if not found:
        raise BadTargetError(
            f"there is no agent in {target.place}; decorate a function with @a2a_bridge.agent"
        )
    if len(found) > 1:
        choices = ", ".join(f"{target.place}:{name}" for name in found)
        raise BadTargetError(f"there are several agents in {target.place}; choose one: {choices}")
    return next(iter(found.values()))


def load_named(target: Target) -> Any:
    """The object that a target names in code. Raises BadTargetError."""
    if not target.is_code or not target.name:
        raise BadTargetError(f"{target.place!r} is not file.py:NAME or package.module:NAME")
    return _find(_module_of(target), target, None)


def agents_of(module: ModuleType) -> dict[str, Agent]:
    """The agents a module defines or imports, by name; one that has several names counts once."""
    found: dict[str, Agent] = {}
    for name, value in vars(module).items():
        if isinstance(value, Agent) and not any(value is known for known in found.values()):
            found[name] = value
    return found


def _module_of(target: Target) -> ModuleType:
    return _from_file(Path(target.place)) if target.sort is TargetKind.FILE else _from_name(target.place)


def _find(module: ModuleType, target: Target, found: dict[str, Agent] | None) -> Any:
    """The object of a name. found: the agents there, if one is wanted. Raises BadTargetError."""
    thing: Any = module
    for part in target.name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            offer = "" if found is None else _offer(found)
            raise BadTargetError(f"{target.place} has no {target.name}{offer}") from None
    return thing


def _offer(found: dict[str, Agent]) -> str:
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
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadTargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # As `python file.py` would: the file's folder first, and the module findable by its name.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    return _run(lambda: spec.loader.exec_module(module), module, str(path))


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        known = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        known = False
    if not known:
        text = f"there is no module {name}; name a file (FILE.py), or run this in the folder of the package"
        raise BadTargetError(text)
    return _run(lambda: importlib.import_module(name), None, name)


def _run(load: Any, module: ModuleType | None, place: str) -> ModuleType:
    from a2a_bridge.app.process import being_read

    reading = being_read.set(place)
    try:
        loaded = load()
    except Exception as error:
        traceback.print_exc()
        text = f"{place} cannot be imported, at the line shown above: {type(error).__name__}: {error}"
        raise BadTargetError(text) from error
    finally:
        being_read.reset(reading)
    return loaded if module is None else module
