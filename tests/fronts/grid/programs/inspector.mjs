// The command line of the Inspector: one process, and so one session, for each call.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { TOOL, URL as PLACE, mcp } from "./tell.mjs";

const run = async (...words) => {
  const given = ["--cli", `${PLACE}/mcp`, "--transport", "http", ...words];
  return (await promisify(execFile)("mcp-inspector", given)).stdout;
};
await mcp(
  () => run("--method", "tools/list"),
  (given) => run("--method", "tools/call", "--tool-name", TOOL,
    ...Object.entries(given).flatMap(([name, value]) => ["--tool-arg", `${name}=${value}`])));
