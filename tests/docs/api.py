"""The pages of the Python API, from the names that the stable modules export, and from their docstrings."""

import ast
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
#: the pages of `a2a_bridge.ext`: page → title, first sentence, and the modules that its names come from
SUBJECTS = {
    "api-servers.md": (
        "Servers and their options",
        "What a server listens on, whom it trusts, and what it limits and counts.",
        ("app", "bindings.server_tls", "bindings.memory", "core.option_classes", "middleware", "push",
         "bindings.binding.HostOptions", "bindings.binding.ListenAddress", "bindings.binding.TlsFiles"),
    ),
    "api-agents-in-process.md": (
        "Agents in this process",
        "What an agent of your own, an executor or an adapter for a framework implements, and the engine that runs it.",
        ("hosting",),
    ),
    "api-gateways.md": (
        "Gateways and clients",
        "How an agent elsewhere is found, called and trusted, and the quirks of known implementations.",
        ("gateway", "cards", "peers", "auth", "bindings", "app.peer"),
    ),
    "api-calls.md": (
        "Calls, services and errors",
        "The two methods of a service, what they are given, and the errors that they raise.",
        ("core", "pb"),
    ),
    "api-stores.md": ("Stores", "What a store of tasks implements, and the rows of its driver.", ("stores",)),
    "api-transports.md": (
        "Transports",
        "What a transport of your own implements.",
        ("bindings.binding.Binding", "bindings.binding.DocumentHost", "bindings.binding.Host",
         "bindings.binding.find", "bindings.binding.names"),
    ),
    "api-versions.md": (
        "Versions and JSON",
        "How a version of the protocol maps its messages to those of 1.0, and how JSON is read and written.",
        ("dialects", "codec"),
    ),
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


def _origins(module: str) -> dict[str, str]:
    """The names that a module exports, and where each is defined, without the name of the package."""
    source = inspect.getsource(importlib.import_module(module))
    return {
        one.asname or one.name: f"{node.module}.{one.name}".removeprefix("a2a_bridge.")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for one in node.names
    }


def _subject(origin: str) -> str:
    """The page of a name: that with the longest beginning of its origin."""
    found = [
        (len(prefix), page)
        for page, (_, _, prefixes) in SUBJECTS.items()
        for prefix in prefixes
        if f"{origin}.".startswith(f"{prefix}.")
    ]
    assert found, f"no page of SUBJECTS has a place for {origin}"
    return max(found)[1]


def names_of(subject: str) -> list[str]:
    """The names of `a2a_bridge.ext` on a page: classes, functions, and the others."""
    module = importlib.import_module("a2a_bridge.ext")
    origins = _origins("a2a_bridge.ext")
    found = [one for one in names("a2a_bridge.ext") if _subject(origins[one]) == subject]

    def place(name: str) -> tuple[int, str]:
        value = getattr(module, name)
        return (0 if inspect.isclass(value) else 1 if inspect.isfunction(value) else 2), name

    return sorted(found, key=place)


def subject_text(subject: str) -> str:
    """A page of some names of `a2a_bridge.ext`."""
    title, about, _ = SUBJECTS[subject]
    module = importlib.import_module("a2a_bridge.ext")
    lines = [f"# {title}", "", NOTE, "", f"{about} The names are those of [`a2a_bridge.ext`](api-ext.md)."]
    origins = _origins("a2a_bridge.ext")
    for name in names_of(subject):
        value = getattr(module, name)
        lines += _entry(name, value)
        if not inspect.isclass(value) and not inspect.isroutine(value) and not inspect.ismodule(value):
            lines += ["", _comment_of(origins[name])]
    return _joined(lines)


def _comment_of(origin: str) -> str:
    """What the source says of a constant, in comments `#:` above it."""
    module, _, name = f"a2a_bridge.{origin}".rpartition(".")
    while name in (again := _origins(module)):
        module, _, name = f"a2a_bridge.{again[name]}".rpartition(".")
    source = inspect.getsource(importlib.import_module(module))
    found = re.search(rf"((?:^#:? .*\n)+){name}\b.* = ", source, re.MULTILINE)
    said = re.sub(r"\s*(?:^|\n)#:?\s*", " ", found[1]).strip() if found else ""
    return f"{said[0].upper()}{said[1:].removesuffix('.')}." if said else ""


def extension_text() -> str:
    """The page of `a2a_bridge.ext`: its names by subject."""
    lines = ["# a2a_bridge.ext", "", NOTE, "", MODULES["a2a_bridge.ext"][1]]
    for subject, (title, about, _) in SUBJECTS.items():
        links = ", ".join(f"[`{one}`]({subject}#{one.lower()})" for one in names_of(subject))
        lines += ["", f"## [{title}]({subject})", "", about, "", links]
    return _joined(lines)


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def text(module: str) -> str:
    if module == "a2a_bridge.ext":
        return extension_text()
    found = importlib.import_module(module)
    about = MODULES[module][1]
    lines = [f"# {module}", "", NOTE, "", about]
    if module == "a2a_bridge":
        others = ", ".join(f"[`{one}`]({page(one).name})" for one in MODULES if one != module)
        lines += ["", f"Further modules: {others}. {STABLE}"]
    for name in names(module):
        lines += _entry(name, getattr(found, name))
    return _joined(lines)
