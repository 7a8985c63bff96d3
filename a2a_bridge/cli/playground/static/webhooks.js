// The tab Webhooks: the receiver of this program, its registration for a task, and what it received.

import { askLines } from "./api.js";
import { Call } from "./call.js";
import { describe } from "./content.js";
import { Component, button, copyButton, field, h, jsonText, longText, problem, select, setOptions } from "./dom.js";
import { session } from "./session.js";

/** Deliveries that are shown; older ones make room. */
const SHOWN = 200;
/** Milliseconds before a broken stream is opened again. */
const AGAIN = 2000;

class Webhooks extends Component {
  build() {
    const url = session.program.webhook;
    if (!url) {
      this.append(h("p", {}, "This program has no receiver of webhooks."));
      return;
    }
    this.task = h("input", { autocomplete: "off", spellcheck: false });
    this.cell = select([]);
    this.outcome = h("div", { role: "status", testid: "webhook-outcome" });
    this.count = h("p", { role: "status", testid: "delivery-count" }, "Nothing was delivered yet.");
    this.list = h("ol.deliveries", { reversed: true });
    this.numbers = new Set();
    this.append(
      h("section.panel", { "aria-label": "Receiver" },
        h("p", {}, "Notifications that an agent sends to this URL appear below."),
        h("div.row", {}, h("code", { testid: "webhook-url" }, url), copyButton(() => url, "Copy", "webhook-copy"),
          button("Use it in Compose", () => session.announce("compose", { webhook: url }), { testid: "webhook-compose", title: "The message that is sent registers it for its own task" })),
        h("div.row", {}, field("Task id", this.task, { testid: "webhook-task" }), field("Cell", this.cell, { testid: "webhook-cell" }),
          button("Register for this task", () => this.register(url), { className: "primary", testid: "webhook-register" })),
        this.outcome),
      h("h2", {}, "Deliveries"), this.count, this.list);
    session.watch(["agent"], () => setOptions(this.cell, session.allCells()));
    this.follow();
  }

  shown() {
    if (this.task) this.task.value ||= session.link.get("task") ?? "";
  }

  async register(url) {
    const taskId = this.task.value.trim();
    const call = Call.start({ agent: session.agentName, operation: "CreateTaskPushNotificationConfig", request: { taskId, url }, cells: [this.cell.value], headers: {} });
    await call.end();
    const [lane] = call.ordered();
    const error = call.error ?? lane?.end?.error;
    this.outcome.replaceChildren(error ? problem(error) : h("p.good", {}, `✓ registered as ${lane.events[0]?.event.id || "a configuration"}`));
  }

  /** Reads the deliveries as long as the page lives. The stream begins with those that are kept. */
  async follow() {
    for (;;) {
      try {
        for await (const delivery of askLines("/api/deliveries")) this.add(delivery);
      } catch (error) {
        this.count.textContent = `The deliveries cannot be read (${error.message}); trying again.`;
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  add(delivery) {
    if (this.numbers.has(delivery.number)) return;
    this.numbers.add(delivery.number);
    this.list.prepend(deliveryView(delivery));
    if (this.list.childElementCount > SHOWN) this.list.lastElementChild.remove();
    this.count.textContent = `${this.numbers.size} delivered, the newest first.`;
  }
}

function deliveryView({ number, time, headers, body, event }) {
  const { kind, state, text } = event ? describe(event) : { kind: "not a notification", state: "", text: "" };
  return h("li", { value: number, testid: "delivery" },
    h("details", {},
      h("summary", {}, h("span.time", {}, timeOf(time)), h("b", {}, kind), state && ` ${state}`, text && h("span.preview", {}, ` ${text.slice(0, 200)}`)),
      h("dl.headers", {}, headers.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      longText(body), event && h("details", {}, h("summary", {}, "As the core sees it"), jsonText(event))));
}

/** 12:30:05 of an ISO time or seconds since 1970 */
function timeOf(time) {
  return new Date(typeof time === "number" ? time * 1000 : time).toLocaleTimeString("en-GB");
}

customElements.define("pg-webhooks", Webhooks);
