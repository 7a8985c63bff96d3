// The columns of a call: one per lane, filled while events arrive.

import { verdict } from "./call.js";
import { describe, eventSummary, outcome, partsView, stateBadge, taskView } from "./content.js";
import { Component, button, counted, duration, h, jsonText, present } from "./dom.js";
import { session } from "./session.js";

class Results extends Component {
  build() {
    this.columns = new Map();
    this.every = h("input", { type: "checkbox", onchange: () => this.update(), testid: "every-upstream" });
    this.everyLabel = h("label.check", { hidden: true }, this.every, "the call to the agent behind the gateway, for every interface");
    this.grid = h("div.columns");
    this.append(this.everyLabel, this.grid);
  }

  show(call) {
    this.call = call;
    this.columns.clear();
    this.grid.replaceChildren();
    this.update();
  }

  update() {
    const lanes = this.call?.ordered() ?? [];
    const upstream = lanes.filter((lane) => lane.isUpstream);
    this.everyLabel.hidden = upstream.length < 2;
    lanes.forEach((lane, place) => {
      if (!this.columns.has(lane.key)) this.columns.set(lane.key, new Column(lane));
      const column = this.columns.get(lane.key);
      const { element } = column;
      element.hidden = lane.isUpstream && lane !== upstream[0] && !this.every.checked;
      column.update(this.call);
      // A lane that comes later takes its place beside its cell; those in place keep focus and open details.
      const there = this.grid.children[place] ?? null;
      if (there !== element) this.grid.insertBefore(element, there);
    });
  }
}

class Column {
  constructor(lane) {
    this.lane = lane;
    /** the elements with the times of the events */
    this.times = [];
    this.head = h("p.facts");
    this.result = h("div.result", { testid: "result" });
    this.events = h("ol.events");
    this.actions = h("p.actions");
    this.mark = h("span.mark", { testid: "mark" });
    const names = { "aria-label": lane.name, "data-cell": lane.cell, "data-hop": lane.hop };
    this.element = h("section.column", { testid: "column", ...names },
      h("h3", lane.cell, lane.isUpstream && h("span.badge.plain", "upstream"), this.mark),
      this.head, this.result, this.actions, this.events);
  }

  update(call) {
    const { frames, events, end, comparison, isUpstream, cell } = this.lane;
    const known = [frames.length, events.length, end?.at, Boolean(comparison), call.finished].join();
    if (known === this.known) return;
    this.known = known;
    const { task, message } = outcome(events);
    this.head.replaceChildren(...this.facts(call, task));
    const content = task ? taskView(task) : partsView(message);
    this.result.replaceChildren(end?.error ? errorView(end.error) : content);
    this.addEvents();
    this.actions.replaceChildren(...(task && !isUpstream ? actionsOf(task, cell) : []));
    if (comparison && call.lanes.size > 1) this.showMark(verdict(this.lane));
  }

  facts(call, task) {
    const { events, end, begin, firstByte } = this.lane;
    const waiting = call.finished ? "no response" : "waiting";
    const kind = events.length ? describe(events[0].event).kind : waiting;
    return present([
      end?.error ? h("span.badge.bad", { testid: "state" }, "error")
        : stateBadge(end?.state || (task && describe(task).state) || kind),
      firstByte !== undefined && h("span", `first byte ${duration(firstByte - begin)}`),
      end && h("span", `end ${duration(end.at - begin)}`),
      h("span", counted(events.length, "event")),
    ]);
  }

  /** Times count from the beginning, which is known for sure at the end only. */
  addEvents() {
    const { events, begin } = this.lane;
    for (const { event, id, gap } of events.slice(this.times.length)) {
      const [number, time] = [h("span.number", { title: id }, shortId(id)), h("span.time")];
      this.times.push(time);
      this.events.append(
        h("li", { testid: "event", "data-id": id },
          gap && h("p.warn", { testid: "gap" }, "⚠ events before this one are lost"),
          h("details", eventSummary(event, number, time), jsonText(event))));
    }
    this.times.forEach((time, place) => (time.textContent = `+${duration(events[place].at - begin)}`));
  }

  showMark({ sign, tone, text }) {
    this.mark.className = `mark ${tone}`;
    this.mark.textContent = sign;
    this.mark.title = text;
  }
}

/** The ids of gateways are long; their ends tell events of a stream apart. */
function shortId(id) {
  return id.length > 5 ? `…${id.slice(-3)}` : id || "·";
}

function errorView({ code, message, hint }) {
  return h("div.bad", { testid: "error" }, h("b", code), ` ${message}`, hint && h("p", hint));
}

function actionsOf(task, cell) {
  const open = () => session.announce("task", { id: task.id, cell });
  const reply = () =>
    session.announce("compose", { reply: { taskId: task.id, contextId: task.contextId }, cells: [cell] });
  const isWaiting = ["input-required", "auth-required"].includes(describe(task).state);
  return present([
    button("Open task", "open-task", open, { kind: "quiet" }),
    isWaiting && button("Reply", "reply", reply, { kind: "quiet" }),
  ]);
}

customElements.define("pg-results", Results);
