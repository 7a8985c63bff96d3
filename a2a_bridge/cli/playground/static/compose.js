// The tab Compose: a request, where it goes, and what comes back.

import "./callview.js";
import "./cells.js";
import "./editor.js";
import { Call } from "./call.js";
import { Component, button, field, h, problem, select } from "./dom.js";
import { session } from "./session.js";

const MESSAGES = ["SendMessage", "SendStreamingMessage"];

class Compose extends Component {
  build() {
    this.operation = select(session.program.operations.map((operation) => operation.name), { onchange: () => this.setOperation(this.operation.value) });
    this.stream = h("input", { type: "checkbox", testid: "stream", onchange: () => this.setOperation(MESSAGES[Number(this.stream.checked)]) });
    this.streamLabel = h("label.check", {}, this.stream, "Stream the response");
    this.editor = h("pg-editor", { oninput: () => this.updateLink() });
    this.examples = h("div.chips", { testid: "examples" });
    this.headers = h("textarea.code", { rows: 2, spellcheck: false });
    this.send = button("Send", () => this.start(), { className: "primary", testid: "send", title: "Ctrl+Enter" });
    this.stop = button("Stop", () => this.call.stop(), { testid: "stop", disabled: true });
    this.fault = h("div");
    this.view = h("pg-call");
    this.append(
      h("form.panel.compose", { "aria-label": "Request", onsubmit: (event) => event.preventDefault(), onkeydown: (event) => this.key(event) },
        field("Operation", this.operation, { testid: "operation" }), this.streamLabel,
        this.editor, this.examples, h("pg-cells"),
        h("details", {}, h("summary", {}, "Headers"),
          field("Headers", this.headers, { testid: "headers", hint: "A line each: name: value. Values are not kept in the history." })),
        this.fault,
        h("div.row", {}, this.send, this.stop, h("small", {}, h("kbd", {}, "Ctrl"), "+", h("kbd", {}, "Enter")))),
      this.view);
    const { link } = session;
    this.setOperation(session.operation(link.get("operation")) ? link.get("operation") : "SendMessage");
    if (link.get("text") && this.editor.request.message) this.setText(link.get("text"));
    session.watch(["agent"], () => this.showExamples());
    session.watch(["cells", "agent"], () => (this.send.disabled = this.running || session.cells.size === 0));
    session.addEventListener("compose", ({ detail }) => this.take(detail));
  }

  get running() {
    return Boolean(this.call && !this.call.finished);
  }

  setOperation(name) {
    const isMessage = MESSAGES.includes(name);
    this.operation.value = name;
    this.streamLabel.hidden = !isMessage;
    this.stream.checked = name === MESSAGES[1];
    // Between the two ways to send a message, what was written stays.
    if (!(isMessage && this.editor.request.message)) this.editor.set(withTask(session.operation(name).request));
    this.showExamples();
    this.updateLink();
  }

  setText(text) {
    this.editor.setText(text);
    this.editor.setMode(this.editor.mode);
  }

  showExamples() {
    const skills = this.editor.request.message ? (session.agent?.skills ?? []) : [];
    const texts = skills.flatMap((skill) => skill.examples ?? []).slice(0, 8);
    this.examples.replaceChildren(...texts.map((text) => button(text, () => this.setText(text), { className: "chip", title: "An example of the card" })));
  }

  updateLink() {
    session.setLink({ operation: this.operation.value, text: this.editor.textPart()?.text ?? "" });
  }

  /** Takes a request from another tab: all of it, or that a message is a reply to a task. */
  async take({ operation, request, cells, agent, reply, webhook }) {
    if (agent && agent !== session.agentName) await session.chooseAgent(agent);
    if (operation) this.setOperation(operation);
    if (reply || webhook) this.setOperation(MESSAGES.includes(this.operation.value) ? this.operation.value : MESSAGES[0]);
    const next = structuredClone(request ?? this.editor.request);
    // A message that is sent again with its id counts as a repetition; without one, each call gets another.
    delete next.message?.messageId;
    if (reply) Object.assign(next.message, reply);
    if (webhook) next.configuration = { ...next.configuration, taskPushNotificationConfig: { url: webhook } };
    this.editor.set(next);
    if (cells) session.setCells(cells.filter((id) => session.allCells().includes(id)));
    this.updateLink();
    session.announce("tab", "compose");
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.start();
    }
  }

  async start() {
    if (this.send.disabled || !this.editor.valid) return;
    this.fault.replaceChildren();
    const { request } = this.editor;
    let headers;
    try {
      headers = headersOf(this.headers.value);
    } catch (error) {
      this.fault.replaceChildren(problem(error));
      return;
    }
    this.call = Call.start({ agent: session.agentName, operation: this.operation.value, request: structuredClone(request), cells: session.chosenCells(), headers });
    this.setRunning();
    this.view.show(this.call);
    await this.call.end();
    this.setRunning();
  }

  setRunning() {
    this.send.disabled = this.running || session.cells.size === 0;
    this.stop.disabled = !this.running;
  }
}

/** An example with the task of the deep link in it. */
function withTask(example) {
  const task = session.link.get("task");
  const request = structuredClone(example);
  if (task && "id" in request && !("taskId" in request)) request.id = task;
  if (task && "taskId" in request) request.taskId = task;
  return request;
}

/** Lines of `name: value` as an object. Throws an Error that names the line at fault. */
function headersOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const [, name, value] = line.match(/^([^\s:]+)\s*:\s*(.*)$/) ?? [];
    if (!name) throw new Error(`not a header: “${line}”; write name: value`);
    return [name, value];
  }));
}

customElements.define("pg-compose", Compose);
