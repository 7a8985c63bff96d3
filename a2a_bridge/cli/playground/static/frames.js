// The traffic of a lane in three views: as it was on the wire, decoded to JSON in the shapes of its version,
// and as the core of the bridge sees it, which is the JSON of 1.0.

import { Component, duration, field, h, jsonText, longText, segments, select, setOptions } from "./dom.js";

/** The frames of a call; one lane at a time. */
class Frames extends Component {
  build() {
    this.view = "wire";
    this.lane = select([], { onchange: () => this.update() });
    this.list = h("div.frames");
    this.append(
      h("div.row", {}, field("Lane", this.lane, { testid: "frames-lane" }),
        segments("View", ["wire", "decoded", "core"], (view) => {
          this.view = view;
          this.update();
        })),
      this.list);
  }

  show(call) {
    this.call = call;
    setOptions(this.lane, call.ordered().map((lane) => [lane.key, lane.name]));
    this.update();
  }

  /** Adds what is new, so that open details and the focus stay while a stream goes on. */
  update() {
    const lane = this.call?.lanes.get(this.lane.value);
    const pieces = lane ? lanePieces(lane, this.view, this.call.head.request) : [];
    if (lane !== this.shownLane || this.view !== this.shownView) {
      [this.shownLane, this.shownView, this.sizes] = [lane, this.view, []];
      this.list.replaceChildren();
    }
    pieces.forEach(({ size, make }, place) => {
      if (this.sizes[place] === size) return;
      if (place < this.sizes.length) this.list.children[place].replaceWith(make());
      else this.list.append(make());
      this.sizes[place] = size;
    });
  }
}

/**
 * The frames of a lane as elements.
 * @param {"wire"|"decoded"|"core"} view
 * @param {object} request in the JSON of 1.0, for the core
 */
export function laneFrames(lane, view, request) {
  return lanePieces(lane, view, request).map(({ make }) => make());
}

/** Elements that are not made yet, with the number of frames in each. */
function lanePieces(lane, view, request) {
  const after = (at) => at - lane.begin;
  if (view === "core") {
    const error = lane.end?.error;
    return [
      () => frameView("request", undefined, "", [jsonText(request)]),
      ...lane.events.map(({ at, event, id }) => () =>
        frameView("response", after(at), id && `event ${id}`, [jsonText(event)])),
      ...(error ? [() => frameView("error", after(lane.end.at), error.code, [jsonText(error)])] : []),
    ].map((make) => ({ size: 1, make }));
  }
  return exchanges(lane.frames).map((group) => {
    const [{ at, head = "", headers = [] }] = group;
    const label = labelOf(group);
    const make = () =>
      frameView(label, after(at), head, [
        headers.length > 0 && headersView(headers, label === "trailers" ? "Trailers" : "Headers", view),
        ...(view === "wire" ? group.map((frame) => wireBody(frame, lane)) : decodedBody(group)),
      ]);
    return { size: group.length, make };
  });
}

/** Frames with those that continue them. */
export function exchanges(frames) {
  const groups = [];
  for (const frame of frames) {
    if (frame.head || groups.length === 0 || groups.at(-1)[0].sent !== frame.sent) groups.push([frame]);
    else groups.at(-1).push(frame);
  }
  return groups;
}

function labelOf([{ sent, head = "" }]) {
  if (sent) return "request";
  return /^grpc-status/.test(head) ? "trailers" : "response";
}

function frameView(label, at, head, content) {
  return h("article.frame", { testid: "frame", "data-label": label },
    h("h4", {}, h("span.badge.plain", {}, label), " ", h("code", {}, head), at !== undefined && h("span.time", {}, `+${duration(at)}`)),
    ...content.filter(Boolean));
}

function headersView(headers, name, view) {
  const shown = ([key, value]) => (view === "decoded" && key.endsWith("-bin") ? printable(value) : value);
  return h("details", { open: headers.length <= 12 }, h("summary", {}, `${name} (${headers.length})`),
    h("dl.headers", {}, headers.flatMap((header) => [h("dt", {}, header[0]), h("dd", {}, shown(header))])));
}

/** The texts in hexadecimal bytes, such as those of a google.rpc.Status. */
function printable(hex) {
  if (!/^([0-9a-f]{2})+$/.test(hex)) return hex;
  const bytes = Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));
  return new TextDecoder().decode(bytes).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, " · ").trim();
}

function wireBody(frame, lane) {
  if (frame.base64 !== undefined) return h("div", {}, later(frame, lane), longText(frame.base64, { title: "base64" }));
  if (!frame.body) return null;
  const pre = h("div", {}, later(frame, lane), longText(frame.body));
  if (/^:/m.test(frame.body)) greyComments(pre.querySelector("pre"));
  return pre;
}

/** The time of a frame that continues another one. */
function later(frame, lane) {
  return frame.head ? null : h("small.time", {}, `+${duration(frame.at - lane.begin)}`);
}

/** Comments of an event stream are heartbeats: they carry nothing. */
function greyComments(pre) {
  const lines = pre.textContent.split(/(?<=\n)/);
  pre.replaceChildren(...lines.map((line) => (line.startsWith(":") ? h("span.heartbeat", {}, line) : line)));
}

function decodedBody(group) {
  const messages = group.filter((frame) => frame.message);
  if (messages.length) return messages.map((frame) => jsonText(frame.message));
  // Chunks end anywhere, also within an event.
  const body = group.map((frame) => frame.body ?? "").join("");
  if (!body) return [];
  const isStream = (group[0].headers ?? []).some(([name, value]) => /^content-type$/i.test(name) && /event-stream/.test(value));
  return (isStream ? eventData(body) : [body]).map(readable);
}

/** The data of each event of a text/event-stream. */
export function eventData(body) {
  return body
    .split(/\r?\n\r?\n/)
    .map((block) => block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n"))
    .filter(Boolean);
}

function readable(text) {
  try {
    return jsonText(JSON.parse(text));
  } catch {
    return longText(text); // it need not be JSON
  }
}

customElements.define("pg-frames", Frames);
