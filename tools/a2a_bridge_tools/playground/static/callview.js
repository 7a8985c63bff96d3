// A call on the page: its results, and below them timeline, frames, differences, and the call as a command.

import "./diff.js";
import "./equivalent.js";
import "./frames.js";
import "./results.js";
import "./tabs.js";
import "./timeline.js";
import { verdict } from "./call.js";
import { describe, outcome } from "./content.js";
import { Component, counted, h, present, problem } from "./dom.js";
import { session } from "./session.js";

const DETAILS = [
  ["timeline", "Timeline", "pg-timeline"],
  ["frames", "Frames", "pg-frames"],
  ["diff", "Differences", "pg-diff"],
  ["copy", "Copy as", "pg-equivalent"],
];

class CallView extends Component {
  build() {
    this.status = h("p.status", { role: "status", testid: "status" });
    this.notes = h("div");
    this.results = h("pg-results");
    this.tabs = h("pg-tabs", { hidden: true });
    this.append(h("h2.hidden", "Results"), this.status, this.notes, this.results, this.tabs);
    this.tabs.fill("The call in detail", DETAILS.map(([id, label, name]) => {
      const content = h(name);
      content.shown = () => this.call && content.show(this.call);
      return [id, label, content];
    }));
  }

  show(call) {
    this.call = call;
    this.tabs.hidden = false;
    this.results.show(call);
    const { call: operation, cells } = call.head;
    this.status.textContent = operation && `${operation}: sent over ${counted(cells.length, "interface")} …`;
    call.addEventListener("change", () => this.call === call && this.update());
    call.addEventListener("end", () => this.call === call && (this.status.textContent = summary(call)));
    call.addEventListener("end", () => noteTasks(call));
    this.update();
  }

  update() {
    const { call } = this;
    const dropped = `⚠ ${call.dropped} further lines are not shown; the exported record has them`;
    this.results.update();
    this.notes.replaceChildren(...present([
      call.error && problem(call.error),
      call.cut && h("p.warn", { testid: "cut" }, `⚠ ${call.cut}`),
      call.dropped > 0 && h("p.warn", { testid: "dropped" }, dropped),
    ]));
    // The call as a command does not change with what arrives.
    if (this.tabs.chosen !== "copy" || call.finished) this.tabs.choose(this.tabs.chosen);
  }
}

function noteTasks(call) {
  if (call.head.agent !== session.agentName) return;
  for (const lane of call.ordered().filter((one) => !one.isUpstream).reverse()) {
    const { task } = outcome(lane.events);
    if (task) session.noteTask({ id: task.id, cell: lane.cell, state: describe({ task }).state });
  }
}

function summary(call) {
  const lanes = call.ordered().filter((lane) => !lane.isUpstream);
  if (call.error) return `${call.head.call}: not done`;
  if (call.stopped) return `${call.head.call}: stopped`;
  const failed = lanes.filter((lane) => lane.end?.error).length;
  const words = lanes.filter((lane) => lane.comparison).map((lane) => verdict(lane).word);
  const equal = words.length > 1 && words.every((word) => word === "equal" || word === "first");
  const lost = words.filter((word) => word === "lost").length;
  return present([
    `${call.head.call}: ${counted(lanes.length, "interface")} done`,
    failed > 0 && `${failed} failed`,
    equal && "all equal",
    lost > 0 && `${lost} different`,
  ]).join(", ");
}

customElements.define("pg-call", CallView);
