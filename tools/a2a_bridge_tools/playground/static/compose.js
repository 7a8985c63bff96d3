// The tab Compose: a request, where it goes, and what comes back.

import "./callview.js";
import "./cells.js";
import "./editor.js";
import { Call } from "./call.js";
import { Component, button, field, h, problem, select } from "./dom.js";
import { session } from "./session.js";

/** The two ways to send a message: whole response, or stream */
const MESSAGES = ["SendMessage", "SendStreamingMessage"];
const HEADERS_HINT = "A line each: name: value. Values are not kept in the history.";

class Compose extends Component {
  build() {
    const [operation, text] = ["operation", "text"].map((name) => session.link.get(name));
    const names = session.program.operations.map((operation) => operation.name);
    this.operation = select(names, { onchange: () => this.setOperation(this.operation.value) });
    this.stream = h("input", { type: "checkbox", testid: "stream" });
    this.stream.onchange = () => this.setOperation(MESSAGES[Number(this.stream.checked)]);
    this.streamLabel = h("label.check", this.stream, "Stream the response");
    this.editor = h("pg-editor", { oninput: () => this.updateLink() });
    this.examples = h("div.chips", { testid: "examples" });
    this.headers = h("textarea.code", { rows: 2, spellcheck: false });
    this.send = button("Send", "send", () => this.start(), { kind: "primary", title: "Ctrl+Enter" });
    this.stop = button("Stop", "stop", () => this.call.stop());
    this.fault = h("div");
    this.view = h("pg-call", { hidden: true });
    this.intro = h("section.panel", { "aria-label": "What Send does", testid: "intro" });
    this.append(
      h("form.panel", { "aria-label": "Request", onsubmit: (event) => event.preventDefault() },
        field("Operation", this.operation, "operation"), this.streamLabel,
        this.editor, this.examples, h("pg-cells"),
        h("details", h("summary", "Headers"), field("Headers", this.headers, "headers", HEADERS_HINT)),
        this.fault,
        h("div.row", this.send, this.stop, h("small", h("kbd", "Ctrl"), "+", h("kbd", "Enter")))),
      this.intro, this.view);
    this.onkeydown = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.start();
    };
    this.setOperation(session.operation(operation) ? operation : MESSAGES[0]);
    if (text && this.editor.request.message) this.setText(text);
    session.watch(["agent"], () => this.showExamples());
    session.watch(["agent", "cells"], () => this.updateButtons());
    session.watch(["agent", "cells"], () => this.introduce());
    session.addEventListener("compose", ({ detail }) => this.take(detail));
  }

  setOperation(name) {
    const isMessage = MESSAGES.includes(name);
    this.operation.value = name;
    this.streamLabel.hidden = !isMessage;
    this.stream.checked = name === MESSAGES[1];
    // Between the two ways to send a message, what was written stays.
    const isKept = isMessage && this.editor.request.message;
    if (!isKept) this.editor.set(withTask(session.operation(name).request));
    this.showExamples();
    this.updateLink();
  }

  setText(text) {
    this.editor.setText(text);
    this.editor.setMode(this.editor.mode);
  }

  showExamples() {
    const skills = this.editor.request.message ? (session.agent?.skills ?? []) : [];
    const texts = skills.flatMap((skill) => skill.examples).slice(0, 8);
    const chip = (text) => button(text, "example", () => this.setText(text), { kind: "chip" });
    this.examples.replaceChildren(...texts.map(chip));
  }

  /** What Send will show, until there is something. */
  introduce() {
    const count = session.chosenCells().length;
    const example = session.agent?.skills.flatMap((skill) => skill.examples)[0] ?? "hello";
    const start = () => {
      this.setOperation(MESSAGES[Number(this.stream.checked)]);
      this.setText(example);
      this.start();
    };
    const calls = count === 1 ? "one call, over the chosen interface"
      : `${count} calls, one over each chosen interface`;
    this.intro.replaceChildren(
      h("h2", "What Send does"),
      h("p", `It makes ${calls}. Here you will see a row for each: its outcome, its times, and whether its result`
        + " equals that of the first row. Beside the rows: the answer of the chosen one, with its events."),
      h("p", "Below them: when everything was sent and received, the frames as they were on the wire, the"
        + " differences, and the call as a command."),
      h("div.row", button(`Send “${example}”`, "send-example", start, { disabled: count === 0 })));
  }

  updateLink() {
    session.setLink({ operation: this.operation.value, text: this.editor.textPart()?.text });
  }

  /** Takes a request from another tab: all of it, or what makes the message a reply or asks for webhooks. */
  async take({ operation, request, cells, agent, reply, webhook }) {
    if (agent && agent !== session.agentName) await session.chooseAgent(agent);
    this.setOperation(operation ?? MESSAGES[Number(this.stream.checked)]);
    const next = structuredClone(request ?? this.editor.request);
    // A message that is sent again with its id counts as a repetition; without one, each call gets another.
    delete next.message?.messageId;
    if (reply) Object.assign(next.message, reply);
    if (webhook) next.configuration = { ...next.configuration, taskPushNotificationConfig: { url: webhook } };
    this.editor.set(next);
    if (cells) session.setCells(cells);
    session.announce("tab", "compose");
  }

  async start() {
    if (this.send.disabled || !this.editor.valid) return;
    this.fault.replaceChildren();
    try {
      const headers = headersOf(this.headers.value);
      const request = structuredClone(this.editor.request);
      this.call = Call.start(this.operation.value, request, session.chosenCells(), { headers });
    } catch (error) {
      this.fault.replaceChildren(problem(error));
      return;
    }
    this.intro.hidden = true;
    this.view.hidden = false;
    this.view.show(this.call);
    this.updateButtons();
    await this.call.end();
    this.updateButtons();
  }

  updateButtons() {
    const isRunning = Boolean(this.call && !this.call.finished);
    this.send.disabled = isRunning || session.chosenCells().length === 0;
    this.stop.disabled = !isRunning;
  }
}

/** An example with the task of the deep link in it. */
function withTask(example) {
  const task = session.link.get("task");
  const member = "taskId" in example ? "taskId" : "id";
  return task && member in example ? { ...example, [member]: task } : example;
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
