// The columns of a call: one per lane, filled while events arrive.

import { describe, outcome, partsView, stateBadge, taskView } from "./content.js";
import { Component, button, counted, duration, h, jsonText } from "./dom.js";
import { session } from "./session.js";
import { verdict } from "./call.js";

class Results extends Component {
  build() {
    this.columns = new Map();
    this.every = h("input", { type: "checkbox", onchange: () => this.update(), testid: "every-upstream" });
    this.everyLabel = h("label.check", { hidden: true }, this.every, "the upstream hop of every cell");
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
    const upstream = lanes.filter((lane) => lane.hop !== "client");
    this.everyLabel.hidden = upstream.length < 2;
    for (const lane of lanes) {
      if (!this.columns.has(lane.key)) this.columns.set(lane.key, new Column(lane));
      const column = this.columns.get(lane.key);
      column.element.hidden = lane.hop !== "client" && lane !== upstream[0] && !this.every.checked;
      column.update(this.call);
    }
    const elements = lanes.map((lane) => this.columns.get(lane.key).element);
    // A lane that comes later takes its place beside its cell; elements in place keep focus and open details.
    elements.forEach((element, place) => {
      if (this.grid.children[place] !== element) this.grid.insertBefore(element, this.grid.children[place] ?? null);
    });
  }
}

class Column {
  constructor(lane) {
    this.lane = lane;
    this.rows = [];
    this.head = h("p.facts");
    this.result = h("div.result", { testid: "result" });
    this.events = h("ol.events");
    this.actions = h("p.actions");
    this.mark = h("span.mark", { testid: "mark" });
    this.element = h("section.column", { testid: "column", "aria-label": lane.name, "data-cell": lane.cell, "data-hop": lane.hop },
      h("h3", {}, lane.cell, lane.hop !== "client" && h("span.badge.plain", {}, "upstream"), this.mark),
      this.head, this.result, this.actions, this.events);
  }

  update(call) {
    const { lane } = this;
    const { end, firstByte } = lane;
    const known = `${lane.events.length} ${lane.frames.length} ${Boolean(end)} ${Boolean(lane.comparison)} ${call.finished}`;
    if (known === this.known) return;
    this.known = known;
    const { task, message } = outcome(lane.events);
    const [first] = lane.events;
    const state = end?.state || describe(task ?? {}).state || (first && describe(first.event).kind);
    this.head.replaceChildren(
      end?.error ? h("span.badge.bad", { testid: "state" }, "error") : stateBadge(state || (call.finished ? "no response" : "waiting")),
      h("span", {}, firstByte === undefined ? "" : `first byte ${duration(firstByte - lane.begin)}`),
      h("span", {}, end ? `end ${duration(end.seconds)}` : ""),
      h("span", {}, counted(lane.events.length, "event")),
    );
    this.result.replaceChildren(end?.error ? errorView(end.error) : task ? taskView(task) : partsView(message?.parts));
    this.addEvents();
    this.actions.replaceChildren(...(task ? actionsOf(task, lane) : []));
    if (lane.comparison && call.lanes.size > 1) this.showMark(verdict(lane));
  }

  /** Times count from the beginning, which is known for sure at the end only. */
  addEvents() {
    const { events, begin } = this.lane;
    for (const event of events.slice(this.rows.length)) {
      const time = h("span.time");
      this.rows.push(time);
      this.events.append(eventRow(event, time));
    }
    this.rows.forEach((time, place) => (time.textContent = `+${duration(events[place].at - begin)}`));
  }

  showMark({ sign, tone, text, word }) {
    this.mark.className = `mark ${tone}`;
    this.mark.textContent = sign || word;
    this.mark.title = text;
  }
}

function errorView({ code, message, hint }) {
  return h("div.bad", { testid: "error" }, h("b", {}, code), ` ${message}`, hint && h("p", {}, hint));
}

function eventRow({ event, id, gap }, time) {
  const { kind, state, text } = describe(event);
  return h("li", { testid: "event", "data-id": id ?? "" },
    gap && h("p.warn", { testid: "gap" }, "⚠ events before this one are lost"),
    h("details", {},
      h("summary", {},
        h("span.number", {}, id || "·"), time,
        h("b", {}, kind), state && ` ${state}`, text && h("span.preview", {}, ` ${text.slice(0, 200)}`)),
      jsonText(event)));
}

function actionsOf(task, lane) {
  if (lane.hop !== "client") return [];
  const reply = { taskId: task.id, contextId: task.contextId };
  const open = /^(input|auth)-required$/.test(describe(task).state);
  return [
    button("Open task", () => session.announce("task", { id: task.id, cell: lane.cell }), { className: "quiet", testid: "open-task" }),
    open && button("Reply", () => session.announce("compose", { reply, cells: [lane.cell] }), { className: "quiet", testid: "reply" }),
  ].filter(Boolean);
}

customElements.define("pg-results", Results);
