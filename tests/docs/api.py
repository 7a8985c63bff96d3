"""The pages of the Python API, from the names that the stable modules export, and from their docstrings."""

import dataclasses
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from google.protobuf.message import Message

from tests.docs.pages import DOCS

FOLDER = DOCS / "reference"
#: module -> its page, and the first sentence there
MODULES = {
    "a2a_bridge": ("api.md", "Serve an agent, and call one."),
    "a2a_bridge.ext": ("api-ext.md", "Options, gateways, servers in code, and the names for authors of extensions."),
    "a2a_bridge.auth": ("api-auth.md", "Methods that identify callers, and rules for them."),
    "a2a_bridge.agents": ("api-agents.md", "Several agents behind one server."),
    "a2a_bridge.middleware": ("api-middleware.md", "The middleware of every server."),
    "a2a_bridge.testing.contracts": ("api-contracts.md", "Contract suites for authors of extensions; they need pytest."),
}  # fmt: skip
NOTE = "<!-- generated from the docstrings of the module by `make generate` -->"
STABLE = (
    "These modules, the models of 0.x (`a2a_bridge.dialects.v0_3.models` and `a2a_bridge.dialects.v0_2_5.models`), the"
    " command and the wire are the stable API: their names change only with a major version. Any other module may"
    " change without notice."
)


def page(module: str) -> Path:
    return FOLDER / MODULES[module][0]


def names(module: str) -> list[str]:
    found = importlib.import_module(module)
    exported = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if inspect.isclass(value) and value.__module__.startswith(module) and not name.startswith("_")
    ]
    return [name for name in exported if name != "__version__"]


def _comments(cls: type) -> dict[str, str]:
    """The comments `#:` before the fields of a class, by field."""
    try:
        lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith("#:"):
            comment.append(text.removeprefix("#:").strip())
        elif comment and text.startswith("#"):
            comment.append(text.removeprefix("#").strip())
        else:
            field = re.match(r"(\w+):", text)
            if field is not None and comment:
                found[field[1]] = " ".join(comment)
            comment = []
    return found


def meanings(cls: type) -> dict[str, str]:
    """What each field of a dataclass is."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _comments(base)
    for one in dataclasses.fields(cls):  # type: ignore[arg-type]
        described = one.metadata.get("option")
        if described is not None and one.name not in found:
            found[one.name] = described.help
    return found


def _default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        value = getattr(field.default, "value", field.default)
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        if dataclasses.is_dataclass(value) and type(value).__str__ is object.__str__:
            return f"`{type(value).__name__}()`"
    else:
        return ""
    value = sorted(value) if isinstance(value, frozenset) else value
    shown = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return f"`{shown}`" if shown else ""


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()).removesuffix(".")


def fields(cls: type) -> list[str]:
    """The table of the fields of a dataclass."""
    said = meanings(cls)
    lines = ["| field | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `{one.name}` | {_default(one)} | {cell(said.get(one.name, ''))} |"
        for one in dataclasses.fields(cls)  # type: ignore[arg-type]
        if not one.name.startswith("_")
    ]
    return lines if len(lines) > 2 else []


def _sorted(members: str) -> str:
    """A set with its members in order, which differs from process to process."""
    return f"frozenset({{{', '.join(sorted(members.split(', ')))}}})"


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r"<factory>|<(?:[^<>]|<lambda>|<locals>)* at 0x[0-9a-f]+>", "…", text)
    text = re.sub(r"<(\w+\.\w+): [^<>]*>", r"\1", text)
    # Of the fields of a NamedTuple: Python 3.14 shows their names only.
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"frozenset\(\{([^}]*)\}\)", lambda found: _sorted(found[1]), text)
    return re.sub(r"a2a_bridge(?:_transports)?(?:\w|\.)*\.(?=\w)", "", text)


def _shown(name: str, value: Any) -> list[str]:
    """A signature as a block; a long one has a line for each parameter."""
    text = _signature(value)
    if len(text) > 90:
        inner, arrow, result = text.rpartition(" -> ") if " -> " in text else (text, "", "")
        parts = re.split(r", (?=\*{0,2}\w+(?::|=|,|$)|\*,|/,)", inner[1:-1])
        text = "(\n" + "".join(f"    {one},\n" for one in parts) + f"){arrow}{result}"
    return ["```text", f"{name}{text}", "```", ""]


def _text(value: Any) -> list[str]:
    """A docstring; its descriptions of parameters and errors are lists."""
    lines: list[str] = []
    item = False
    for line in (inspect.getdoc(value) or "").splitlines():
        found = re.match(r"\s*((?:[a-z_]+(?:, | and )?)+|[A-Z]\w+): (?=\S)(.*)", line)
        described = found is not None and (not lines or not lines[-1].strip() or item or line[:1] == " ")
        if found is not None and described and not found[1].endswith(" "):
            if lines and lines[-1].strip() and not item:
                lines.append("")
            lines.append(f"- `{found[1]}`: {found[2]}")
            item = True
        elif item and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            item = False
            lines.append(line.strip())
    return lines


def _methods(cls: type) -> Iterator[str]:
    for name, value in inspect.getmembers(cls):
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if not owner.__module__.startswith("a2a_bridge"):
            continue
        first = (inspect.getdoc(value) or "").partition("\n\n")[0]
        yield (
            f"- `{name}{_signature(value).replace(chr(40) + 'self, ', chr(40)).replace('(self)', '()')}`"
            + (f": {cell(first)}" if first else "")
        )


def _entry(name: str, value: Any) -> list[str]:
    lines = ["", f"## {name}", ""]
    if isinstance(value, types.ModuleType):
        return [*lines, *_text(value)[:1]]
    if inspect.isclass(value) and issubclass(value, Message):
        return [*lines, f"A message of protobuf: `{value.DESCRIPTOR.full_name}`."]
    if inspect.isclass(value) and issubclass(value, Enum):
        return [*lines, *_text(value), "", ", ".join(f"`{one}`" for one in value.__members__)]
    if inspect.isclass(value) or inspect.isfunction(value):
        plain = inspect.isclass(value) and dataclasses.is_dataclass(value)
        if not plain:
            lines += _shown(name, value)
        lines += _text(value)
        if inspect.isclass(value):
            table = fields(value) if plain else []
            lines += ["", *table] if table else []
            methods = list(_methods(value))
            lines += ["", *methods] if methods else []
        return lines
    if isinstance(value, types.UnionType):
        return [*lines, f"`{' | '.join(one.__name__ for one in get_args(value))}`"]
    shown = type(value).__name__ if not hasattr(value, "__origin__") else str(value).replace("typing.", "")
    shown = re.sub(r"a2a_bridge(?:\w|\.)*\.(?=\w)", "", shown).replace("collections.abc.", "")
    return [*lines, f"`{shown}`"]


def text(module: str) -> str:
    found = importlib.import_module(module)
    about = MODULES[module][1]
    lines = [f"# {module}", "", NOTE, "", about]
    if module == "a2a_bridge":
        others = ", ".join(f"[`{one}`]({page(one).name})" for one in MODULES if one != module)
        lines += ["", f"Further modules: {others}. {STABLE}"]
    for name in names(module):
        lines += _entry(name, getattr(found, name))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
