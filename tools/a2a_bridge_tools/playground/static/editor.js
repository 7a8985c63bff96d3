// The editor of a request: one object behind the modes text, parts and JSON.
//
// Text and parts are for messages only. Fires "input" after each change.

import { sizeOf } from "./content.js";
import { Component, button, field, h, segments, select } from "./dom.js";

/** The kinds of a part by the member of the JSON that holds its content. */
const KINDS = { text: "text", data: "data (JSON)", url: "file by URL", raw: "file" };

class Editor extends Component {
  build() {
    /** the request in the JSON of 1.0 */
    this.request = {};
    this.text = h("textarea", { rows: 4, oninput: () => this.setText(this.text.value) });
    this.parts = h("div");
    this.json = h("textarea.code", { rows: 14, spellcheck: false, oninput: () => this.setJson() });
    this.fault = h("p.bad", { id: "json-fault", role: "alert", testid: "json-fault" });
    this.json.setAttribute("aria-describedby", this.fault.id);
    this.modes = segments("Mode", ["Text", "Parts", "JSON"], (mode) => this.setMode(mode));
    this.bodies = {
      Text: field("Text", this.text, "text"),
      Parts: h("div", this.parts, button("Add a part", "add-part", () => this.addPart(), { kind: "quiet" })),
      JSON: field("Request (ProtoJSON of 1.0)", this.json, "json"),
    };
    this.append(this.modes, ...Object.values(this.bodies), this.fault);
    this.setMode("Text");
  }

  /** Takes another request. One without a message is edited as JSON. */
  set(request) {
    this.request = structuredClone(request);
    this.modes.hidden = !request.message;
    this.setMode(request.message ? this.mode : "JSON");
  }

  setMode(mode) {
    this.mode = mode;
    for (const [name, body] of Object.entries(this.bodies)) body.hidden = name !== mode;
    this.modes.querySelector(`[value="${mode}"]`).checked = true;
    if (mode === "Text") this.text.value = this.textPart()?.text ?? "";
    if (mode === "Parts") this.showParts();
    if (mode === "JSON") this.json.value = JSON.stringify(this.request, null, 2);
    this.changed();
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
    const { value, fault } = parsed(this.json.value);
    const isObject = value?.constructor === Object;
    if (isObject) this.request = value;
    this.changed(fault || (isObject ? "" : "a request is an object"));
  }

  /** fault: why what was written is not the request. */
  changed(fault = "") {
    this.fault.textContent = fault && `✗ ${fault}`;
    this.json.setAttribute("aria-invalid", String(!this.valid));
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
    const refresh = () => {
      this.showParts();
      this.changed();
    };
    const kinds = select(Object.entries(KINDS));
    kinds.value = kind;
    kinds.onchange = () => {
      delete part[kind];
      part[kinds.value] = kinds.value === "data" ? {} : "";
      refresh();
    };
    const remove = () => {
      this.request.message.parts.splice(place, 1);
      refresh();
    };
    const content = () => field("Content", this.contentOf(part, kind), "part-content");
    const label = { "aria-label": `Remove part ${place + 1}`, kind: "quiet" };
    return h("fieldset.part", { testid: "part" }, h("legend", `Part ${place + 1}`),
      field("Kind", kinds, "part-kind"),
      kind === "raw" ? filePicker(part, refresh) : content(),
      h("div.row",
        field("Media type", this.member(part, "mediaType"), "part-type"),
        field("File name", this.member(part, "filename"), "part-name")),
      button("Remove", "part-remove", remove, label));
  }

  /** An input for an optional text. */
  member(part, name) {
    const input = h("input", { value: part[name] ?? "" });
    input.oninput = () => {
      if (input.value) part[name] = input.value;
      else delete part[name];
      this.changed();
    };
    return input;
  }

  contentOf(part, kind) {
    const value = kind === "data" ? JSON.stringify(part.data) : part[kind];
    const area = h("textarea", { rows: kind === "url" ? 1 : 3, value });
    area.oninput = () => {
      const { value: data, fault } = kind === "data" ? parsed(area.value) : { value: area.value };
      if (!fault) part[kind] = data;
      this.changed(fault);
    };
    return area;
  }
}

function filePicker(part, refresh) {
  const input = h("input", { type: "file" });
  input.onchange = () => {
    const [file] = input.files;
    const reader = new FileReader();
    reader.onload = () => {
      // A data URL: data:MEDIA/TYPE;base64,CONTENT
      part.raw = reader.result.slice(reader.result.indexOf(",") + 1);
      part.filename = file.name;
      part.mediaType = file.type || "application/octet-stream";
      refresh();
    };
    reader.readAsDataURL(file);
  };
  return field("File", input, "part-file", part.raw ? sizeOf(part.raw) : "none chosen");
}

/** The value of a JSON text, or what is wrong with it. */
function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { fault: error.message };
  }
}

customElements.define("pg-editor", Editor);
