// The choice of cells: a checkbox for each binding, grouped by version, with a switch per version.

import { Component, h } from "./dom.js";
import { session } from "./session.js";

class Cells extends Component {
  build() {
    session.watch(["agent"], () => this.fill());
    session.addEventListener("cells", () => this.update());
  }

  fill() {
    const versions = Map.groupBy(session.agent?.cells ?? [], (cell) => cell.version);
    this.groups = [...versions].map(([version, cells]) => {
      const boxes = cells.map(({ id, binding, url }) => {
        const names = { testid: "cell", "data-cell": id, "aria-label": id, title: url };
        const input = h("input", { type: "checkbox", value: id, ...names });
        input.onchange = () => choose([id], input.checked);
        return { input, label: h("label.check", input, binding) };
      });
      const names = { testid: "version", "data-version": version, "aria-label": `All of version ${version}` };
      const all = h("input", { type: "checkbox", role: "switch", ...names });
      all.onchange = () => choose(cells.map((cell) => cell.id), all.checked);
      return { all, label: h("label.check", all, version), boxes };
    });
    const row = ({ label, boxes }) => h("div.version", label, boxes.map((box) => box.label));
    this.replaceChildren(h("fieldset", h("legend", "Send over"), this.groups.map(row)));
    this.update();
  }

  update() {
    for (const { all, boxes } of this.groups) {
      for (const { input } of boxes) input.checked = session.cells.has(input.value);
      const chosen = boxes.filter(({ input }) => input.checked).length;
      all.checked = chosen === boxes.length;
      all.indeterminate = chosen > 0 && !all.checked;
    }
  }
}

function choose(ids, wanted) {
  const cells = new Set(session.cells);
  for (const id of ids) wanted ? cells.add(id) : cells.delete(id);
  session.setCells(cells);
}

customElements.define("pg-cells", Cells);
