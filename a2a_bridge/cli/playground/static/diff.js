// What differs between the lanes of a call, with the rule that explains it.

import { verdict } from "./call.js";
import { Component, h, table } from "./dom.js";

class Diff extends Component {
  build() {
    this.append(h("p.legend", {}, "equal: nothing differs but generated ids and times · explained: the version cannot hold it · lost: it differs, and should not"));
    this.append((this.content = h("div")));
  }

  show(call) {
    const lanes = call.ordered().filter((lane) => lane.comparison);
    if (lanes.length < 2) {
      this.content.replaceChildren(h("p", {}, call.finished ? "There is nothing to compare." : "Compared when all have ended."));
      return;
    }
    this.content.replaceChildren(table("Differences", ["Lane", "Result", "Path", "This", "First", "Rule"], lanes.flatMap(rowsOf)));
  }
}

function rowsOf(lane) {
  const { differences = [] } = lane.comparison;
  const { word, text, tone } = verdict(lane);
  if (differences.length === 0) return [row(lane, tone, word, ["", "", "", text])];
  return differences.map(({ path, this: own, that, rule }) =>
    row(lane, rule ? "warn" : "bad", rule ? "explained" : "lost", [path, written(own), written(that), rule]));
}

function row(lane, tone, word, cells) {
  return h(`tr.${tone}`, { testid: "diff-row", "data-result": word },
    h("th", { scope: "row" }, lane.name), h("td", {}, h(`span.badge.${tone}`, {}, word)), cells.map((cell) => h("td", {}, cell)));
}

const written = (value) => (value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value));

customElements.define("pg-diff", Diff);
