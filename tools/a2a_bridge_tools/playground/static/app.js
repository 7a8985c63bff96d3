// The page: reads what the program is, then shows the header and the tabs.

import "./card.js";
import "./compose.js";
import "./errors.js";
import "./history.js";
import "./tabs.js";
import "./task.js";
import "./usage.js";
import "./webhooks.js";
import { button, h, problem, select, setOptions } from "./dom.js";
import { session } from "./session.js";

const TABS = ["Compose", "Task", "Webhooks", "Card", "History", "Errors", "Usage"];

class App extends HTMLElement {
  async connectedCallback() {
    this.banner = h("div");
    this.replaceChildren(this.banner);
    try {
      await session.load();
    } catch (error) {
      // Without the program there is nothing to show. An agent that cannot be read may come back.
      if (session.program.operations.length === 0) {
        this.replaceChildren(h("main", h("h1", "a2a-bridge playground"), problem(error)));
        return;
      }
      this.showProblem(error);
    }
    const tabs = h("pg-tabs");
    const names = TABS.filter((name) => name !== "Usage" || session.program.admin);
    const wanted = session.link.get("tab");
    this.replaceChildren(this.header(), this.banner, h("main", tabs));
    tabs.fill("Playground", names.map((name) => [name.toLowerCase(), name, h(`pg-${name.toLowerCase()}`)]));
    tabs.addEventListener("choose", ({ detail }) => session.setLink({ tab: detail }));
    tabs.choose(wanted);
    session.addEventListener("tab", ({ detail }) => tabs.choose(detail));
  }

  header() {
    const { agents, kind, program } = session.program;
    const choice = select([], { testid: "agent", onchange: () => this.choose(choice.value) });
    choice.setAttribute("aria-label", "Agent");
    const name = h("strong", { testid: "agent-name" });
    session.watch(["agent"], () => {
      setOptions(choice, agents.map((agent) => agent.name));
      choice.value = session.agentName;
      name.textContent = session.agent?.name ?? session.agentName;
      document.title = `${name.textContent} – a2a-bridge playground`;
    });
    return h("header", h("h1", "a2a-bridge ", h("span", "playground")), h("span.badge.plain", kind),
      agents.length > 1 ? choice : name, h("small", program));
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
    const again = button("Read the card again", "read-again", () => this.choose(session.agentName));
    this.banner.replaceChildren(h("div.banner", problem(error, "agent-problem"), again));
  }
}

customElements.define("pg-app", App);
