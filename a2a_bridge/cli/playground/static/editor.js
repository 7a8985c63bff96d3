// The editor of a request: one object behind the modes text, parts and JSON.
//
// Text and parts are for messages only. Fires "input" after each change.

import { Component, button, field, h, segments, select } from "./dom.js";

/** The kinds of a part, with the member of the JSON that holds its content. */
const KINDS = { text: "text", data: "data (JSON)", url: "file by URL", raw: "file" };

class Editor extends Component {
  build() {
    /** the request in the JSON of 1.0 */
    this.request = {};
    this.text = h("textarea", { rows: 4, oninput: () => this.setText(this.text.value) });
    this.parts = h("div.partlist");
    this.json = h("textarea.code", { rows: 14, spellcheck: false, oninput: () => this.setJson() });
    this.fault = h("p.bad", { id: "json-fault", role: "alert", testid: "json-fault" });
    this.json.setAttribute("aria-describedby", this.fault.id);
    this.modes = segments("Mode", ["Text", "Parts", "JSON"], (mode) => this.setMode(mode));
    this.bodies = {
      Text: field("Text", this.text, { testid: "text" }),
      Parts: h("div", {}, this.parts, button("Add a part", () => this.addPart(), { className: "quiet", testid: "add-part" })),
      JSON: h("div", {}, field("Request (ProtoJSON of 1.0)", this.json, { testid: "json" }), this.fault),
    };
    this.append(this.modes, ...Object.values(this.bodies));
    this.setMode("Text");
  }

  /** Takes another request. Requests without a message are edited as JSON. */
  set(request) {
    this.request = structuredClone(request);
    this.modes.hidden = !request.message;
    if (!request.message) this.setMode("JSON");
    else this.setMode(this.mode);
  }

  setMode(mode) {
    this.mode = mode;
    for (const [name, body] of Object.entries(this.bodies)) body.hidden = name !== mode;
    this.querySelector(`input[value="${mode}"]`).checked = true;
    if (mode === "Text") this.text.value = this.textPart()?.text ?? "";
    if (mode === "Parts") this.showParts();
    if (mode === "JSON") this.json.value = JSON.stringify(this.request, null, 2);
    this.setFault("");
  }

  /** True when the request can be sent; else the fault is on the page. */
  get valid() {
    return this.fault.textContent === "";
  }

  textPart() {
    return this.request.message?.parts?.find((part) => part.text !== undefined);
  }

  setText(text) {
    const part = this.textPart();
    if (part) part.text = text;
    else (this.request.message.parts ??= []).unshift({ text });
    this.changed();
  }

  setJson() {
    try {
      const request = JSON.parse(this.json.value);
      if (request === null || typeof request !== "object" || Array.isArray(request)) throw new SyntaxError("a request is an object");
      this.request = request;
      this.setFault("");
    } catch (error) {
      this.setFault(error.message);
    }
    this.changed();
  }

  setFault(text) {
    this.fault.textContent = text && `✗ ${text}`;
    this.json.setAttribute("aria-invalid", String(Boolean(text)));
  }

  changed() {
    this.dispatchEvent(new Event("input"));
  }

  addPart() {
    (this.request.message.parts ??= []).push({ text: "" });
    this.showParts();
    this.parts.lastElementChild.querySelector("textarea").focus();
    this.changed();
  }

  showParts() {
    const parts = this.request.message.parts ?? [];
    this.parts.replaceChildren(...parts.map((part, place) => this.partView(part, place)));
  }

  partView(part, place) {
    const kind = Object.keys(KINDS).find((name) => part[name] !== undefined) ?? "text";
    const kinds = select(Object.entries(KINDS), {
      onchange: () => {
        delete part[kind];
        part[kinds.value] = kinds.value === "data" ? {} : "";
        this.changed();
        this.showParts();
      },
    });
    kinds.value = kind;
    const member = (name) => h("input", {
      value: part[name] ?? "",
      oninput: ({ target }) => {
        if (target.value) part[name] = target.value;
        else delete part[name];
        this.changed();
      },
    });
    return h("fieldset.part", { testid: "part" },
      h("legend", {}, `Part ${place + 1}`),
      field("Kind", kinds, { testid: "part-kind" }),
      kind === "raw" ? this.filePicker(part) : field("Content", this.contentOf(part, kind), { testid: "part-content" }),
      h("div.row", {}, field("Media type", member("mediaType")), field("File name", member("filename"))),
      button("Remove", () => {
        this.request.message.parts.splice(place, 1);
        this.changed();
        this.showParts();
      }, { className: "quiet", "aria-label": `Remove part ${place + 1}` }));
  }

  contentOf(part, kind) {
    const area = h("textarea", { rows: kind === "url" ? 1 : 3, value: kind === "data" ? JSON.stringify(part.data) : part[kind] });
    area.oninput = () => {
      let fault = "";
      try {
        part[kind] = kind === "data" ? JSON.parse(area.value) : area.value;
      } catch (error) {
        fault = error.message;
      }
      area.setCustomValidity(fault);
      area.reportValidity();
      this.setFault(fault);
      this.changed();
    };
    return area;
  }

  filePicker(part) {
    const input = h("input", { type: "file" });
    input.onchange = () => {
      const reader = new FileReader();
      reader.onload = () => {
        // A data URL: data:MEDIA/TYPE;base64,CONTENT
        part.raw = reader.result.slice(reader.result.indexOf(",") + 1);
        part.filename = input.files[0].name;
        part.mediaType = input.files[0].type || "application/octet-stream";
        this.changed();
        this.showParts();
      };
      reader.readAsDataURL(input.files[0]);
    };
    return field("File", input, { hint: part.raw ? `${Math.floor(part.raw.length * 0.75)} bytes` : "none chosen", testid: "part-file" });
  }
}

customElements.define("pg-editor", Editor);
