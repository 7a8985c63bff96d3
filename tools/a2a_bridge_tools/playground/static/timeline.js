// The times of a call: one lane per row, on one scale, and the same as a table.

import { Component, counted, duration, h, row, table } from "./dom.js";

const COLUMNS = ["Lane", "Began", "First byte", "Events", "Last", "Outcome"];

class Timeline extends Component {
  build() {
    this.lanes = h("div");
    this.times = h("div");
    this.append(this.lanes,
      h("p.legend", "│ sent or received   ◆ first byte   ■ last event or end"),
      h("details", h("summary", { testid: "times" }, "Times as a table"), this.times));
  }

  show(call) {
    const lanes = call.ordered();
    const whole = Math.max(0.001, ...lanes.map((lane) => lane.last));
    const marks = ["0", duration(whole / 2), duration(whole)].map((time) => h("span", time));
    this.lanes.replaceChildren(
      ...lanes.map((lane) => laneRow(lane, whole)), h("p.scale", { "aria-hidden": "true" }, marks));
    const rows = lanes.map((lane) => {
      const { begin, firstByte, events, last } = lane;
      const cells = [duration(begin), duration(firstByte), events.length, duration(last), ending(lane)];
      return row("time-row", lane.name, cells);
    });
    this.times.replaceChildren(table("Times", COLUMNS, rows));
  }
}

const ending = ({ end }) => (end ? end.error?.code || end.state || "ended" : "open");

function laneRow(lane, whole) {
  const { name, hop, begin, firstByte, last, frames, events, end } = lane;
  const spoken = [
    `${name}: began after ${duration(begin)}`, `first byte after ${duration(firstByte)}`,
    counted(events.length, "event"), `last after ${duration(last)}`, ending(lane),
  ].join(", ");
  const track = h("div.track", { role: "img", "aria-label": spoken, testid: "track" });
  const place = (className, from, to = from) => {
    const mark = h(`i.${className}`);
    mark.style.left = `${(100 * from) / whole}%`;
    if (to > from) mark.style.width = `${(100 * (to - from)) / whole}%`;
    track.append(mark);
  };
  place("span", begin, last);
  for (const { sent, at } of frames) place(sent ? "sent" : "received", at);
  if (firstByte !== undefined) place("first", firstByte);
  if (end) place(end.error ? "failed" : "last", last);
  return h("div.lane", { testid: "lane", "data-hop": hop }, h("span", name), track);
}

customElements.define("pg-timeline", Timeline);
