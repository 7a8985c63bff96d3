// The tab Errors: one bad input over all chosen cells, the error as each of them encodes it, and the one
// error that they mean.

import "./cells.js";
import { Call } from "./call.js";
import { Component, button, field, h, problem, segments, select } from "./dom.js";
import { VIEWS, aboutView, laneFrames } from "./frames.js";
import { session } from "./session.js";

const id = "no-such-task";
const message = { role: "ROLE_USER", parts: [{ text: "hello" }] };
const url = "https://receiver.example/";

/** Bad inputs: what is wrong, the operation, and the request. */
const INPUTS = [
  ["Read a task that does not exist", "GetTask", { id }],
  ["Send a message without parts", "SendMessage", { message: { ...message, parts: [] } }],
  ["Send a message to a task that does not exist", "SendMessage", { message: { ...message, taskId: id } }],
  ["Cancel a task that does not exist", "CancelTask", { id }],
  ["Subscribe to a task that does not exist", "SubscribeToTask", { id }],
  ["List tasks with a page token that nobody gave", "ListTasks", { pageToken: "no-such-token" }],
  ["List tasks with a page size that is too large", "ListTasks", { pageSize: 100000 }],
  ["Set a webhook for a task that does not exist", "CreateTaskPushNotificationConfig", { taskId: id, url }],
  ["Read a webhook of a task that does not exist", "GetTaskPushNotificationConfig", { taskId: id, id }],
];

const PURPOSE = "Send makes one bad call over each chosen interface. Here you will see how each of them encodes the error,"
  + " and whether all mean the same.";

class Errors extends Component {
  build() {
    this.view = "decoded";
    this.input = select(INPUTS.map(([name], place) => [String(place), name]));
    this.meaning = h("p.status", { role: "status", testid: "meaning" });
    this.columns = h("div.columns", h("p", { testid: "no-errors" }, PURPOSE));
    const [wire, decoded, core] = VIEWS;
    this.about = h("p.legend", aboutView(this.view));
    const views = segments("Show", [decoded, wire, core], (view) => {
      this.view = view;
      this.about.textContent = aboutView(view);
      this.update();
    });
    this.append(
      h("form.panel", { "aria-label": "Bad input", onsubmit: (event) => event.preventDefault() },
        field("Input", this.input, "error-input"), h("pg-cells"),
        h("div.row", button("Send", "error-send", () => this.run(), { kind: "primary" }), views),
        this.about),
      h("h2.hidden", "Results"), this.meaning, this.columns);
  }

  async run() {
    const [name, operation, request] = INPUTS[Number(this.input.value)];
    this.meaning.textContent = `${name} …`;
    this.call = await Call.start(operation, request, session.chosenCells()).end();
    this.update();
  }

  update() {
    if (!this.call) return;
    const { error, head } = this.call;
    const lanes = this.call.ordered();
    const columns = lanes.map((lane) => column(lane, this.view, head.request));
    const meaning = () => meaningOf(lanes.filter((lane) => !lane.isUpstream));
    this.meaning.replaceChildren(error ? problem(error) : meaning());
    this.columns.replaceChildren(...(error ? [] : columns));
  }
}

function column(lane, view, request) {
  const error = lane.end?.error;
  const names = { "aria-label": lane.name, "data-cell": lane.cell, "data-hop": lane.hop };
  const code = h(`span.badge.${error ? "bad" : "good"}`, { testid: "error-code" }, error?.code ?? "no error");
  return h("section.column", { testid: "error-column", ...names },
    h("h3", lane.cell, lane.isUpstream && h("span.badge.plain", "upstream")),
    h("p", code, ` ${error?.message ?? ""}`), error?.hint && h("p", error.hint),
    laneFrames(lane, view, request));
}

/** One sentence about the errors of all lanes. */
function meaningOf(lanes) {
  const codes = Map.groupBy(lanes, (lane) => lane.end?.error?.code ?? "no error");
  const [[code]] = codes;
  if (codes.size === 1) return lanes.length === 1 ? `It means ${code}` : `All ${lanes.length} mean ${code}`;
  const part = ([one, found]) => `${one}: ${found.map((lane) => lane.name).join(", ")}`;
  return [...codes].map(part).join(" · ");
}

customElements.define("pg-errors", Errors);
