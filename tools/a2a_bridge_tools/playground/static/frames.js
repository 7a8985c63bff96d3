// The traffic of a lane in three views: as it was on the wire, decoded to JSON in the shapes of its version,
// and as the core of the bridge sees it, which is the JSON of 1.0.

import { Component, duration, field, h, jsonText, longText, pairs, present, segments, select,
  setOptions } from "./dom.js";

/** The views, and what each shows. */
export const VIEWS = [
  ["wire", "On the wire", "The bytes that were sent and received, as text."],
  ["decoded", "As JSON", "The same as JSON, in the shapes of the version of this interface."],
  ["core", "In A2A 1.0", "What the bridge made of it: the messages of A2A 1.0, into which every version is translated."],
];

/** What a view shows. */
export function aboutView(view) {
  return VIEWS.find(([value]) => value === view)[2];
}

/** The frames of a call; one lane at a time. */
class Frames extends Component {
  build() {
    this.view = "wire";
    this.lane = select([], { onchange: () => this.update() });
    this.about = h("p.legend", { testid: "about-view" }, aboutView(this.view));
    const views = segments("View", VIEWS, (view) => {
      this.view = view;
      this.about.textContent = aboutView(view);
      this.update();
    });
    this.list = h("div.frames");
    this.append(h("div.row", field("Interface", this.lane, "frames-lane"), views), this.about, this.list);
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
 * The frames of a lane as elements, with closed headers.
 * @param {"wire"|"decoded"|"core"} view
 * @param {object} request in the JSON of 1.0, for the core
 */
export function laneFrames(lane, view, request) {
  return lanePieces(lane, view, request, false).map(({ make }) => make());
}

/** Elements that are not made yet, with the number of frames in each. */
function lanePieces(lane, view, request, open = true) {
  const after = (at) => at - lane.begin;
  if (view === "core") {
    const error = lane.end?.error;
    const makers = [
      () => frameView("request", undefined, "", [jsonText(request)]),
      ...lane.events.map(({ at, event, id }) => () =>
        frameView("response", after(at), id && `event ${id}`, [jsonText(event)])),
      error && (() => frameView("error", after(lane.end.at), error.code, [jsonText(error)])),
    ];
    return present(makers).map((make) => ({ size: 1, make }));
  }
  return exchanges(lane.frames).map((group) => {
    const [{ at, head = "", headers = [], sent }] = group;
    const label = sent ? "request" : head.startsWith("grpc-status") ? "trailers" : "response";
    const bodies = () => (view === "wire" ? group.map((frame) => wireBody(frame, lane)) : decodedBody(group));
    const make = () =>
      frameView(label, after(at), head, [headersView(headers, label, view, open), ...bodies()]);
    return { size: group.length, make };
  });
}

/** Frames with those that continue them. */
function exchanges(frames) {
  const groups = [];
  for (const frame of frames) {
    if (frame.head || groups.at(-1)?.[0].sent !== frame.sent) groups.push([frame]);
    else groups.at(-1).push(frame);
  }
  return groups;
}

function frameView(label, at, head, content) {
  const time = at !== undefined && h("span.time", `+${duration(at)}`);
  return h("article.frame", { testid: "frame", "data-label": label },
    h("h4", h("span.badge.plain", label), " ", h("code", head), time), content);
}

function headersView(headers, label, view, open) {
  if (headers.length === 0) return null;
  const name = label === "trailers" ? "Trailers" : "Headers";
  const shown = headers.map(([key, value]) =>
    [key, view === "decoded" && key.endsWith("-bin") ? printable(value) : value]);
  return h("details", { open: open || label === "trailers" },
    h("summary", `${name} (${headers.length})`), pairs("headers", shown));
}

/** The texts in hexadecimal bytes, such as those of a google.rpc.Status. */
function printable(hex) {
  if (!/^([0-9a-f]{2})+$/.test(hex)) return hex;
  const bytes = Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));
  return new TextDecoder().decode(bytes).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, " · ").trim();
}

function wireBody({ at, head, body, base64 }, lane) {
  // The time of a frame that continues another one.
  const time = !head && h("small.time", `+${duration(at - lane.begin)}`);
  if (base64 !== undefined) return h("div", time, longText(base64, { title: "base64" }));
  if (!body) return null;
  const view = h("div", time, longText(body));
  if (/^:/m.test(body)) greyComments(view.querySelector("pre"));
  return view;
}

/** Comments of an event stream are heartbeats: they carry nothing. */
function greyComments(pre) {
  const lines = pre.textContent.split(/(?<=\n)/);
  pre.replaceChildren(...lines.map((line) => (line.startsWith(":") ? h("span.heartbeat", line) : line)));
}

function decodedBody(group) {
  const messages = group.filter((frame) => frame.message);
  if (messages.length) return messages.map((frame) => jsonText(frame.message));
  // Chunks end anywhere, also within an event.
  const body = group.map((frame) => frame.body ?? "").join("");
  const contentType = (group[0].headers ?? []).find(([name]) => name.toLowerCase() === "content-type")?.[1];
  if (!body) return [];
  return (contentType?.includes("event-stream") ? eventData(body) : [body]).map(readable);
}

/** The data of each event of a text/event-stream. */
function eventData(body) {
  const dataOf = (block) =>
    block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
  return body.split(/\r?\n\r?\n/).map(dataOf).filter(Boolean);
}

function readable(text) {
  try {
    return jsonText(JSON.parse(text));
  } catch {
    return longText(text); // it need not be JSON
  }
}

customElements.define("pg-frames", Frames);
