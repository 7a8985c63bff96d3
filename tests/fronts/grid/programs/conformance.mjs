// The scenarios of the official package that need no tools of a test server.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { URL as PLACE, told } from "./tell.mjs";

for (const scenario of process.argv.slice(3)) {
  await told(scenario, async () => {
    const given = ["server", "--url", `${PLACE}/mcp`, "--scenario", scenario];
    return (await promisify(execFile)("conformance", given)).stdout.slice(-500);
  });
}
