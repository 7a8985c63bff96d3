// The tab History: the calls that the program keeps. They are opened, sent again, exported and imported.

import "./callview.js";
import { askJson, askText, withQuery } from "./api.js";
import { Call } from "./call.js";
import { Component, button, download, field, h, problem, row, table } from "./dom.js";
import { session } from "./session.js";

const COLUMNS = ["No.", "Time", "Operation", "Summary", "Interfaces", "Outcome", "Bytes", "Actions"];

const NOTHING = "No calls yet. Each call of this page is kept here with its frames: open it, put it into Compose again,"
  + " pin it, or export it as a file. A record of `a2a-bridge … --record` can be imported.";

class History extends Component {
  build() {
    this.rows = h("div");
    this.outcome = h("div", { role: "status", testid: "history-outcome" });
    this.opened = h("section", { "aria-label": "Opened call" });
    const file = h("input", { type: "file", accept: ".ndjson,.jsonl,.txt" });
    file.onchange = () => this.import(file);
    this.append(
      h("div.panel.row",
        button("Refresh", "history-refresh", () => this.shown()),
        button("Export all", "history-export", () => this.export()),
        button("Clear", "history-clear", () => this.clear(), { title: "Removes all that are not pinned" }),
        field("Import a record", file, "history-import")),
      this.outcome, this.rows, this.opened);
  }

  shown() {
    return this.attempt(async () => {
      const rows = (await askJson("/api/history")).map((call) => this.row(call));
      this.rows.replaceChildren(rows.length ? table("Calls", COLUMNS, rows) : h("p", { testid: "no-calls" }, NOTHING));
    });
  }

  row(call) {
    const { number, time, operation, summary, cells, ok, pinned, bytes } = call;
    const action = (label, testid, act, properties = {}) =>
      button(label, testid, act, { kind: "quiet", "aria-label": `${label} call ${number}`, ...properties });
    const actions = h("div.actions",
      action("Open", "history-open", () => this.open(number)),
      action("Replay", "history-replay", () => this.replay(call)),
      action(pinned ? "Unpin" : "Pin", "history-pin", () => this.pin(number, !pinned)),
      action("Export", "history-export-one", () => this.export(number)));
    const badge = h(`span.badge.${ok ? "good" : "bad"}`, ok ? "✓ ok" : "✗ failed");
    const at = time.slice(0, 19).replace("T", " ");
    const shown = [at, operation, summary, cells.join(", "), badge, bytes.toLocaleString("en"), actions];
    return row("history-row", number, shown, { "data-number": number });
  }

  open(number) {
    const view = h("pg-call");
    this.opened.replaceChildren(h("h2", `Call ${number}`), view);
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

  async pin(number, pinned) {
    await this.attempt(() => askJson(`/api/history/${number}`, { method: "POST", body: { pinned } }));
    await this.shown();
  }

  async clear() {
    this.opened.replaceChildren();
    await this.attempt(() => askJson("/api/history", { method: "DELETE" }));
    await this.shown();
  }

  /** number: of one call; all without it */
  export(number) {
    const name = number ? `a2a-call-${number}.ndjson` : "a2a-calls.ndjson";
    return this.attempt(async () => download(name, await askText(withQuery("/api/export", { number }))));
  }

  async import(file) {
    const body = await file.files[0].text();
    file.value = "";
    await this.attempt(async () => {
      const { numbers } = await askJson("/api/import", { method: "POST", body });
      await this.shown();
      this.outcome.replaceChildren(h("p.good", `✓ imported as ${numbers.join(", ")}`));
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
