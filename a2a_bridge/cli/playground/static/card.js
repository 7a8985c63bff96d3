// The tab Card: the card as people read it and as JSON, beside that of the upstream, and findings of a check.

import { askLines, withQuery } from "./api.js";
import { Component, button, h, jsonText, problem, table } from "./dom.js";
import { session } from "./session.js";

class Card extends Component {
  build() {
    this.card = h("div");
    this.findings = h("ul.findings");
    this.outcome = h("p", { role: "status", testid: "check-outcome" });
    this.append(
      this.card,
      h("section.panel", { "aria-label": "Check" }, h("h2", {}, "Check"),
        h("p", {}, "Looks at everything between a client and this agent, and names what to change."),
        h("div.row", {},
          button("Check", () => this.check("0"), { className: "primary", testid: "check" }),
          button("Check, and send a message", () => this.check("1"), { testid: "check-send" })),
        this.outcome, this.findings));
    session.watch(["agent"], () => this.fill());
  }

  fill() {
    this.findings.replaceChildren();
    this.outcome.textContent = "";
    const { agent } = session;
    this.card.replaceChildren(...(agent ? [readable(agent), agent.upstream_card && beside(agent), whole("The card as JSON", agent.card)] : []).filter(Boolean));
  }

  async check(send) {
    this.findings.replaceChildren();
    this.outcome.textContent = "Checking …";
    try {
      for await (const line of askLines(withQuery("/api/check", { agent: session.agentName, send }))) {
        if (line.name === undefined) this.outcome.textContent = line.ok ? "✓ All is well." : "✗ There is something to change.";
        else this.findings.append(finding(line));
      }
    } catch (error) {
      this.outcome.replaceChildren(problem(error));
    }
  }
}

function finding({ name, ok, detail, fix }) {
  return h("li", { testid: "finding", "data-ok": String(ok) },
    h(`b.${ok ? "good" : "bad"}`, {}, `${ok ? "✓" : "✗"} ${name}`), detail && ` ${detail}`, !ok && fix && h("p.fix", {}, `Fix: ${fix}`));
}

function readable({ card, description, url, skills, cells, upstream }) {
  const facts = {
    Version: card.version,
    Provider: card.provider?.organization,
    "Read from": url,
    Capabilities: Object.entries(card.capabilities ?? {}).filter(([, value]) => value === true).map(([name]) => name).join(", "),
    Input: card.defaultInputModes?.join(", "),
    Output: card.defaultOutputModes?.join(", "),
    Security: Object.keys(card.securitySchemes ?? {}).join(", "),
    Signatures: card.signatures?.length ? String(card.signatures.length) : "",
    Upstream: upstream && `${upstream.binding} ${upstream.version} at ${upstream.url}`,
  };
  return h("section.panel", { "aria-label": "Agent card", testid: "card" },
    h("h2", {}, card.name), h("p", {}, description),
    h("dl.facts-list", {}, Object.entries(facts).filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    skills.length > 0 && [h("h3", {}, "Skills"), h("ul", {}, skills.map((skill) => h("li", {}, h("b", {}, skill.name), ` ${skill.description ?? ""}`)))],
    h("h3", {}, "Interfaces"),
    table("Interfaces", ["Binding", "Version", "URL"], cells.map(({ binding, version, url }) => h("tr", {}, [binding, version, url].map((text) => h("td", {}, text))))));
}

/** What a gateway changed in the card of its upstream. */
function beside({ card, upstream_card: upstream }) {
  const [own, theirs] = [leaves(card), leaves(upstream)];
  const paths = [...new Set([...own.keys(), ...theirs.keys()])].filter((path) => own.get(path) !== theirs.get(path));
  return h("section.panel", { "aria-label": "Upstream card" },
    h("h2", {}, "Beside the card of the upstream"),
    paths.length === 0
      ? h("p", {}, "They are equal.")
      : table("Differences of the cards", ["Path", "Served", "Upstream"], paths.sort().map((path) =>
        h("tr", { testid: "card-difference" }, h("th", { scope: "row" }, h("code", {}, path)), h("td", {}, own.get(path) ?? "–"), h("td", {}, theirs.get(path) ?? "–")))),
    whole("The upstream card as JSON", upstream));
}

/** The values of a JSON tree by their path. */
function leaves(value, path = "", found = new Map()) {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) found.set(path, JSON.stringify(value));
  else for (const [name, child] of Object.entries(value)) leaves(child, Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name, found);
  return found;
}

function whole(name, value) {
  return h("details.panel", {}, h("summary", {}, name), jsonText(value));
}

customElements.define("pg-card", Card);
