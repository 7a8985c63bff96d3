// The tab Webhooks: the receiver of this program, its registration for a task, and what it received.

import { askLines } from "./api.js";
import { Call } from "./call.js";
import { eventSummary } from "./content.js";
import { Component, button, copyButton, counted, field, h, jsonText, longText, pairs, problem, select,
  setOptions } from "./dom.js";
import { session } from "./session.js";

/** Deliveries that are shown; older ones make room. */
const SHOWN = 200;
/** Milliseconds before a broken stream is opened again. */
const AGAIN = 2000;

const NOTHING = "Nothing was delivered yet. Register the URL above for a task, or use it in Compose for a new one:"
  + " each notification that the agent sends is shown here, with its headers and its body.";

class Webhooks extends Component {
  build() {
    const url = session.program.webhook;
    this.task = h("input", { autocomplete: "off", spellcheck: false });
    this.cell = select([]);
    this.outcome = h("div", { role: "status", testid: "webhook-outcome" });
    this.count = h("p", { role: "status", testid: "delivery-count" }, NOTHING);
    this.list = h("ol.deliveries");
    /** the number of the newest delivery */
    this.newest = 0;
    const register = button("Register for this task", "webhook-register", () => this.register(url));
    const use = () => session.announce("compose", { webhook: url });
    const useHint = { title: "The message that is sent registers it for its own task" };
    const none = "The card of this agent declares no push notifications (capabilities.pushNotifications).";
    this.without = h("p", { testid: "no-push" }, none);
    this.form = h("div");
    this.append(this.without, this.form);
    this.form.append(
      h("section.panel", { "aria-label": "Receiver" },
        h("p", "Notifications that an agent sends to this URL appear below."),
        h("div.row", h("code", { testid: "webhook-url" }, url), copyButton(url, "webhook-copy"),
          button("Use it in Compose", "webhook-compose", use, useHint)),
        h("div.row",
          field("Task id", this.task, "webhook-task"), field("Interface", this.cell, "webhook-cell"), register),
        this.outcome),
      h("h2", "Deliveries"), this.count, this.list);
    session.watch(["agent"], () => {
      setOptions(this.cell, session.allCells());
      const pushes = Boolean(session.agent?.card.capabilities?.pushNotifications);
      this.form.hidden = !pushes;
      this.without.hidden = pushes || !session.agent;
    });
    this.follow();
  }

  shown() {
    this.task.value ||= session.link.get("task") ?? "";
  }

  async register(url) {
    const request = { taskId: this.task.value.trim(), url };
    const call = await Call.start("CreateTaskPushNotificationConfig", request, [this.cell.value]).end();
    const [lane] = call.ordered();
    const error = call.error ?? lane.end?.error;
    const done = () => h("p.good", `✓ registered ${lane.events[0]?.event.id ?? ""}`);
    this.outcome.replaceChildren(error ? problem(error) : done());
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
    if (delivery.number <= this.newest) return;
    this.newest = delivery.number;
    this.list.prepend(deliveryView(delivery));
    if (this.list.childElementCount > SHOWN) this.list.lastElementChild.remove();
    this.count.textContent = `${counted(this.newest, "notification")}, the newest first.`;
  }
}

function deliveryView({ number, time, headers, body, event }) {
  const clock = new Date(time).toLocaleTimeString("en-GB");
  return h("li", { testid: "delivery", "data-number": number },
    h("details", eventSummary(event, h("span.time", clock)), pairs("headers", headers), longText(body),
      event && h("details", h("summary", "In A2A 1.0"), jsonText(event))));
}

customElements.define("pg-webhooks", Webhooks);
