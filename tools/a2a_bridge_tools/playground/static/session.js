// What all tabs share: the program, the chosen agent, the chosen cells, and the deep link.
//
// A cell is one version over one binding, such as "JSONRPC 1.0".
// Events: "agent" (another one, or read anew), "cells" (another choice), "compose" and "task" (open that tab
// with the detail of the event), "tab" (show the tab that `detail` names), "tasks" (calls have shown a task).

import { askJson, withQuery } from "./api.js";

/** Characters of a text that a link can hold without trouble. */
const LONGEST_TEXT = 2000;
/** Tasks that are remembered. */
const RECENT = 20;

class Session extends EventTarget {
  /** `/api/state` */
  program = { agents: [], operations: [] };
  /** `/api/agent` of the chosen agent; null while it cannot be read */
  agent = null;
  agentName = "";
  /** the tasks that calls of this page have shown, the newest first: {id, cell, state} */
  tasks = [];
  /** ids of the chosen cells */
  cells = new Set();
  /** the members of the deep link */
  link = new URLSearchParams(location.hash.slice(1));

  async load() {
    this.program = await askJson("/api/state");
    await this.chooseAgent(this.link.get("agent"));
  }

  /** Reads the card of an agent; of the first one if the name is unknown. Throws when it cannot be read. */
  async chooseAgent(name) {
    const known = this.program.agents.map((agent) => agent.name);
    this.agentName = known.includes(name) ? name : (known[0] ?? "");
    this.agent = null;
    this.tasks = [];
    try {
      this.agent = await askJson(withQuery("/api/agent", { agent: this.agentName }));
      const linked = (this.link.get("cells") ?? "").split(",").filter((id) => this.allCells().includes(id));
      this.cells = new Set(linked.length ? linked : this.allCells());
    } finally {
      this.setLink({ agent: this.agentName });
      this.announce("agent");
    }
  }

  setCells(ids) {
    this.cells = new Set(ids);
    this.setLink({ cells: this.chosenCells().join(",") });
    this.announce("cells");
  }

  /** The chosen ids, in the order of the card. */
  chosenCells() {
    return this.allCells().filter((id) => this.cells.has(id));
  }

  allCells() {
    return (this.agent?.cells ?? []).map((cell) => cell.id);
  }

  /** Remembers a task that a call has shown. */
  noteTask(task) {
    this.tasks = [task, ...this.tasks.filter((one) => one.id !== task.id)].slice(0, RECENT);
    this.announce("tasks");
  }

  operation(name) {
    return this.program.operations.find((operation) => operation.name === name);
  }

  /** Changes members of the deep link; an empty value removes one. */
  setLink(members) {
    for (const [name, value] of Object.entries(members)) {
      if (value && value.length <= LONGEST_TEXT) this.link.set(name, value);
      else this.link.delete(name);
    }
    history.replaceState(null, "", `${location.pathname}${location.search}#${this.link}`);
  }

  announce(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  /** Calls a listener now and at each event of these types. */
  watch(types, listener) {
    for (const type of types) this.addEventListener(type, listener);
    listener();
  }
}

export const session = new Session();
