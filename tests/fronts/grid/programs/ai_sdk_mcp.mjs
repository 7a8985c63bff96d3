import { createMCPClient } from "@ai-sdk/mcp";
import { TOOL, URL as PLACE, mcp } from "./tell.mjs";

const client = await createMCPClient({ transport: { type: "http", url: `${PLACE}/mcp` } });
const tools = await client.tools();
await mcp(
  async () => Object.keys(tools),
  (given) => tools[TOOL].execute(given, { toolCallId: "x", messages: [] }));
await client.close();
