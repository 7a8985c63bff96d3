// Tabs as the ARIA practices describe them: one stop of the Tab key, arrow keys, Home and End.

import { Component, h } from "./dom.js";

let ids = 0;

class Tabs extends Component {
  build() {}

  /**
   * Fills the element. The element of a tab may have a method `shown()`, called whenever its tab is chosen.
   * @param {string} name of the tab list, for screen readers
   * @param {[id: string, label: string, content: HTMLElement][]} tabs
   */
  fill(name, tabs) {
    this.tabs = tabs.map(([id, label, content]) => {
      const [tabId, panelId] = [`tab-${++ids}`, `panel-${ids}`];
      const onclick = () => this.choose(id);
      const names = { id: tabId, testid: `tab-${id}`, "aria-controls": panelId };
      const control = h("button", { type: "button", role: "tab", onclick, ...names }, label);
      const panelNames = { id: panelId, testid: `panel-${id}`, "aria-labelledby": tabId };
      const panel = h("div", { role: "tabpanel", ...panelNames }, content);
      return { id, control, panel, content };
    });
    const controls = this.tabs.map((tab) => tab.control);
    const onkeydown = (event) => this.move(event);
    this.replaceChildren(
      h("div.tablist", { role: "tablist", "aria-label": name, onkeydown }, controls),
      ...this.tabs.map((tab) => tab.panel));
    this.choose(this.tabs[0].id);
  }

  /** Shows a tab; an unknown id changes nothing. */
  choose(id) {
    if (!this.tabs.some((tab) => tab.id === id)) return;
    this.chosen = id;
    for (const tab of this.tabs) {
      const selected = tab.id === id;
      tab.control.setAttribute("aria-selected", String(selected));
      tab.control.tabIndex = selected ? 0 : -1;
      tab.panel.hidden = !selected;
      if (selected) tab.content.shown?.();
    }
    this.dispatchEvent(new CustomEvent("choose", { detail: id }));
  }

  move(event) {
    const count = this.tabs.length;
    const here = this.tabs.findIndex((tab) => tab.id === this.chosen);
    const [right, left] = [(here + 1) % count, (here + count - 1) % count];
    const next = this.tabs[{ ArrowRight: right, ArrowLeft: left, Home: 0, End: count - 1 }[event.key]];
    if (!next) return;
    event.preventDefault();
    this.choose(next.id);
    next.control.focus();
  }
}

customElements.define("pg-tabs", Tabs);
