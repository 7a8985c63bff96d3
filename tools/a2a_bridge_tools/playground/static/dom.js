// Elements made from code. Texts of agents become text nodes only, never markup.

/** Characters of a text that are shown at first. */
const SHOWN = 3000;

/**
 * Makes an element. Properties may be left out; they are those of the DOM (`value`, `onclick`), else
 * attributes (`aria-label`), and `testid` is `data-testid`. Children that are null, undefined or false are
 * left out.
 * @example h("p.note", { title: "why" }, "text", h("b", "bold"))
 */
export function h(tag, ...rest) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.classList.add(...classes);
  const properties = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [key, value] of Object.entries(properties)) {
    if (key === "testid") element.dataset.testid = value;
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...present(rest.flat()));
  return element;
}

/** A list without what is null, undefined or false. */
export function present(list) {
  return list.filter((one) => one !== null && one !== undefined && one !== false);
}

/** A custom element that makes its children in `build()`, when it is first in the document. */
export class Component extends HTMLElement {
  connectedCallback() {
    if (this.childElementCount === 0) this.build();
  }
}

let ids = 0;

/** A control below its label. */
export function field(label, control, testid, hint = "") {
  control.id ||= `field-${++ids}`;
  control.dataset.testid = testid;
  const note = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div.field", h("label", { htmlFor: control.id }, label), control, note || null);
}

/** kind: "primary", "quiet" or "chip" */
export function button(label, testid, onclick, { kind = "", ...properties } = {}) {
  return h("button", { type: "button", className: kind, testid, onclick, ...properties }, label);
}

/** A choice with one option per string, or per [value, label]. */
export function select(options, properties = {}) {
  const element = h("select", properties);
  setOptions(element, options);
  return element;
}

/** Replaces the options; the choice stays if it is still there. */
export function setOptions(element, options) {
  const chosen = element.value;
  const made = options.map((option) => {
    const [value, label] = Array.isArray(option) ? option : [option, option];
    return h("option", { value, selected: value === chosen }, label);
  });
  element.replaceChildren(...made);
}

/** A set of radio buttons that looks like one control, with one per string, or per [value, label]; the first
 * one is chosen. */
export function segments(name, options, onchange) {
  const group = `segments-${++ids}`;
  const buttons = options.map((option, place) => {
    const [value, label] = Array.isArray(option) ? option : [option, option];
    const testid = `${name}-${value}`.toLowerCase();
    const radio = { type: "radio", name: group, value, checked: place === 0, testid };
    return h("label", h("input", { ...radio, onchange: () => onchange(value) }), h("span", label));
  });
  return h("fieldset.segments", h("legend.hidden", name), buttons);
}

/** A text in fixed width; a long one is cut, with a button that shows the rest. */
export function longText(text, properties = {}) {
  const pre = h("pre", properties, text.slice(0, SHOWN));
  if (text.length <= SHOWN) return pre;
  const showAll = () => {
    pre.textContent = text;
    all.remove();
  };
  const label = `Show all ${text.length.toLocaleString("en")} characters`;
  const all = button(label, "show-all", showAll, { kind: "quiet" });
  return h("div", pre, all);
}

export function jsonText(value) {
  return longText(JSON.stringify(value, null, 2));
}

/** A table in a region that scrolls by itself, so that the page never does. On a narrow screen, each row is a
 * block whose cells have the names of their columns. */
export function table(name, columns, rows) {
  for (const one of rows) nameCells(one, columns);
  const heads = columns.map((column) => h("th", { scope: "col" }, column));
  return h("div.scroll", { role: "region", "aria-label": name, tabIndex: 0 },
    h("table", h("thead", h("tr", heads)), h("tbody", rows)));
}

/** Gives the cells of a row the names of their columns, for narrow screens. */
export function nameCells(line, columns) {
  [...line.children].forEach((cell, place) => cell.setAttribute("data-column", columns[place]));
}

/** A row of a table: its head, and its other cells. */
export function row(testid, head, cells, properties = {}) {
  const others = cells.map((cell) => h("td", cell));
  return h("tr", { testid, ...properties }, h("th", { scope: "row" }, head), others);
}

/** A list of names and values. */
export function pairs(className, entries) {
  return h(`dl.${className}`, entries.map(([name, value]) => [h("dt", name), h("dd", value)]).flat());
}

/** A button that puts a text into the clipboard and says so. */
export function copyButton(text, testid) {
  const copy = async () => {
    // Browsers may reject the clipboard; the text is on the page for copying by hand.
    const done = await navigator.clipboard.writeText(text).then(() => "Copied", () => "The browser rejected");
    element.textContent = done;
    setTimeout(() => (element.textContent = "Copy"), 1500);
  };
  const element = button("Copy", testid, copy);
  return element;
}

/** Gives a text to the user as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

/** An error as the user sees it. */
export function problem(error, testid = "problem") {
  return h("p.bad", { testid, role: "alert" }, `✗ ${error.code ? `${error.code}: ` : ""}${error.message}`);
}

/** 1 event, 2 events */
export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Seconds for people: milliseconds below ten seconds. */
export function duration(seconds) {
  if (seconds === undefined) return "–";
  return seconds < 10 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(1)} s`;
}
