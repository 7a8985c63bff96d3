// The tab Usage: who called, and the metrics of the server. Only where the program has an admin listener.

import { askJson, askText } from "./api.js";
import { Component, button, h, longText, problem, table } from "./dom.js";

class Usage extends Component {
  build() {
    this.counts = h("div");
    this.metrics = h("div");
    this.append(h("div.panel.row", {}, button("Refresh", () => this.shown(), { testid: "usage-refresh" })),
      h("h2", {}, "Callers"), this.counts, h("h2", {}, "Metrics"), this.metrics);
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
  if (counts.length === 0) return h("p", {}, "No calls yet.");
  const newest = counts.toSorted((one, other) => other.last - one.last);
  return table("Calls by caller", ["Caller", "Profile", "Binding", "Version", "Operation", "Calls", "Failed", "Last"], newest.map((one) =>
    h("tr", { testid: "usage-row" }, h("th", { scope: "row" }, [one.principal, one.client].filter(Boolean).join(", ") || "–"),
      [one.profile || "–", one.binding, one.version, one.operation, one.calls, one.errors, new Date(one.last * 1000).toLocaleString("en-GB")].map((cell) => h("td", {}, cell)))));
}

customElements.define("pg-usage", Usage);
