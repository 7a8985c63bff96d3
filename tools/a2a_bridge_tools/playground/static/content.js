// Events and responses of A2A, in the JSON of 1.0, as text and as elements.

import { counted, h, jsonText, longText } from "./dom.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const TONES = {
  completed: "good",
  failed: "bad",
  rejected: "bad",
  canceled: "warn",
  "input-required": "warn",
  "auth-required": "warn",
};

/** TASK_STATE_INPUT_REQUIRED → input-required */
function stateOf({ status }) {
  return (status?.state ?? "").replace("TASK_STATE_", "").replaceAll("_", "-").toLowerCase();
}

function textOf(holder) {
  const parts = holder?.parts ?? [];
  return parts.map((part) => part.text ?? part.url ?? part.filename ?? "[data]").join("");
}

/** The task in an event: a snapshot of a stream, or a response that is one. */
function taskOf(event) {
  return event.task ?? (event.id && event.status ? event : null);
}

/**
 * A line about an event or a response.
 * @returns {{kind: string, state: string, text: string}}
 */
export function describe(event) {
  const { message, statusUpdate, artifactUpdate, tasks } = event;
  const task = taskOf(event);
  if (task) {
    const text = textOf(task.status?.message) || (task.artifacts ?? []).map(textOf).join(" ");
    return { kind: "task", state: stateOf(task), text };
  }
  if (message) return { kind: "message", state: "", text: textOf(message) };
  if (statusUpdate) {
    return { kind: "status", state: stateOf(statusUpdate), text: textOf(statusUpdate.status?.message) };
  }
  if (artifactUpdate) {
    const kind = artifactUpdate.append ? "artifact, more" : "artifact";
    return { kind, state: "", text: textOf(artifactUpdate.artifact) };
  }
  if (tasks) return { kind: "tasks", state: "", text: counted(tasks.length, "task") };
  return { kind: "response", state: "", text: event.url ?? event.name ?? "" };
}

/**
 * What the events of a lane add up to.
 * @returns {{task: object|null, message: object|null}}
 */
export function outcome(events) {
  let task = null;
  let message = null;
  for (const { event } of events) {
    const { statusUpdate, artifactUpdate } = event;
    const update = statusUpdate ?? artifactUpdate;
    if (taskOf(event)) task = structuredClone(taskOf(event));
    if (event.message) message = event.message;
    // A stream that goes on somewhere begins without its task.
    if (update) task ??= { id: update.taskId, contextId: update.contextId };
    if (statusUpdate) task.status = statusUpdate.status;
    if (artifactUpdate) addArtifact((task.artifacts ??= []), artifactUpdate);
  }
  return { task, message };
}

function addArtifact(artifacts, { artifact, append }) {
  const known = artifacts.findIndex((one) => one.artifactId === artifact.artifactId);
  if (known < 0) artifacts.push(structuredClone(artifact));
  else if (append) artifacts[known].parts.push(...artifact.parts);
  else artifacts[known] = structuredClone(artifact);
}

/** The parts of a message or an artifact; neighbouring texts are one text. */
export function partsView(holder) {
  const view = h("div.parts");
  let text = "";
  for (const part of [...(holder?.parts ?? []), null]) {
    if (part?.text !== undefined) {
      text += part.text;
      continue;
    }
    if (text) view.append(longText(text, { className: "prose" }));
    text = "";
    if (part) view.append(otherPart(part));
  }
  return view;
}

function otherPart(part) {
  const name = part.filename || part.mediaType || "file";
  if (part.data !== undefined) return jsonText(part.data);
  if (part.raw !== undefined && IMAGES.includes(part.mediaType)) {
    return h("img", { src: `data:${part.mediaType};base64,${part.raw}`, alt: name });
  }
  if (part.raw !== undefined) return h("p", `${name}: ${sizeOf(part.raw)}`);
  // Other schemes than these must not become links: the URL comes from the agent.
  if (!/^https?:/i.test(part.url ?? "")) return h("p", part.url ?? "an empty part");
  return h("a", { href: part.url, target: "_blank", rel: "noreferrer noopener" }, part.filename || part.url);
}

/** The size of what a base64 text holds. */
export function sizeOf(base64) {
  return counted(Math.floor(base64.replace(/=+$/, "").length * 0.75), "byte");
}

/** A task as people read it: what it says, its artifacts, and on request its conversation. */
export function taskView(task, { withHistory = false } = {}) {
  const artifacts = task.artifacts ?? [];
  const messages = withHistory ? (task.history ?? []) : [];
  const title = `Conversation: ${counted(messages.length, "message")}`;
  const turns = messages.map((message) =>
    h("div.turn", h("small", message.role === "ROLE_USER" ? "user" : "agent"), partsView(message)));
  return h("div.task",
    task.status?.message && partsView(task.status.message),
    artifacts.map((one) => h("div.artifact", one.name && h("small", one.name), partsView(one))),
    turns.length > 0 && h("details", h("summary", title), turns));
}

/** The state of a task as a badge; the word carries the meaning, the colour helps. */
export function stateBadge(state) {
  return h(`span.badge.${TONES[state] ?? "plain"}`, { testid: "state" }, state);
}

/** The line of an event: number, time, kind, state and the beginning of its text. */
export function eventSummary(event, ...before) {
  const { kind, state, text } = event ? describe(event) : { kind: "not a notification" };
  const preview = text && h("span.preview", ` ${text.slice(0, 200)}`);
  return h("summary", before, h("b", kind), state && ` ${state}`, preview);
}
