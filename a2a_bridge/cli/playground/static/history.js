// The tab History: the calls that the program keeps. They are opened, sent again, exported and imported.

import "./callview.js";
import { askJson, askText, withQuery } from "./api.js";
import { Call } from "./call.js";
import { Component, button, download, field, h, problem, table } from "./dom.js";
import { session } from "./session.js";

class History extends Component {
  build() {
    this.rows = h("div", { testid: "history" });
    this.outcome = h("div", { role: "status", testid: "history-outcome" });
    this.opened = h("section", { "aria-label": "Opened call", hidden: true });
    const file = h("input", { type: "file", accept: ".ndjson,.jsonl,.txt", onchange: () => this.import(file) });
    this.append(
      h("div.panel.row", {},
        button("Refresh", () => this.shown(), { testid: "history-refresh" }),
        button("Export all", () => this.export(), { testid: "history-export" }),
        button("Clear", () => this.clear(), { testid: "history-clear", title: "Removes all that are not pinned" }),
        field("Import a record", file, { testid: "history-import" })),
      this.outcome, this.rows, this.opened);
  }

  async shown() {
    await this.attempt(async () => this.fill(await askJson("/api/history")));
  }

  fill(calls) {
    if (calls.length === 0) {
      this.rows.replaceChildren(h("p", {}, "No calls yet."));
      return;
    }
    this.rows.replaceChildren(table("Calls", ["No.", "Time", "Operation", "Summary", "Cells", "Outcome", "Size", "Actions"], calls.map((call) => this.row(call))));
  }

  row(call) {
    const { number, time, operation, summary, cells, ok, pinned, bytes } = call;
    const act = (label, action, testid, properties = {}) =>
      button(label, action, { className: "quiet", testid, "aria-label": `${label} call ${number}`, ...properties });
    return h("tr", { testid: "history-row", "data-number": number },
      h("th", { scope: "row" }, number), h("td", {}, String(time).slice(0, 19).replace("T", " ")), h("td", {}, operation), h("td.summary", {}, summary), h("td", {}, cells.join(", ")),
      h("td", {}, h(`span.badge.${ok ? "good" : "bad"}`, {}, ok ? "✓ ok" : "✗ failed")), h("td", {}, bytes.toLocaleString("en")),
      h("td", {}, h("div.actions", {},
        act("Open", () => this.open(number), "history-open"),
        act("Replay", () => this.replay(call), "history-replay"),
        act(pinned ? "Unpin" : "Pin", () => this.change(`/api/history/${number}`, { method: "POST", body: { pinned: !pinned } }), "history-pin", { ariaPressed: String(pinned) }),
        act("Export", () => this.export(number), "history-export-one"))));
  }

  open(number) {
    const view = h("pg-call");
    this.opened.hidden = false;
    this.opened.replaceChildren(h("h2", {}, `Call ${number}`), view);
    view.show(Call.open(number));
    this.opened.scrollIntoView({ block: "nearest" });
  }

  /** Puts a call into Compose. */
  replay({ number, agent, operation, cells }) {
    return this.attempt(async () => {
      const { head, error } = await Call.open(number).end();
      if (error) throw error;
      session.announce("compose", { agent, operation, cells, request: head.request });
    });
  }

  async change(path, options) {
    await this.attempt(() => askJson(path, options));
    await this.shown();
  }

  clear() {
    this.opened.hidden = true;
    return this.change("/api/history", { method: "DELETE" });
  }

  export(number) {
    return this.attempt(async () =>
      download(number ? `a2a-call-${number}.ndjson` : "a2a-calls.ndjson", await askText(withQuery("/api/export", { number }))));
  }

  async import(file) {
    const [chosen] = file.files;
    file.value = "";
    await this.attempt(async () => {
      const { numbers } = await askJson("/api/import", { method: "POST", body: await chosen.text() });
      this.fill(await askJson("/api/history"));
      this.outcome.replaceChildren(h("p.good", {}, `✓ imported as ${numbers.join(", ")}`));
    });
  }

  /** Runs an action; what fails is shown. */
  async attempt(action) {
    this.outcome.replaceChildren();
    try {
      await action();
    } catch (error) {
      this.outcome.replaceChildren(problem(error));
    }
  }
}

customElements.define("pg-history", History);
