// The tab Card: the card as people read it and as JSON, beside that of the upstream, the OpenAPI documents of its
// interfaces, and findings of a check.

import { askJson, askLines, withQuery } from "./api.js";
import {
  Component, button, copyButton, counted, h, jsonText, longText, pairs, present, problem, row, table,
} from "./dom.js";
import { session } from "./session.js";

class Card extends Component {
  build() {
    this.card = h("div");
    this.findings = h("ul.findings");
    this.outcome = h("p", { role: "status", testid: "check-outcome" });
    this.append(this.card,
      h("section.panel", { "aria-label": "Check" }, h("h2", "Check"),
        h("p", "Looks at everything between a client and this agent, and names what to change."),
        h("div.row",
          button("Check", "check", () => this.check("0"), { kind: "primary" }),
          button("Check, and send a message", "check-send", () => this.check("1"))),
        this.outcome, this.findings));
    session.watch(["agent"], () => this.fill());
  }

  fill() {
    const { agent } = session;
    this.findings.replaceChildren();
    this.outcome.textContent = "";
    this.card.replaceChildren(...(agent ? present([
      readable(agent), agent.upstream_card && beside(agent), whole("The card as JSON", agent.card),
      ...agent.cells.filter(({ binding }) => binding === "HTTP+JSON").map(({ id }) => described(id)),
    ]) : []));
  }

  async check(send) {
    this.findings.replaceChildren();
    this.outcome.textContent = "Checking …";
    try {
      for await (const line of askLines(withQuery("/api/check", { agent: session.agentName, send }))) {
        if (line.name) this.findings.append(finding(line));
        else this.outcome.textContent = line.ok ? allRight(line.warnings) : "✗ There is something to change.";
      }
    } catch (error) {
      this.outcome.replaceChildren(problem(error));
    }
  }
}

function finding({ name, ok, warning, detail, fix }) {
  const [tone, mark] = warning ? ["warn", "!"] : ok ? ["good", "✓"] : ["bad", "✗"];
  return h("li", { testid: "finding", "data-ok": String(ok) },
    h(`b.${tone}`, `${mark} ${name}`), ` ${detail}`, fix && h("p.fix", `Fix: ${fix}`));
}

function allRight(warnings) {
  return warnings ? `✓ All is well, with ${counted(warnings, "warning")}.` : "✓ All is well.";
}

function readable({ card, description, url, skills, cells, upstream, fronts }) {
  const { capabilities = {}, securitySchemes = {}, signatures = [] } = card;
  const facts = [
    ["Version", card.version],
    ["Provider", card.provider?.organization],
    ["Read from", url],
    ["Capabilities", Object.keys(capabilities).filter((name) => capabilities[name] === true).join(", ")],
    ["Input", card.defaultInputModes?.join(", ")],
    ["Output", card.defaultOutputModes?.join(", ")],
    ["Security", Object.keys(securitySchemes).join(", ")],
    ["Signatures", signatures.length],
    ["Upstream", upstream && `${upstream.binding} ${upstream.version} at ${upstream.url}`],
  ];
  const items = skills.map((skill) => h("li", h("b", skill.name), ` ${skill.description}`));
  const rows = cells.map((cell) => row("interface", cell.binding, [cell.version, cell.url]));
  rows.push(...fronts.map((front) => row("front", front.protocol, ["", front.url])));
  return h("section.panel", { "aria-label": "Agent card", testid: "card" },
    h("h2", card.name), h("p", description), pairs("facts-list", facts.filter(([, value]) => value)),
    items.length > 0 && [h("h3", "Skills"), h("ul", items)],
    h("h3", "Interfaces"), table("Interfaces", ["Binding", "Version", "URL"], rows));
}

/** What a gateway changed in the card of its upstream. */
function beside({ card, upstream_card: upstream }) {
  const [own, theirs] = [leaves(card), leaves(upstream)];
  const paths = [...new Set([...own.keys(), ...theirs.keys()])].sort();
  const rows = paths.filter((path) => own.get(path) !== theirs.get(path)).map((path) =>
    row("card-difference", h("code", path), [own.get(path) ?? "–", theirs.get(path) ?? "–"]));
  return h("section.panel", { "aria-label": "Upstream card" },
    h("h2", "Beside the card of the upstream"),
    rows.length ? table("Differences of the cards", ["Path", "Served", "Upstream"], rows) : h("p", "Equal."),
    whole("The upstream card as JSON", upstream));
}

/** The values of a JSON tree by their path. */
function leaves(value, path = "", found = new Map()) {
  const members = value !== null && typeof value === "object" ? Object.entries(value) : [];
  if (members.length === 0) return found.set(path, JSON.stringify(value));
  for (const [name, child] of members) {
    leaves(child, Array.isArray(value) ? `${path}[${name}]` : `${path}${path && "."}${name}`, found);
  }
  return found;
}

/** The operations of an interface of HTTP+JSON; read when it is opened. */
function described(cell) {
  const place = h("div");
  const read = async () => {
    if (!details.open || place.childElementCount) return;
    try {
      place.replaceChildren(...operations(await askJson(withQuery("/api/openapi", { agent: session.agentName, cell }))));
    } catch (error) {
      place.replaceChildren(problem(error));
    }
  };
  const details = h("details.panel", { testid: "openapi", "data-cell": cell, ontoggle: read },
    h("summary", `OpenAPI of ${cell}`), place);
  return details;
}

function operations(document) {
  const rows = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, parameters, requestBody }]) =>
      row("openapi-row", operationId, [
        h("code", `${method.toUpperCase()} ${path}`),
        parameters.map(({ name, required }) => (required ? name : `${name}?`)).join(", ") || "–",
        requestBody ? "JSON" : "–",
      ])));
  const text = JSON.stringify(document, null, 2);
  return [
    table("Operations", ["Operation", "Request", "Parameters", "Body"], rows),
    h("div.row", copyButton(text, "openapi-copy")), longText(text, { testid: "openapi-text" }),
  ];
}

function whole(name, value) {
  return h("details.panel", h("summary", name), jsonText(value));
}

customElements.define("pg-card", Card);
