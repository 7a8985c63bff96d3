import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { TOOL, URL as PLACE, mcp } from "./tell.mjs";

const client = new Client({ name: "grid", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${PLACE}/mcp`)));
await mcp(
  async () => (await client.listTools()).tools.map((one) => one.name),
  async (given) => {
    const found = await client.callTool({ name: TOOL, arguments: given });
    return found.structuredContent ?? found.content.map((one) => one.text).join("");
  });
await client.close();
