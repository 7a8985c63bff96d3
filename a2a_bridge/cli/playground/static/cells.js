// The choice of cells: a checkbox for each binding, grouped by version, with a switch per version.

import { Component, h } from "./dom.js";
import { session } from "./session.js";

class Cells extends Component {
  build() {
    session.watch(["agent"], () => this.fill());
    session.watch(["cells"], () => this.update());
  }

  fill() {
    const versions = Map.groupBy(session.agent?.cells ?? [], (cell) => cell.version);
    this.groups = [...versions].map(([version, cells]) => {
      const boxes = cells.map((cell) => box(cell.binding, { value: cell.id, testid: "cell", "data-cell": cell.id, "aria-label": cell.id, title: cell.url }));
      const all = box(version, { testid: "version-switch", "data-version": version, role: "switch", "aria-label": `All of version ${version}` });
      all.input.onchange = () => choose(boxes.map(({ input }) => input.value), all.input.checked);
      for (const { input } of boxes) input.onchange = () => choose([input.value], input.checked);
      return { all, boxes };
    });
    this.replaceChildren(
      h("fieldset.cells", {}, h("legend", {}, "Send over"),
        this.groups.map(({ all, boxes }) => h("div.version", {}, all.label, boxes.map(({ label }) => label)))));
    this.update();
  }

  update() {
    for (const { all, boxes } of this.groups ?? []) {
      for (const { input } of boxes) input.checked = session.cells.has(input.value);
      const chosen = boxes.filter(({ input }) => input.checked).length;
      all.input.checked = chosen === boxes.length;
      all.input.indeterminate = chosen > 0 && chosen < boxes.length;
    }
  }
}

function box(text, properties) {
  const input = h("input", { type: "checkbox", ...properties });
  return { input, label: h("label.check", {}, input, text) };
}

function choose(ids, wanted) {
  const cells = new Set(session.cells);
  for (const id of ids) wanted ? cells.add(id) : cells.delete(id);
  session.setCells(cells);
}

customElements.define("pg-cells", Cells);
