// One call as the page knows it: lines of the program become lanes. A lane is one cell on one hop: between
// the program and the agent or gateway (`client`), or between a gateway and its agent (`upstream`).

import { askLines } from "./api.js";
import { session } from "./session.js";

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
  /** how it ended: {at, seconds, error, state}; of several calls of a gateway, the last */
  end = null;
  /** {verdict, differences} beside the first lane */
  comparison = null;
  /** seconds into the call when it began, as the end says it */
  began = undefined;

  constructor(cell, hop) {
    this.cell = cell;
    this.hop = hop;
    this.isUpstream = hop !== "client";
    this.name = this.isUpstream ? `${cell}, upstream` : cell;
    this.key = `${cell}|${hop}`;
  }

  take(end) {
    this.began ??= end.at - end.seconds;
    this.end = end;
  }

  /** Seconds into the call when it began. Until its end says it, that is when the first thing was seen. */
  get begin() {
    if (!this.isUpstream) return this.began ?? 0;
    return Math.min(...[this.began, this.frames[0]?.at, this.events[0]?.at].filter((at) => at !== undefined));
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

/** Events: "change" (more is known), "end" (there will be no further lines). */
export class Call extends EventTarget {
  /** the first line */
  head = { call: "", request: {}, cells: [], agent: "" };
  headers = {};
  /** @type {Map<string, Lane>} */
  lanes = new Map();
  finished = false;
  stopped = false;
  /** an ApiError when the program rejected the call or went away */
  error = null;
  /** why further frames were not recorded */
  cut = "";
  /** lines that the page did not keep */
  dropped = 0;
  #kept = 0;
  #abort = new AbortController();
  #notice = 0;

  /** A call to the chosen agent that is on its way. after: id of the event after which a stream goes on. */
  static start(operation, request, cells, { headers = {}, after = "" } = {}) {
    const call = new Call();
    const agent = session.agentName;
    call.headers = headers;
    call.head = { call: operation, request, cells, agent };
    call.#read("/api/calls", { method: "POST", body: { agent, operation, request, cells, headers, after } });
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
    const upstream = (lane) => all.filter((other) => other.isUpstream && other.cell === lane.cell);
    return all.filter((lane) => !lane.isUpstream).flatMap((lane) => [lane, ...upstream(lane)]);
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
      this.#lane(line).take({ at: line.at, ...line.end });
    } else if (this.#kept++ >= MOST_LINES) {
      this.dropped += 1;
    } else if (line.event) {
      this.#lane(line).events.push(line);
    } else {
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

/** [word, sign, tone, text]: what a comparison means, without the need of colour */
const VERDICTS = {
  first: ["first", "first", "plain", "the others are compared with this"],
  identical: ["equal", "= same", "good", "equal to the first"],
  generated: ["equal", "= same", "good", "equal but for generated ids and times"],
  explained: ["explained", "≈ explained", "warn", "what differs cannot be expressed in this version"],
  different: ["lost", "≠ different", "bad", "it differs, and no rule explains it"],
};

/** What the comparison of a lane means: {word, sign, tone, text}. */
export function verdict({ comparison }) {
  const isExplained = comparison.verdict === "different" && comparison.differences.every((one) => one.rule);
  const [word, sign, tone, text] = VERDICTS[isExplained ? "explained" : comparison.verdict];
  return { word, sign, tone, text };
}
