"""The page for people who open the address of an agent in a browser: its description, and how to call it.

Rules:
1. It shows only what the public card says. Everything of the card is escaped, and shell words are quoted.
2. It loads nothing: `CSP` allows its own style and its own script only. The script adds buttons that copy the
   examples; without it, they are text.
"""

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from a2a_bridge.codec import dumps
from a2a_bridge.core.foreign_text import address_words, clean_json, curl_words, url_word
from a2a_bridge.core.operations import SEND_MESSAGE
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, BindingKind, Dialect, by_version
from a2a_bridge.dialects.v0_3.card import is_old
from a2a_bridge.dialects.v1_0.forms import WELL_KNOWN_PATH
from a2a_bridge.pb import lf_a2a_v1 as hub

_STYLE = (
    ":root{color-scheme:light dark;--text:#1f2328;--dim:#59636e;--line:#d1d9e0;--block:#f6f8fa;"
    "--link:#0550ae;--word:#8250df;--flag:#0550ae;--text-of:#0a6b2d}"
    "@media(prefers-color-scheme:dark){:root{--text:#e6e6e6;--dim:#9aa4af;--line:#3a4048;--block:#212529;"
    "--link:#7ab7ff;--word:#d2a8ff;--flag:#79c0ff;--text-of:#7ee787}}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2.5rem auto;padding:0 1rem;"
    "color:var(--text);background:Canvas}"
    "h1{margin:0;line-height:1.2;overflow-wrap:anywhere}"
    "h1 small{font-size:.5em;font-weight:400;color:var(--dim)}"
    "h2{margin:2.2rem 0 .6rem;font-size:1.25rem}h3{margin:0;font-size:.9rem}a{color:var(--link)}"
    ".lead{font-size:1.15rem;margin:.6rem 0;overflow-wrap:anywhere}.dim{color:var(--dim)}"
    "code,pre{font:14px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4rem 1rem .4rem 0;"
    "border-bottom:1px solid var(--line);vertical-align:top}"
    "th{font-weight:600;font-size:.9rem;color:var(--dim)}"
    "td:last-child{width:99%;overflow-wrap:anywhere}td:not(:last-child){white-space:nowrap}"
    "section{border:1px solid var(--line);border-radius:6px;margin:.8rem 0;overflow:hidden}"
    "header{display:flex;align-items:center;justify-content:space-between;"
    "min-height:2.2rem;padding:0 .4rem 0 .8rem;"
    "border-bottom:1px solid var(--line)}pre{margin:0;padding:.7rem .8rem;background:var(--block);"
    "white-space:pre-wrap}pre b{color:var(--word)}pre i{font-style:normal;color:var(--flag)}"
    "pre q{quotes:none;color:var(--text-of)}pre q::before,pre q::after{content:none}"
    "button{font:13px system-ui,sans-serif;padding:.2rem .6rem;cursor:pointer}"
    "summary{cursor:pointer;font-weight:600;margin:.8rem 0}"
    "@media(max-width:40rem){body{margin:1.2rem auto}tr{display:block;padding:.4rem 0;"
    "border-bottom:1px solid var(--line)}th{display:none}"
    "td{display:inline-block;padding:0 .6rem 0 0;border:0}"
    "td:last-child{display:block;width:auto}}"
)
# The clipboard is closed to pages without TLS, but for this machine; there the text is selected.
_SCRIPT = (
    "for(const pre of document.querySelectorAll('pre')){const b=document.createElement('button');"
    "b.type='button';b.textContent='Copy';b.onclick=async()=>{try{await navigator.clipboard.writeText("
    "pre.textContent);b.textContent='Copied'}catch{getSelection().selectAllChildren(pre);"
    "b.textContent='Selected'}setTimeout(()=>b.textContent='Copy',1500)};pre.previousElementSibling.append(b)}"
)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


#: the header Content-Security-Policy for the page
CSP = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(_SCRIPT)}';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TEXT = "hello"
#: a word of a command, as `shlex.quote` writes it, or the space between two
_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+|\s+|.")


def agent_page(card: hub.AgentCard, base_url: str, others: Iterable[tuple[str, str]] = ()) -> bytes:
    """The page of an agent, as HTML in UTF-8. others: other protocols, and their addresses."""
    newest = [one for one in card.supported_interfaces if not is_old(one)]
    older = [one for one in card.supported_interfaces if is_old(one)]
    first, folded = (newest, older) if newest else (older, [])
    parts = [_skills(card.skills), "<h2>Addresses</h2>"]
    parts += [_addresses(first), _folded(folded, _addresses(folded)), _others(others)]
    asked = ", ".join(sorted(card.security_schemes))
    if asked:
        parts.append(
            f"<p>It asks for credentials ({escape(asked)}), which the examples below do not have.</p>"
        )
    parts += ["<h2>How to call it</h2>", _examples(first), _folded(folded, _examples(folded))]
    card_url = f"{base_url}{WELL_KNOWN_PATH}"
    parts.append(
        f'<h2>Its card</h2><p><a href="{escape(card_url)}"><code>{escape(card_url)}</code></a></p>'
        f"<p>Whether all of it works: <code>{escape(f'a2a-bridge check {shlex.quote(base_url)}')}</code></p>"
    )
    title = card.name or "An agent"
    heading = escape(title) + (f" <small>{escape(card.version)}</small>" if card.version else "")
    spoken = "An agent that speaks the Agent2Agent protocol (A2A)."
    about = f'<p class="lead">{escape(card.description)}</p><p class="dim">{spoken}</p>'
    return _document(title, heading, about, parts)


def list_page(agents: Iterable[tuple[str, str, str]], others: Iterable[tuple[str, str]] = ()) -> bytes:
    """The page of a server with several agents. agents: name, description and path of each. others: see
    `agent_page`.
    """
    rows = [
        f'<li><a href="{escape(path)}">{escape(name)}</a>: {escape(about)}</li>'
        for name, about, path in agents
    ]
    parts = ["<ul>", *rows, "</ul>", _others(others)]
    about = '<p class="dim">A server of agents that speak the Agent2Agent protocol (A2A).</p>'
    return _document("Agents", "Agents", about, parts)


def _document(title: str, heading: str, about: str, parts: Iterable[str]) -> bytes:
    """title: text. heading, about, parts: HTML."""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{heading}</h1>{about}{''.join(parts)}</main>"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )
    return text.encode("utf-8", "replace")


def _skills(skills: Iterable[hub.AgentSkill]) -> str:
    rows = []
    for one in skills:
        examples = "".join(f"<li><q>{escape(text)}</q></li>" for text in one.examples)
        rows.append(
            f"<li><b>{escape(one.name)}</b>: {escape(one.description)}"
            + (f"<ul>{examples}</ul>" if examples else "")
            + "</li>"
        )
    return f"<h2>Skills</h2><ul>{''.join(rows)}</ul>" if rows else ""


def _addresses(interfaces: Iterable[hub.AgentInterface]) -> str:
    rows = [
        f"<tr><td>{escape(one.protocol_binding)}</td><td>{escape(one.protocol_version)}</td>"
        f"<td><code>{escape(one.url)}</code></td></tr>"
        for one in interfaces
    ]
    head = "<tr><th>binding</th><th>version</th><th>address</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>" if rows else ""


def _others(addresses: Iterable[tuple[str, str]]) -> str:
    rows = [f"<tr><td>{escape(what)}</td><td><code>{escape(url)}</code></td></tr>" for what, url in addresses]
    head = "<tr><th>protocol</th><th>address</th></tr>"
    return f"<p>For clients of other protocols:</p><table>{head}{''.join(rows)}</table>" if rows else ""


def _folded(interfaces: Sequence[hub.AgentInterface], content: str) -> str:
    """Content about older versions, which opens at a click."""
    versions = ", ".join(dict.fromkeys(one.protocol_version for one in interfaces))
    summary = f"<summary>Older versions: {escape(versions)}</summary>"
    return f"<details>{summary}{content}</details>" if content else ""


def _examples(interfaces: Iterable[hub.AgentInterface]) -> str:
    """A command for each interface; equal ones once."""
    calls = [_call(one) for one in interfaces]
    shown = [
        f"<section><header><h3>{escape(title)}</h3></header><pre>{_highlighted(command)}</pre></section>"
        for title, command in calls
        if command
    ]
    return "".join(dict.fromkeys(shown))


def _highlighted(command: str) -> str:
    """A command as HTML: its program, options and quoted words in colours."""
    shown = []
    for at, word in enumerate(_WORD.findall(command)):
        tag = "b" if at == 0 else "i" if word.startswith("-") else "q" if "'" in word else ""
        shown.append(f"<{tag}>{escape(word)}</{tag}>" if tag else escape(word))
    return "".join(shown)


def _call(one: hub.AgentInterface) -> tuple[str, str]:
    """A title and a command that sends a message; no command for a binding of another distribution."""
    dialect = by_version(one.protocol_version)
    title = f"{one.protocol_binding} {one.protocol_version}"
    if dialect is None:
        return title, ""
    if one.protocol_binding == JSONRPC.name:
        return title, _curl(one.url, dialect, _json_rpc(dialect, one.tenant))
    if one.protocol_binding == HTTP_JSON.name:
        found = _row(dialect, HTTP_JSON)
        if found is None:
            return title, ""
        path = found.address.rules[0].template
        prefix = f"/{one.tenant}" if one.tenant else ""
        return title, _curl(f"{one.url.rstrip('/')}{prefix}{path}", dialect, found.encode_request(_request()))
    if one.protocol_binding == GRPC.name:
        return title, _grpcurl(one, dialect)
    return title, ""


def _json_rpc(dialect: Dialect, tenant: str) -> Any:
    found = _row(dialect, JSONRPC)
    if found is None:
        return None
    params = found.encode_request(_request(tenant))
    return {"jsonrpc": "2.0", "id": 1, "method": found.address, "params": params}


def _curl(url: str, dialect: Dialect, body: Any) -> str:
    if body is None:
        return ""
    version = f" -H 'A2A-Version: {dialect.version}'" if dialect.declares else ""
    words = shlex.join([*curl_words(url), url_word(url)])
    return f"{words} -H 'Content-Type: application/json'{version} -d {shlex.quote(_json(body))}"


def _grpcurl(one: hub.AgentInterface, dialect: Dialect) -> str:
    # A message of protobuf has the same JSON as over HTTP+JSON.
    call, body = _row(dialect, GRPC), _row(dialect, HTTP_JSON)
    if call is None or body is None:
        return ""
    scheme, separator, rest = one.url.partition("://")
    place = rest if separator else one.url
    secure = scheme in ("https", "grpcs") if separator else place.endswith(":443")
    words = [
        "grpcurl",
        *(() if secure else ("-plaintext",)),
        "-d",
        _json(body.encode_request(_request(one.tenant))),
        *address_words(url_word(place)),
    ]
    return shlex.join([*words, call.address.lstrip("/")])


def _row(dialect: Dialect, kind: BindingKind[Any, Any]) -> Any:
    form = dialect.form(kind)
    return None if form is None else form.row(SEND_MESSAGE)


def _request(tenant: str = "") -> hub.SendMessageRequest:
    message = hub.Message(message_id="1", role=hub.ROLE_USER, parts=[hub.Part(text=_TEXT)])
    return hub.SendMessageRequest(tenant=tenant, message=message)


def _json(tree: Any) -> str:
    return clean_json(dumps(tree).decode())
