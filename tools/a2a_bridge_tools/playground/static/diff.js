// What differs between the lanes of a call, with the rule that explains it.

import { verdict } from "./call.js";
import { Component, h, row, table } from "./dom.js";

const LEGEND = "first: the others are compared with this · equal: nothing differs but generated ids and times · " +
  "explained: the version cannot hold it · lost: it differs, and should not";
const COLUMNS = ["Interface", "Result", "Path", "First", "Here", "Rule"];

class Diff extends Component {
  build() {
    this.content = h("div");
    this.append(h("p.legend", LEGEND), this.content);
  }

  show(call) {
    const lanes = call.ordered().filter((lane) => lane.comparison);
    const nothing = call.finished ? "There is nothing to compare." : "Compared when all have ended.";
    const content = lanes.length < 2 ? h("p", nothing) : table("Differences", COLUMNS, lanes.flatMap(rowsOf));
    this.content.replaceChildren(content);
  }
}

function rowsOf(lane) {
  const { verdict: said, differences } = lane.comparison;
  const { word, text, tone } = verdict(lane);
  // Generated ids and times are no difference, although they are listed.
  if (said !== "different") return [diffRow(lane, tone, word, ["", "", "", text])];
  return differences.map(({ path, this: first, that: own, rule }) =>
    diffRow(lane, rule ? "warn" : "bad", rule ? "explained" : "lost", [path, first, own, rule]));
}

function diffRow(lane, tone, word, cells) {
  return row("diff-row", lane.name, [h(`span.badge.${tone}`, word), ...cells], { "data-result": word });
}

customElements.define("pg-diff", Diff);
