// The page: reads what the program is, then shows the header and the tabs.

import "./card.js";
import "./compose.js";
import "./errors.js";
import "./history.js";
import "./tabs.js";
import "./task.js";
import "./usage.js";
import "./webhooks.js";
import { Component, button, h, problem, select, setOptions } from "./dom.js";
import { session } from "./session.js";

const TABS = [
  ["compose", "Compose"], ["task", "Task"], ["webhooks", "Webhooks"], ["card", "Card"],
  ["history", "History"], ["errors", "Errors"], ["usage", "Usage"],
];

class App extends Component {
  connectedCallback() {
    this.build();
  }

  async build() {
    this.banner = h("div");
    this.replaceChildren(this.banner);
    try {
      await session.load();
    } catch (error) {
      // Without the program there is nothing to show. An agent that cannot be read may come back.
      if (session.program.operations.length === 0) {
        this.banner.replaceChildren(h("main", {}, h("h1", {}, "a2a-bridge playground"), problem(error)));
        return;
      }
      this.showProblem(error);
    }
    const tabs = h("pg-tabs");
    this.replaceChildren(this.header(), this.banner, h("main", {}, tabs));
    const shown = TABS.filter(([id]) => id !== "usage" || session.program.admin);
    tabs.addEventListener("choose", ({ detail }) => this.begun && session.setLink({ tab: detail }));
    tabs.fill("Playground", shown.map(([id, label]) => ({ id, label, content: h(`pg-${id}`) })));
    this.begun = true;
    tabs.choose(session.link.get("tab"));
    session.addEventListener("tab", ({ detail }) => tabs.choose(detail));
  }

  header() {
    const { agents, kind, program } = session.program;
    const choice = select([], { testid: "agent", "aria-label": "Agent", onchange: () => this.choose(choice.value) });
    const name = h("strong", { testid: "agent-name" });
    session.watch(["agent"], () => {
      setOptions(choice, agents.map((agent) => agent.name));
      choice.value = session.agentName;
      name.textContent = session.agent?.name ?? session.agentName;
      document.title = `${name.textContent} – a2a-bridge playground`;
    });
    return h("header", {}, h("h1", {}, "a2a-bridge ", h("span", {}, "playground")), h("span.badge.plain", {}, kind), agents.length > 1 ? choice : name, h("small", {}, program));
  }

  async choose(name) {
    try {
      await session.chooseAgent(name);
      this.banner.replaceChildren();
    } catch (error) {
      this.showProblem(error);
    }
  }

  showProblem(error) {
    this.banner.replaceChildren(h("div.banner", {}, problem(error, "agent-problem"), button("Read the card again", () => this.choose(session.agentName))));
  }
}

customElements.define("pg-app", App);
