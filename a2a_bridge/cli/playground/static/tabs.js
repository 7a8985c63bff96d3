// Tabs as the ARIA practices describe them: one stop of the Tab key, arrow keys, Home and End.

import { Component, h } from "./dom.js";

let ids = 0;

export class Tabs extends Component {
  /**
   * Fills the element. The element of a tab may have a method `shown()`, called whenever its tab is chosen.
   * @param {string} name of the tab list, for screen readers
   * @param {{id: string, label: string, content: HTMLElement}[]} tabs
   */
  fill(name, tabs) {
    this.tabs = tabs.map(({ id, label, content }) => {
      const panelId = `panel-${++ids}-${id}`;
      const control = h("button", {
        type: "button", role: "tab", id: `tab-${ids}-${id}`, testid: `tab-${id}`, onclick: () => this.choose(id),
        "aria-controls": panelId,
      }, label);
      const panel = h("div", {
        role: "tabpanel", id: panelId, testid: panelId, hidden: true, "aria-labelledby": control.id,
      }, content);
      return { id, control, panel, content };
    });
    this.replaceChildren(
      h("div.tablist", { role: "tablist", "aria-label": name, onkeydown: (event) => this.move(event) },
        this.tabs.map((tab) => tab.control)),
      ...this.tabs.map((tab) => tab.panel),
    );
    this.choose(tabs[0].id);
  }

  build() {}

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
    const last = this.tabs.length - 1;
    const here = this.tabs.findIndex((tab) => tab.id === this.chosen);
    const there = { ArrowRight: here === last ? 0 : here + 1, ArrowLeft: here === 0 ? last : here - 1, Home: 0, End: last }[event.key];
    if (there === undefined) return;
    event.preventDefault();
    this.choose(this.tabs[there].id);
    this.tabs[there].control.focus();
  }
}

customElements.define("pg-tabs", Tabs);
