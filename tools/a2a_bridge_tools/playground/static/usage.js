// The tab Usage: who called, and the metrics of the server. Only where the program has an admin listener.

import { askJson, askText } from "./api.js";
import { Component, button, h, longText, problem, row, table } from "./dom.js";

const COLUMNS = ["Caller", "Profile", "Binding", "Version", "Operation", "Calls", "Failed", "Last"];

class Usage extends Component {
  build() {
    this.counts = h("div");
    this.metrics = h("div");
    this.append(
      h("div.panel.row", button("Refresh", "usage-refresh", () => this.shown())),
      h("h2", "Callers"), this.counts, h("h2", "Metrics"), this.metrics);
  }

  async shown() {
    await Promise.all([
      fill(this.counts, async () => countsView((await askJson("/api/admin/usage")).usage)),
      fill(this.metrics, async () => longText(await askText("/api/admin/metrics"), { testid: "metrics" })),
    ]);
  }
}

async function fill(place, content) {
  try {
    place.replaceChildren(await content());
  } catch (error) {
    place.replaceChildren(problem(error));
  }
}

function countsView(counts) {
  if (counts.length === 0) return h("p", "No calls yet.");
  const newest = counts.toSorted((one, other) => other.last - one.last);
  const rows = newest.map((one) => {
    const time = new Date(one.last * 1000).toLocaleString("en-GB");
    const caller = [one.principal, one.client].filter(Boolean).join(", ") || "–";
    const cells = [one.profile || "–", one.binding, one.version, one.operation, one.calls, one.errors, time];
    return row("usage-row", caller, cells);
  });
  return table("Calls by caller", COLUMNS, rows);
}

customElements.define("pg-usage", Usage);
