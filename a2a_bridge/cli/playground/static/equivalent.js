// A call as a command or a program that does the same without this page.

import { askJson } from "./api.js";
import { Component, copyButton, field, h, problem, select, setOptions } from "./dom.js";

class Equivalent extends Component {
  build() {
    this.kind = select(["curl", "grpcurl", "python"], { onchange: () => this.update() });
    this.cell = select([], { onchange: () => this.update() });
    this.content = h("div");
    this.append(h("div.row", {}, field("As", this.kind, { testid: "copy-kind" }), field("Cell", this.cell, { testid: "copy-cell" })), this.content);
  }

  show(call) {
    this.call = call;
    setOptions(this.cell, call.head.cells);
    // grpcurl speaks gRPC only, curl everything else.
    if (this.kind.value !== "python") this.kind.value = this.cell.value.startsWith("GRPC") ? "grpcurl" : "curl";
    this.update();
  }

  async update() {
    const { call: operation, request, agent } = this.call.head;
    const body = { agent, operation, request, cells: [this.cell.value], headers: this.call.headers ?? {}, kind: this.kind.value };
    try {
      const { text } = await askJson("/api/equivalent", { method: "POST", body });
      this.content.replaceChildren(h("pre", { testid: "copy-text" }, text), copyButton(() => text));
    } catch (error) {
      this.content.replaceChildren(problem(error));
    }
  }
}

customElements.define("pg-equivalent", Equivalent);
