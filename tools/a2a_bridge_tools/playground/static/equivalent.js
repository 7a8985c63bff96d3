// A call as a command or a program that does the same without this page.

import { askJson } from "./api.js";
import { Component, copyButton, field, h, problem, select, setOptions } from "./dom.js";

class Equivalent extends Component {
  build() {
    this.kind = select([], { onchange: () => this.update() });
    this.cell = select([], { onchange: () => this.update() });
    this.content = h("div");
    this.append(
      h("div.row", field("As", this.kind, "copy-kind"), field("Interface", this.cell, "copy-cell")), this.content);
  }

  show(call) {
    this.call = call;
    setOptions(this.cell, call.head.cells);
    this.update();
  }

  async update() {
    setOptions(this.kind, [this.cell.value.startsWith("GRPC") ? "grpcurl" : "curl", "python"]);
    const { head, headers } = this.call;
    const about = { agent: head.agent, operation: head.call, request: head.request, headers };
    const body = { ...about, cells: [this.cell.value], kind: this.kind.value };
    try {
      const { text } = await askJson("/api/equivalent", { method: "POST", body });
      this.content.replaceChildren(h("pre", { testid: "copy-text" }, text), copyButton(text, "copy"));
    } catch (error) {
      this.content.replaceChildren(problem(error));
    }
  }
}

customElements.define("pg-equivalent", Equivalent);
