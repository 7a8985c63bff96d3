// A call on the page: columns, and below them timeline, frames, differences, and the call as a command.

import "./diff.js";
import "./equivalent.js";
import "./frames.js";
import "./results.js";
import "./tabs.js";
import "./timeline.js";
import { verdict } from "./call.js";
import { Component, counted, h, problem } from "./dom.js";

class CallView extends Component {
  build() {
    this.status = h("p.status", { role: "status", testid: "status" });
    this.notes = h("div");
    this.results = h("pg-results");
    this.tabs = h("pg-tabs", { hidden: true });
    this.append(h("h2.hidden", {}, "Results"), this.status, this.notes, this.results, this.tabs);
    const lazily = (name) => {
      const content = h(name);
      content.shown = () => this.call && content.isConnected && content.show(this.call);
      return content;
    };
    this.tabs.fill("The call in detail", [
      { id: "timeline", label: "Timeline", content: lazily("pg-timeline") },
      { id: "frames", label: "Frames", content: lazily("pg-frames") },
      { id: "diff", label: "Differences", content: lazily("pg-diff") },
      { id: "copy", label: "Copy as", content: lazily("pg-equivalent") },
    ]);
  }

  show(call) {
    this.call = call;
    this.tabs.hidden = false;
    this.results.show(call);
    this.status.textContent = call.finished ? summary(call) : `${call.head.call}: sent over ${counted(call.head.cells.length, "cell")} …`;
    call.addEventListener("change", () => this.call === call && this.update());
    call.addEventListener("end", () => this.call === call && (this.status.textContent = summary(call)));
    this.update();
  }

  update() {
    const { call } = this;
    this.results.update();
    this.notes.replaceChildren(...[
      call.error && problem(call.error),
      call.cut && h("p.warn", { testid: "cut" }, `⚠ ${call.cut}`),
      call.dropped > 0 && h("p.warn", { testid: "dropped" }, `⚠ ${call.dropped} further lines are not shown; the exported record has them`),
    ].filter(Boolean));
    // A command does not change with what arrives.
    if (this.tabs.chosen !== "copy" || call.finished) this.tabs.choose(this.tabs.chosen);
  }
}

function summary(call) {
  const lanes = call.ordered().filter((lane) => lane.hop === "client");
  if (call.error) return `${call.head.call}: not done`;
  if (call.stopped) return `${call.head.call}: stopped`;
  const failed = lanes.filter((lane) => lane.end?.error).length;
  const compared = lanes.filter((lane) => lane.comparison).map((lane) => verdict(lane).word);
  const equal = compared.length > 1 && compared.every((word) => word === "equal" || word === "reference");
  const different = compared.filter((word) => word === "lost").length;
  return [
    `${call.head.call}: ${counted(lanes.length, "cell")} done`,
    failed ? `${failed} failed` : "",
    equal ? "all equal" : "",
    different ? `${different} different` : "",
  ].filter(Boolean).join(", ");
}

customElements.define("pg-call", CallView);
