// Events and responses of A2A, in the JSON of 1.0, as text and as elements.

import { counted, h, jsonText, longText } from "./dom.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** TASK_STATE_INPUT_REQUIRED → input-required */
export function stateName(state = "") {
  return state.replace("TASK_STATE_", "").replaceAll("_", "-").toLowerCase();
}

const textOf = (parts = []) => parts.map((part) => part.text ?? (part.url || part.filename || "[data]")).join("");

/**
 * A line about an event.
 * @returns {{kind: string, state: string, text: string}}
 */
export function describe(event) {
  const { message, statusUpdate, artifactUpdate } = event;
  const task = taskOf(event);
  if (task) {
    const text = textOf(task.status?.message?.parts) || (task.artifacts ?? []).map((one) => textOf(one.parts)).join(" ");
    return { kind: "task", state: stateName(task.status?.state), text };
  }
  if (message) return { kind: "message", state: "", text: textOf(message.parts) };
  if (statusUpdate) {
    return { kind: "status", state: stateName(statusUpdate.status?.state), text: textOf(statusUpdate.status?.message?.parts) };
  }
  if (artifactUpdate) return { kind: artifactUpdate.append ? "artifact, more" : "artifact", state: "", text: textOf(artifactUpdate.artifact?.parts) };
  if (event.tasks) return { kind: "tasks", state: "", text: `${event.tasks.length} of ${event.totalSize ?? event.tasks.length}` };
  return { kind: "response", state: "", text: event.url ?? event.name ?? "" };
}

/** The task in an event: a snapshot of a stream, or a response that is one. */
function taskOf(event) {
  return event.task ?? (event.id && event.status ? event : null);
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
    task = taskOf(event) ? structuredClone(taskOf(event)) : task;
    message = event.message ?? message;
    const id = statusUpdate?.taskId ?? artifactUpdate?.taskId;
    // After a gap, or from an agent of another manner, a stream may begin without its task.
    if (id) task ??= { id, contextId: (statusUpdate ?? artifactUpdate).contextId, status: {} };
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

/** Parts of a message or an artifact; neighbouring texts are one text. */
export function partsView(parts = []) {
  const view = h("div.parts");
  let text = "";
  const flush = () => {
    if (text) view.append(longText(text, { className: "prose" }));
    text = "";
  };
  for (const part of parts) {
    if (part.text !== undefined) {
      text += part.text;
      continue;
    }
    flush();
    view.append(otherPart(part));
  }
  flush();
  return view;
}

function otherPart(part) {
  const name = part.filename || part.mediaType || "file";
  if (part.data !== undefined) return jsonText(part.data);
  if (part.raw !== undefined && IMAGES.includes(part.mediaType)) {
    return h("img", { src: `data:${part.mediaType};base64,${part.raw}`, alt: name });
  }
  if (part.raw !== undefined) return h("p", {}, `${name}: ${Math.floor(part.raw.length * 0.75)} bytes`);
  // Other schemes than these must not become links: the URL comes from the agent.
  if (/^https?:/i.test(part.url ?? "")) {
    return h("a", { href: part.url, target: "_blank", rel: "noreferrer noopener" }, part.filename || part.url);
  }
  return h("p", {}, part.url ?? "an empty part");
}

/** A task as people read it: state, what it says, artifacts, and its conversation. */
export function taskView(task, { history = false } = {}) {
  const said = task.status?.message;
  return h("div.task", {},
    said && partsView(said.parts),
    (task.artifacts ?? []).map((artifact) =>
      h("div.artifact", {}, artifact.name && h("small", {}, artifact.name), partsView(artifact.parts))),
    history && (task.history ?? []).length > 0 &&
      h("details", {}, h("summary", {}, `Conversation: ${counted(task.history.length, "message")}`),
        task.history.map((message) =>
          h("div.turn", {}, h("small", {}, message.role === "ROLE_USER" ? "user" : "agent"), partsView(message.parts)))));
}

/** The state of a task as a badge; the word carries the meaning, the colour helps. */
export function stateBadge(state) {
  const tone = { completed: "good", failed: "bad", rejected: "bad", canceled: "warn", "input-required": "warn", "auth-required": "warn" }[state];
  return h(`span.badge.${tone ?? "plain"}`, { testid: "state" }, state);
}
