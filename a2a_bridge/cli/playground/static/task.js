// The tab Task: one task over one cell, as it is and as it goes on; and the list of tasks.

import "./callview.js";
import { Call } from "./call.js";
import { describe, outcome, stateBadge, taskView } from "./content.js";
import { Component, button, field, h, select, setOptions, table } from "./dom.js";
import { session } from "./session.js";

class Task extends Component {
  build() {
    this.task = h("input", { value: session.link.get("task") ?? "", autocomplete: "off", spellcheck: false, oninput: () => session.setLink({ task: this.task.value.trim() }) });
    this.cell = select([]);
    this.after = h("input", { inputMode: "numeric", size: 5, autocomplete: "off" });
    this.found = h("div");
    this.view = h("pg-call");
    const about = (operation) => () => this.run(operation, { id: this.task.value.trim() });
    this.append(
      h("form.panel", { "aria-label": "Task", onsubmit: (event) => { event.preventDefault(); about("GetTask")(); } },
        h("div.row", {}, field("Task id", this.task, { testid: "task-id" }), field("Cell", this.cell, { testid: "task-cell" })),
        h("div.row", {},
          h("button.primary", { type: "submit", testid: "task-get" }, "Get"),
          button("Subscribe", about("SubscribeToTask"), { testid: "task-subscribe" }),
          button("Cancel the task", about("CancelTask"), { testid: "task-cancel" }),
          button("List tasks", () => this.run("ListTasks", { pageSize: 50 }), { testid: "task-list" }),
          button("Stop", () => this.call?.stop(), { testid: "task-stop" })),
        h("div.row", {},
          field("After event", this.after, { testid: "task-after" }),
          button("Go on from there", () => this.run("SubscribeToTask", { id: this.task.value.trim() }, this.after.value.trim()), { testid: "task-go-on" }))),
      this.found, this.view);
    session.watch(["agent"], () => setOptions(this.cell, session.allCells()));
    session.addEventListener("task", ({ detail }) => this.open(detail));
  }

  open({ id, cell }) {
    this.task.value = id;
    if (cell) this.cell.value = cell;
    session.setLink({ task: id });
    session.announce("tab", "task");
    this.run("GetTask", { id });
  }

  run(operation, request, after = "") {
    this.call?.stop();
    const call = (this.call = Call.start({ agent: session.agentName, operation, request, cells: [this.cell.value], headers: {}, after }));
    this.view.show(call);
    call.addEventListener("change", () => call === this.call && this.update(call));
  }

  update(call) {
    const events = call.ordered()[0]?.events ?? [];
    const last = events.findLast((event) => event.id)?.id;
    if (last) this.after.value = last;
    const tasks = events[0]?.event.tasks;
    const { task } = outcome(events);
    if (tasks) this.found.replaceChildren(this.listView(tasks));
    else this.found.replaceChildren(...(task ? [summaryOf(task)] : []));
  }

  listView(tasks) {
    return table("Tasks", ["Task", "State", "Context", "Since", "Action"], tasks.map((task) =>
      h("tr", { testid: "task-row" }, h("th", { scope: "row" }, h("code", {}, task.id)), h("td", {}, stateBadge(describe(task).state)),
        h("td", {}, h("code", {}, task.contextId ?? "")), h("td", {}, task.status?.timestamp ?? ""),
        h("td", {}, button("Open", () => this.open({ id: task.id }), { className: "quiet", "aria-label": `Open task ${task.id}` })))));
  }
}

function summaryOf(task) {
  return h("section.panel", { "aria-label": "The task", testid: "task" },
    h("p.facts", {}, stateBadge(describe(task).state), h("code", {}, task.id), task.contextId && h("span", {}, "context ", h("code", {}, task.contextId)), h("span", {}, task.status?.timestamp ?? "")),
    taskView(task, { history: true }));
}

customElements.define("pg-task", Task);
