"""HTTP+JSON addresses: a path, query and body ↔ a row and one JSON tree. Pure; it knows no operation or
version.

Rules (google.api.http; A2A 1.0.1 sections 5.3, 11.3, 11.5):
1. Templates are matched on the path as sent, and each segment is decoded after the split, so that an id may
   contain a slash. A variable matches one segment that is not empty.
2. The verb follows the last colon of the last segment; `%3A` is a colon too. An id that ends like a verb is
   read as an id if no rule of that method has the verb.
3. If path and body contain the same member, the values have to agree.
4. If a rule has a body and also names members for the query, those of the body are preferred.
5. In a query, lists are repetitions or commas, booleans `true` and `false`, enums names, timestamps RFC 3339.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from a2a_bridge.codec import Json, JsonObject
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.dialects import HttpAddress, HttpRule, Row

MAX_QUERY_FIELDS = 1000

_VARIABLE = re.compile(r"\{(\w+)\}")
_COLON = re.compile(r"(.*)(?::|%3[Aa])(.*)", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_SNAKE = re.compile(r"_([a-z0-9])")
_CAMEL = re.compile(r"([A-Z])")


class Route(NamedTuple):
    """One rule of one row, with the members of its path, in order."""

    row: Row[HttpAddress, Any]
    rule: HttpRule
    members: tuple[str, ...]


class Match(NamedTuple):
    """A route and the decoded values of its path."""

    route: Route
    values: tuple[str, ...]


class HttpCall(NamedTuple):
    """Where a request goes: method, path (percent-encoded, below the interface's URL), query, body tree."""

    method: str
    path: str
    query: str
    body: Json


Methods = dict[str, Route]


class _Node:
    """The rules that share the beginning of a path. ends: by verb ("" for none), the rules that end
    here.
    """

    __slots__ = ("ends", "literals", "variable")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.ends: dict[str, Methods] = {}


class Routes:
    """All rules of a form, with the search for the rule of a request."""

    def __init__(self, rows: Iterable[Row[HttpAddress, Any]]) -> None:
        self._root = _Node()
        #: the matches of paths without a variable
        self._plain: dict[str, dict[str, Match]] = {}
        for row in rows:
            for rule in row.address.rules:
                self._add(Route(row, rule, tuple(_VARIABLE.findall(rule.template))))

    def match(self, method: str, path: str) -> Match | list[str]:
        """The route of a request, else the methods for which the path exists: none if it does not exist.
        Raises INVALID_REQUEST if the path is not UTF-8.
        """
        plain = self._plain.get(path)
        if plain is not None and (match := plain.get(method)) is not None:
            return match
        allowed: set[str] = set()
        for methods, values in self._ends(path):
            route = methods.get(method)
            if route is not None:
                return Match(route, values)
            allowed.update(methods)
        return sorted(allowed)

    def below(self, method: str, path: str) -> Match | None:
        """The route of a path after the first segment of another route, such as `/v1`, is put before it."""
        for head in self._root.literals:
            found = self.match(method, f"/{head}{path}")
            if isinstance(found, Match):
                return found
        return None

    def _add(self, route: Route) -> None:
        *parts, last = route.rule.template.removeprefix("/").split("/")
        stem, _, verb = last.partition(":")
        node = self._root
        for part in (*parts, stem):
            if _VARIABLE.fullmatch(part):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.literals.setdefault(part, _Node())
        node.ends.setdefault(verb, {})[route.rule.method] = route
        if not route.members:
            self._plain.setdefault(route.rule.template, {})[route.rule.method] = Match(route, ())

    def _ends(self, path: str) -> Iterator[tuple[Methods, tuple[str, ...]]]:
        if path[:1] != "/" or path == "/":
            return
        raw = path[1:].removesuffix("/").split("/")
        # `/tasks/` lacks an id; it is not the list.
        slash = path.endswith("/")
        if len(raw) > 16:
            return  # no template is that long; so the search is not made
        parts = [_decode(part) for part in raw]
        colon = _COLON.fullmatch(raw[-1])
        if colon is not None and (verb := _decode(colon[2])):
            yield from _walk(self._root, [*parts[:-1], _decode(colon[1])], verb, (), slash)
        yield from _walk(self._root, parts, "", (), slash)


def _walk(
    node: _Node, parts: list[str], verb: str, values: tuple[str, ...], slash: bool
) -> Iterator[tuple[Methods, tuple[str, ...]]]:
    if not parts:
        methods = node.ends.get(verb)
        if methods is not None and slash and node.variable is not None:
            methods = {method: route for method, route in methods.items() if method != "GET"}
        if methods:
            yield methods, values
        return
    part, *rest = parts
    literal = node.literals.get(part)
    if literal is not None:
        yield from _walk(literal, rest, verb, values, slash)
    if node.variable is not None and part:
        yield from _walk(node.variable, rest, verb, (*values, part), slash)


def explode(match: Match, query: str, body: Json) -> Json:
    """The JSON tree of a request. Raises INVALID_PARAMS with the member at fault.

    body: the parsed body, None if it was empty; rules without a body ignore it. Where the path has an id, as
    to cancel a task, an empty body counts as an object without members; elsewhere it is a PARSE_ERROR, as
    with JSON-RPC.
    """
    (_, rule, members), values = match
    if not rule.body:
        tree = _from_query(query, rule, members)
    elif body is None:
        if members in ((), ("tenant",)):
            raise A2AError(Reason.PARSE_ERROR, "the JSON document is empty")
        tree = {}
    elif type(body) is dict:
        tree = body
    else:
        raise invalid_params("", "the body has to be an object")
    if rule.body and rule.query:
        tree = {**_from_query(query, rule, members), **tree}
    for name, value in zip(members, values, strict=True):
        for variant in {name, _CAMEL.sub(_underscore, name)}:
            present = tree.pop(variant, None)
            if present not in (None, "", value):
                raise invalid_params(name, "is not what the path says")
        tree[name] = value
    return tree


def implode(address: HttpAddress, tree: JsonObject) -> list[HttpCall]:
    """The targets for a request, best first. Raises INVALID_PARAMS if a member that paths need is empty.

    A tenant goes into the path if any rule has a place for it; without a tenant such rules are not used.
    """
    tenant = bool(tree.get("tenant"))
    fitting: list[HttpCall] = []
    for rule in address.rules:
        members = _VARIABLE.findall(rule.template)
        if ("tenant" in members) == tenant and all(tree.get(name) for name in members):
            fitting.append(_target(rule, members, tree))
    if not fitting:
        missing = next(
            (name for name in _VARIABLE.findall(address.rules[0].template) if not tree.get(name)), ""
        )
        raise invalid_params(missing, "is required")
    return fitting


def _target(rule: HttpRule, members: list[str], tree: JsonObject) -> HttpCall:
    path = _VARIABLE.sub(lambda match: _encode(str(tree[match[1]])), rule.template)
    rest = {name: value for name, value in tree.items() if name not in members}
    if rule.body:
        return HttpCall(rule.method, path, "", rest)
    pairs: list[tuple[str, str]] = []
    for name, value in rest.items():
        if name not in rule.query:
            raise invalid_params(name, "cannot be sent in a query")
        pairs.extend((name, _query_text(item)) for item in (value if isinstance(value, list) else [value]))
    return HttpCall(rule.method, path, urlencode(pairs, quote_via=quote), None)


def error_in(tree: Json) -> bool:
    """True if an event is an error although its type does not say so: no response has such members."""
    return type(tree) is dict and ("error" in tree or type(tree.get("code")) is int)


def not_json(problem: str) -> A2AError:
    """INVALID_AGENT_RESPONSE for a response that is not JSON."""
    text = f"the agent's answer is not JSON: {problem}"
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)


def _from_query(query: str, rule: HttpRule, members: tuple[str, ...]) -> JsonObject:
    tree: JsonObject = {}
    kinds = rule.query
    if not query:
        return tree
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:
        raise invalid_params("", "the query cannot be read") from None
    for encoded, text in pairs:
        name = encoded if encoded in kinds else _SNAKE.sub(lambda match: match[1].upper(), encoded)
        name = rule.aliases.get(name, name)
        kind = kinds.get(name) or ("string" if name in members else "")
        if not kind:
            continue  # unknown members are ignored, in a query as in a body
        if kind.startswith("[]"):
            items = tree.setdefault(name, [])
            items.extend(_query_value(kind[2:], part) for part in text.split(","))
        elif name in tree:
            raise invalid_params(name, "is given more than once")
        else:
            tree[name] = _query_value(kind, text)
    return tree


def _query_value(kind: str, text: str) -> Json:
    """The JSON value of a text. A text that is not of the kind stays a text: the decoder of the request
    rejects it, together with all other members that are wrong.
    """
    if kind in ("int", "enum") and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "timestamp":
        # After the date and its separator, a blank is the unencoded plus sign of an offset.
        return text[:11] + text[11:].replace(" ", "+")
    return text


def _query_text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _encode(value: str) -> str:
    # URL normalisation on the way would remove a segment of dots only.
    return value.replace(".", "%2E") if value in (".", "..") else quote(value, safe="")


def _decode(part: str) -> str:
    if "%" not in part:
        return part
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise A2AError(Reason.INVALID_REQUEST, "the path is not UTF-8") from None


def _underscore(match: re.Match[str]) -> str:
    return "_" + match[1].lower()
