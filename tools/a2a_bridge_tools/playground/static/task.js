// The tab Task: one task over one interface, as it is and as it goes on; recent tasks, and the agent's list.

import "./callview.js";
import { Call } from "./call.js";
import { describe, outcome, stateBadge, taskView } from "./content.js";
import { Component, button, field, h, row, select, setOptions, table } from "./dom.js";
import { session } from "./session.js";

const PURPOSE = "Read one task over one interface, follow its events, cancel it, or go on with a stream that broke. ";
const AFTER_HINT = "The id of the last event that a reader has. The stream goes on with the one after it.";

class Task extends Component {
  build() {
    const text = { autocomplete: "off", spellcheck: false };
    this.task = h("input", { value: session.link.get("task") ?? "", ...text });
    this.task.oninput = () => session.setLink({ task: this.taskId });
    this.cell = select([]);
    this.after = h("input", { size: 16, ...text });
    this.recent = h("div");
    this.found = h("div");
    this.view = h("pg-call");
    const about = (operation) => () => this.run(operation, { id: this.taskId });
    const goOn = () => this.run("SubscribeToTask", { id: this.taskId }, this.after.value.trim());
    const onsubmit = (event) => {
      event.preventDefault();
      about("GetTask")();
    };
    this.append(
      h("form.panel", { "aria-label": "Task", onsubmit },
        h("div.row", field("Task id", this.task, "task-id"), field("Interface", this.cell, "task-cell")),
        h("div.row",
          h("button.primary", { type: "submit", testid: "task-get" }, "Get"),
          button("Subscribe", "task-subscribe", about("SubscribeToTask")),
          button("Cancel the task", "task-cancel", about("CancelTask")),
          button("List the agent's tasks", "task-list", () => this.run("ListTasks", { pageSize: 50 })),
          button("Stop", "task-stop", () => this.call?.stop())),
        h("div.row", field("Last event seen", this.after, "task-after"),
          button("Resume the stream after it", "task-go-on", goOn), h("small", AFTER_HINT))),
      this.recent, this.found, this.view);
    session.watch(["agent", "tasks"], () => this.showRecent());
    session.watch(["agent"], () => setOptions(this.cell, session.allCells()));
    session.addEventListener("task", ({ detail }) => this.open(detail));
  }

  get taskId() {
    return this.task.value.trim();
  }

  open({ id, cell = this.cell.value }) {
    this.task.value = id;
    this.cell.value = cell;
    session.setLink({ task: id });
    session.announce("tab", "task");
    this.run("GetTask", { id });
  }

  run(operation, request, after = "") {
    this.call?.stop();
    const call = Call.start(operation, request, [this.cell.value], { after });
    this.call = call;
    this.view.show(call);
    call.addEventListener("change", () => call === this.call && this.update(call));
  }

  update(call) {
    const events = call.ordered()[0]?.events ?? [];
    const tasks = events[0]?.event.tasks;
    const { task } = outcome(events);
    this.after.value = events.findLast((event) => event.id)?.id ?? this.after.value;
    this.found.replaceChildren(...(tasks ? [this.listView(tasks)] : task ? [summaryOf(task)] : []));
  }

  /** The tasks that calls of this page have shown. */
  showRecent() {
    const rows = session.tasks.map(({ id, cell, state }) => {
      const label = { kind: "quiet", "aria-label": `Open task ${id}` };
      return row("recent-task", h("code", id),
        [stateBadge(state), cell, button("Open", "recent-open", () => this.open({ id, cell }), label)]);
    });
    const none = h("p", { testid: "no-tasks" }, `${PURPOSE}The tasks that you start in Compose appear here.`);
    this.recent.replaceChildren(h("h2", "Recent tasks"),
      rows.length ? table("Recent tasks", ["Task", "State", "Interface", "Action"], rows) : none);
  }

  listView(tasks) {
    const rows = tasks.map((task) => {
      const { id, contextId = "", status } = task;
      const label = { kind: "quiet", "aria-label": `Open task ${id}` };
      const open = button("Open", "task-open", () => this.open({ id }), label);
      const cells = [stateBadge(describe(task).state), h("code", contextId), status?.timestamp, open];
      return row("task-row", h("code", id), cells);
    });
    return table("Tasks", ["Task", "State", "Context", "Since", "Action"], rows);
  }
}

function summaryOf(task) {
  const context = task.contextId && h("span", "context ", h("code", task.contextId));
  return h("section.panel", { "aria-label": "The task", testid: "task" },
    h("p.facts", stateBadge(describe({ task }).state), h("code", task.id), context, task.status?.timestamp),
    taskView(task, { withHistory: true }));
}

customElements.define("pg-task", Task);
