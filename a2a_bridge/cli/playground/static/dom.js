// Elements made from code. Texts of agents become text nodes only, never markup.

/** Characters of a text that are shown at first. */
const SHOWN = 3000;

/**
 * Makes an element. Properties are those of the DOM (`value`, `onclick`), else attributes (`aria-label`);
 * `testid` is `data-testid`. Children that are null, undefined or false are left out.
 * @example h("p.note", { title: "why" }, "text", h("b", {}, "bold"))
 */
export function h(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "testid") element.dataset.testid = value;
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A custom element that makes its children in `build()`, when it is first in the document. */
export class Component extends HTMLElement {
  connectedCallback() {
    if (this.childElementCount === 0) this.build();
  }
}

let ids = 0;

/** A control below its label. */
export function field(label, control, { hint = "", testid = "" } = {}) {
  control.id ||= `field-${++ids}`;
  if (testid) control.dataset.testid = testid;
  const note = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div.field", {}, h("label", { htmlFor: control.id }, label), control, note || null);
}

export function button(label, onclick, properties = {}) {
  return h("button", { type: "button", onclick, ...properties }, label);
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
  element.replaceChildren(
    ...options.map((option) => {
      const [value, label] = Array.isArray(option) ? option : [option, option];
      return h("option", { value, selected: value === chosen }, label);
    }),
  );
}

/** A set of radio buttons that looks like one control. */
export function segments(name, options, onchange, chosen = options[0]) {
  const group = `segments-${++ids}`;
  return h(
    "fieldset.segments",
    {},
    h("legend.hidden", {}, name),
    options.map((value) =>
      h(
        "label",
        {},
        h("input", {
          type: "radio",
          name: group,
          value,
          checked: value === chosen,
          onchange: () => onchange(value),
          testid: `${name.toLowerCase()}-${value.toLowerCase()}`,
        }),
        h("span", {}, value),
      ),
    ),
  );
}

/** A text in fixed width; a long one is cut, with a button that shows the rest. */
export function longText(text, properties = {}) {
  const pre = h("pre", properties, text.slice(0, SHOWN));
  if (text.length <= SHOWN) return pre;
  const all = button(`Show all ${text.length.toLocaleString("en")} characters`, () => {
    pre.textContent = text;
    all.remove();
  }, { className: "quiet", testid: "show-all" });
  return h("div", {}, pre, all);
}

export function jsonText(value, properties) {
  return longText(JSON.stringify(value, null, 2), properties);
}

/** A table in a region that scrolls by itself, so that the page never does. */
export function table(name, columns, rows, properties = {}) {
  return h(
    "div.scroll",
    { role: "region", "aria-label": name, tabIndex: 0, ...properties },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)))),
      h("tbody", {}, rows),
    ),
  );
}

/** A button that puts a text into the clipboard and says so. */
export function copyButton(text, label = "Copy", testid = "copy") {
  const element = button(label, async () => {
    let outcome = "Copied";
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      // Browsers may refuse the clipboard; the text is on the page for copying by hand.
      outcome = "The browser refused";
    }
    element.textContent = outcome;
    setTimeout(() => (element.textContent = label), 1500);
  }, { testid });
  return element;
}

/** Gives a text to the user as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

export function problem(error, testid = "problem") {
  return h("p.bad", { testid, role: "alert" }, `✗ ${error.code ? `${error.code}: ` : ""}${error.message}`);
}

/** 1 event, 2 events */
export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Seconds for people: milliseconds below ten seconds. */
export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  return seconds < 10 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(1)} s`;
}
