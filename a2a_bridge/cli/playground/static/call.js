// One call as the page knows it: lines of the program become lanes. A lane is one cell on one hop: between
// the page's program and the agent or gateway (`client`), or behind a gateway (`upstream`).

import { askLines } from "./api.js";

/** Lines of one call that the page keeps; the record of the program may have more. */
const MOST_LINES = 2000;
/** Milliseconds between two notices of change. */
const NOTICE = 100;

/**
 * @typedef {{at: number, sent: boolean, head?: string, headers?: [string, string][], body?: string,
 *   base64?: string, message?: object}} Frame a piece of traffic; without head it continues the one before
 * @typedef {{at: number, event: object, id: string, gap: boolean}} CallEvent a message in the JSON of 1.0
 */
class Lane {
  /** @type {Frame[]} */
  frames = [];
  /** @type {CallEvent[]} */
  events = [];
  /** how it ended: {seconds, error, state}, with `at` */
  end = null;
  /** {verdict, differences} beside the first lane */
  comparison = null;

  constructor(cell, hop) {
    this.cell = cell;
    this.hop = hop;
    this.name = hop === "client" ? cell : `${cell}, upstream`;
    this.key = `${cell}|${hop}`;
  }

  /** Seconds into the call when it began. Until the end says it, that is when the first thing was seen. */
  get begin() {
    if (this.end) return Math.max(0, this.end.at - this.end.seconds);
    return this.hop === "client" ? 0 : (this.frames[0]?.at ?? this.events[0]?.at ?? 0);
  }

  /** Seconds into the call when the first byte of the response came; undefined before. */
  get firstByte() {
    return (this.frames.find((frame) => !frame.sent) ?? this.events[0])?.at;
  }

  /** Seconds into the call of the last thing that is known. */
  get last() {
    return Math.max(this.begin, this.end?.at ?? 0, this.frames.at(-1)?.at ?? 0, this.events.at(-1)?.at ?? 0);
  }
}

export class Call extends EventTarget {
  /** the first line: call, request, cells, agent, time */
  head = { call: "", request: {}, cells: [], agent: "" };
  /** @type {Map<string, Lane>} */
  lanes = new Map();
  finished = false;
  stopped = false;
  /** an ApiError when the program refused the call or went away */
  error = null;
  /** why further frames were not recorded */
  cut = "";
  /** lines that the page did not keep */
  dropped = 0;
  #kept = 0;
  #abort = new AbortController();
  #notice = 0;

  /** A call that is on its way. body: as `POST /api/calls` takes it. */
  static start(body) {
    const call = new Call();
    call.headers = body.headers ?? {};
    call.head = { call: body.operation, request: body.request, cells: body.cells, agent: body.agent };
    call.#read("/api/calls", { method: "POST", body });
    return call;
  }

  /** A call of the history. */
  static open(number) {
    const call = new Call();
    call.#read(`/api/history/${number}`, {});
    return call;
  }

  stop() {
    this.stopped = true;
    this.#abort.abort();
  }

  /** Resolves when there will be no further lines. */
  async end() {
    if (!this.finished) await new Promise((done) => this.addEventListener("end", done, { once: true }));
    return this;
  }

  /** The lanes of clients, each followed by that behind its gateway. */
  ordered() {
    const all = [...this.lanes.values()];
    const upstream = (lane) => all.filter((other) => other.hop !== "client" && other.cell === lane.cell);
    return all.filter((lane) => lane.hop === "client").flatMap((lane) => [lane, ...upstream(lane)]);
  }

  async #read(path, options) {
    try {
      for await (const line of askLines(path, { ...options, signal: this.#abort.signal })) this.#add(line);
    } catch (error) {
      if (!this.stopped) this.error = error;
    }
    this.finished = true;
    clearTimeout(this.#notice);
    this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("end"));
  }

  #add(line) {
    if (line.call) {
      // Records of commands name no cells here.
      this.head = { ...this.head, ...line };
      for (const cell of this.head.cells) this.#lane({ cell, hop: "client" });
    } else if (line.comparison) {
      for (const one of line.comparison) this.#lane(one).comparison = one;
    } else if (line.cut) {
      this.cut = line.cut;
    } else if (line.end) {
      this.#lane(line).end = { at: line.at, ...line.end };
    } else if (this.#kept++ >= MOST_LINES) {
      this.dropped += 1;
    } else if (line.event) {
      this.#lane(line).events.push(line);
    } else if (line.cell) {
      this.#lane(line).frames.push(line);
    }
    this.#notice ||= setTimeout(() => {
      this.#notice = 0;
      this.dispatchEvent(new Event("change"));
    }, NOTICE);
  }

  #lane({ cell, hop }) {
    const lane = new Lane(cell, hop);
    if (!this.lanes.has(lane.key)) this.lanes.set(lane.key, lane);
    return this.lanes.get(lane.key);
  }
}

/**
 * What a comparison means in a word, with a sign that does not need colour.
 * @returns {{word: string, sign: string, tone: string, text: string}}
 */
export function verdict(lane) {
  const { verdict: said, differences = [] } = lane.comparison;
  if (said === "first") return { word: "reference", sign: "", tone: "plain", text: "the others are compared with it" };
  if (said === "identical") return { word: "equal", sign: "= same", tone: "good", text: "equal to the first" };
  if (said === "generated") return { word: "equal", sign: "= same", tone: "good", text: "equal but for ids and times that were generated" };
  if (said === "failed") return { word: "failed", sign: "✗ failed", tone: "bad", text: "there is nothing to compare" };
  if (differences.every((one) => one.rule)) {
    return { word: "explained", sign: "≈ explained", tone: "warn", text: "what differs cannot be expressed in this version" };
  }
  return { word: "lost", sign: "≠ different", tone: "bad", text: "it differs, and no rule explains it" };
}
