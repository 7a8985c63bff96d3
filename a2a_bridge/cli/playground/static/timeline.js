// The times of a call: one lane per row, on one scale, and the same as a table.

import { Component, duration, h, table } from "./dom.js";

class Timeline extends Component {
  build() {
    this.lanes = h("div.lanes");
    this.times = h("div");
    this.append(this.lanes,
      h("p.legend", {}, "│ sent or received   ◆ first byte   ■ last event or end"),
      h("details", {}, h("summary", { testid: "times" }, "Times as a table"), this.times));
  }

  show(call) {
    const lanes = call.ordered();
    const whole = Math.max(0.001, ...lanes.map((lane) => lane.last));
    this.lanes.replaceChildren(
      ...lanes.map((lane) => laneRow(lane, whole)),
      h("p.scale", { "aria-hidden": "true" }, h("span", {}, "0"), h("span", {}, duration(whole / 2)), h("span", {}, duration(whole))));
    this.times.replaceChildren(table("Times", ["Lane", "Began", "First byte", "Events", "Last", "Outcome"],
      lanes.map((lane) => h("tr", {}, h("th", { scope: "row" }, lane.name),
        [duration(lane.begin), duration(lane.firstByte), lane.events.length, duration(lane.last), ending(lane)].map((cell) => h("td", {}, cell))))));
  }
}

const ending = (lane) => lane.end?.error?.code || lane.end?.state || "open";

function laneRow(lane, whole) {
  const spoken = `${lane.name}: began after ${duration(lane.begin)}, first byte after ${duration(lane.firstByte)}, ` +
    `${lane.events.length} events, last after ${duration(lane.last)}, ${ending(lane)}`;
  const track = h("div.track", { role: "img", "aria-label": spoken, testid: "track" });
  const place = (className, from, to = from) => {
    const mark = h(`i.${className}`);
    mark.style.left = `${(100 * from) / whole}%`;
    if (to > from) mark.style.width = `${(100 * (to - from)) / whole}%`;
    track.append(mark);
  };
  place("span", lane.begin, lane.last);
  for (const frame of lane.frames) place(frame.sent ? "sent" : "received", frame.at);
  if (lane.firstByte !== undefined) place("first", lane.firstByte);
  if (lane.end) place(lane.end.error ? "failed" : "last", lane.last);
  return h("div.lane", { testid: "lane", "data-hop": lane.hop }, h("span.name", {}, lane.name), track);
}

customElements.define("pg-timeline", Timeline);
