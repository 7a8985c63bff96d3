// What came back: one table with a row per lane, filled while events arrive, and beside it the answer of the
// chosen lane.

import { verdict } from "./call.js";
import { describe, eventSummary, outcome, partsView, stateBadge, taskView } from "./content.js";
import { Component, button, counted, duration, h, jsonText, nameCells, present, row, table } from "./dom.js";
import { session } from "./session.js";

const COLUMNS = ["Interface", "Outcome", "First byte", "End", "Result"];

class Results extends Component {
  build() {
    this.lines = new Map();
    /** the key of the lane that was chosen; it stays for the next call */
    this.wanted = "";
    this.every = h("input", { type: "checkbox", onchange: () => this.update(), testid: "every-upstream" });
    this.everyLabel = h("label.check", { hidden: true }, this.every, "the call to the agent behind the gateway, for every interface");
    const region = table("Outcome of each interface", COLUMNS, []);
    this.rows = region.querySelector("tbody");
    this.answer = h("div");
    this.whole = h("div.results", { hidden: true }, region, this.answer);
    this.append(this.everyLabel, this.whole);
  }

  show(call) {
    this.call = call;
    this.lines.clear();
    this.rows.replaceChildren();
    this.answer.replaceChildren();
    this.update();
  }

  choose(key) {
    this.wanted = key;
    this.update();
  }

  update() {
    const lanes = this.call?.ordered() ?? [];
    const upstream = lanes.filter((lane) => lane.isUpstream);
    this.everyLabel.hidden = upstream.length < 2;
    const shown = lanes.filter((lane) => !lane.isUpstream || lane === upstream[0] || this.every.checked);
    const chosen = shown.find((lane) => lane.key === this.wanted) ?? shown[0];
    shown.forEach((lane, place) => {
      if (!this.lines.has(lane.key)) this.lines.set(lane.key, new Line(lane, () => this.choose(lane.key)));
      const line = this.lines.get(lane.key);
      line.update(this.call, lane === chosen);
      // A lane that comes later takes its place beside its cell; those in place keep the focus.
      const there = this.rows.children[place] ?? null;
      if (there !== line.element) this.rows.insertBefore(line.element, there);
    });
    while (this.rows.childElementCount > shown.length) this.rows.lastElementChild.remove();
    this.whole.hidden = !chosen;
    if (chosen) this.showAnswer(this.lines.get(chosen.key).answer);
  }

  showAnswer(answer) {
    answer.update(this.call);
    if (this.answer.firstElementChild !== answer.element) this.answer.replaceChildren(answer.element);
  }
}

/** The row of a lane. */
class Line {
  constructor(lane, choose) {
    this.lane = lane;
    this.answer = new Answer(lane);
    const { cell, isUpstream, name } = lane;
    this.control = button(isUpstream ? "↳ upstream" : cell, "lane-choose", choose, { kind: "quiet", "aria-label": name });
    this.cells = Array.from({ length: 4 }, () => h("span"));
    this.cells[3].dataset.testid = "mark";
    this.element = row("lane-row", this.control, this.cells, { "data-cell": cell, "data-hop": lane.hop, onclick: choose });
    nameCells(this.element, COLUMNS);
  }

  update(call, isChosen) {
    this.control.setAttribute("aria-pressed", String(isChosen));
    this.element.classList.toggle("chosen", isChosen);
    const { frames, events, end, begin, firstByte, comparison } = this.lane;
    const known = [frames.length, events.length, end?.at, Boolean(comparison), call.finished].join();
    if (known === this.known) return;
    this.known = known;
    const [state, first, last, mark] = this.cells;
    state.replaceChildren(this.state(call));
    first.textContent = firstByte === undefined ? "" : duration(firstByte - begin);
    last.textContent = end ? duration(end.at - begin) : "";
    if (!comparison || call.lanes.size === 1) return;
    const { sign, tone, text } = verdict(this.lane);
    mark.className = tone;
    mark.textContent = sign;
    mark.title = text;
  }

  state(call) {
    const { events, end } = this.lane;
    if (end?.error) return h("span.badge.bad", { testid: "state" }, "error");
    if (end?.state) return stateBadge(end.state);
    const { task } = outcome(events);
    const waiting = call.finished ? "no response" : "waiting";
    const kind = events.length ? describe(events[0].event).kind : waiting;
    return stateBadge((task && describe(task).state) || kind);
  }
}

/** What one lane said: its result, and its events. */
class Answer {
  constructor(lane) {
    this.lane = lane;
    /** the elements with the times of the events */
    this.times = [];
    this.count = h("small");
    this.result = h("div.result", { testid: "result" });
    this.events = h("ol.events");
    this.actions = h("p.actions");
    const names = { "aria-label": `Answer over ${lane.name}`, "data-cell": lane.cell, "data-hop": lane.hop };
    this.element = h("section.answer", { testid: "answer", role: "region", tabIndex: 0, ...names },
      h("h3", lane.cell, lane.isUpstream && h("span.badge.plain", "upstream"), this.count),
      this.result, this.actions, this.events);
  }

  update(call) {
    const { events, end, isUpstream, cell } = this.lane;
    const known = [events.length, end?.at, call.finished].join();
    if (known === this.known) return;
    this.known = known;
    const { task, message } = outcome(events);
    this.count.textContent = counted(events.length, "event");
    const content = task ? taskView(task) : partsView(message);
    this.result.replaceChildren(end?.error ? errorView(end.error) : content);
    this.addEvents();
    this.actions.replaceChildren(...(task && !isUpstream ? actionsOf(task, cell) : []));
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
