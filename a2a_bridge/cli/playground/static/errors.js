// The tab Errors: one bad input over all chosen cells, the error as each of them encodes it, and the one error
// that they mean.

import "./cells.js";
import { Call } from "./call.js";
import { Component, button, field, h, problem, segments, select } from "./dom.js";
import { laneFrames } from "./frames.js";
import { session } from "./session.js";

const NOBODY = "no-such-task";
const text = (members) => ({ message: { role: "ROLE_USER", parts: [{ text: "hello" }], ...members } });

/** Bad inputs: what is wrong, the operation, and the request. */
const INPUTS = [
  ["Read a task that does not exist", "GetTask", () => ({ id: NOBODY })],
  ["Send a message without parts", "SendMessage", () => text({ parts: [] })],
  ["Send a message to a task that does not exist", "SendMessage", () => text({ taskId: NOBODY })],
  ["Cancel a task that does not exist", "CancelTask", () => ({ id: NOBODY })],
  ["Subscribe to a task that does not exist", "SubscribeToTask", () => ({ id: NOBODY })],
  ["List tasks with a page token that nobody gave", "ListTasks", () => ({ pageToken: "no-such-token" })],
  ["List tasks with a page size that is too large", "ListTasks", () => ({ pageSize: 100000 })],
  ["Register a webhook for a task that does not exist", "CreateTaskPushNotificationConfig", () => ({ taskId: NOBODY, url: "https://receiver.example/" })],
  ["Read a webhook of a task that does not exist", "GetTaskPushNotificationConfig", () => ({ taskId: NOBODY, id: "no-such-webhook" })],
];

class Errors extends Component {
  build() {
    this.view = "decoded";
    this.input = select(INPUTS.map(([name], place) => [String(place), name]));
    this.meaning = h("p.status", { role: "status", testid: "meaning" });
    this.columns = h("div.columns");
    this.append(
      h("form.panel", { "aria-label": "Bad input", onsubmit: (event) => event.preventDefault() },
        field("Input", this.input, { testid: "error-input" }), h("pg-cells"),
        h("div.row", {}, button("Send", () => this.run(), { className: "primary", testid: "error-send" }),
          segments("Show", ["decoded", "wire", "core"], (view) => {
            this.view = view;
            this.update();
          }))),
      h("h2.hidden", {}, "Results"), this.meaning, this.columns);
  }

  async run() {
    const [name, operation, request] = INPUTS[Number(this.input.value)];
    this.meaning.textContent = `${name} …`;
    this.call = Call.start({ agent: session.agentName, operation, request: request(), cells: session.chosenCells(), headers: {} });
    await this.call.end();
    this.update();
  }

  update() {
    if (!this.call) return;
    const { call } = this;
    if (call.error) {
      this.meaning.replaceChildren(problem(call.error));
      return;
    }
    const lanes = call.ordered();
    this.meaning.textContent = meaningOf(lanes.filter((lane) => lane.hop === "client"));
    this.columns.replaceChildren(...lanes.map((lane) => this.column(lane, call.head.request)));
  }

  column(lane, request) {
    const error = lane.end?.error;
    return h("section.column", { testid: "error-column", "aria-label": lane.name, "data-cell": lane.cell, "data-hop": lane.hop },
      h("h3", {}, lane.cell, lane.hop !== "client" && h("span.badge.plain", {}, "upstream")),
      error ? h("p", {}, h("span.badge.bad", { testid: "error-code" }, error.code), ` ${error.message}`) : h("p", {}, h("span.badge.good", { testid: "error-code" }, "no error")),
      error?.hint && h("p", {}, error.hint),
      laneFrames(lane, this.view, request));
  }
}

/** One sentence about the errors of all lanes. */
function meaningOf(lanes) {
  const codes = Map.groupBy(lanes, (lane) => lane.end?.error?.code ?? "no error");
  if (codes.size === 1) return `${lanes.length === 1 ? "It means" : `All ${lanes.length} mean`} ${[...codes.keys()][0]}`;
  return [...codes].map(([code, found]) => `${code}: ${found.map((lane) => lane.name).join(", ")}`).join(" · ");
}

customElements.define("pg-errors", Errors);
