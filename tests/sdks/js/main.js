// Agents and clients of the JavaScript SDK to test against.
//
//   node main.js 1|0.3 agent [--compat] [--binding NAME]...   plays scripts, until its standard input ends
//   node main.js 1|0.3 client [--compat]                      answers requests on standard input, see ../lines.md
//
// 1 and 0.3 are the releases of the SDK. With --compat release 1 speaks 0.3, by the SDK's own compatibility layer.
import { parseArgs } from 'node:util';

import { answer } from './lines.js';

const [release, role, ...rest] = process.argv.slice(2);
const { values } = parseArgs({
  args: rest,
  options: { compat: { type: 'boolean', default: false }, binding: { type: 'string', multiple: true } },
});
// The SDK reports rejected requests there; standard output is for the protocol.
for (const level of ['log', 'info', 'warn', 'error']) console[level] = () => {};

const programs = await import(`./release${release === '1' ? '1' : '03'}.js`);
if (role === 'client') {
  answer(programs.client(values.compat));
} else {
  const ready = await programs.agent(values.binding ?? ['JSONRPC', 'HTTP+JSON', 'GRPC'], values.compat);
  process.stdout.write(`ready http=${ready.http} grpc=${ready.grpc}\n`);
  process.stdin.resume().on('end', () => process.exit(0));
}
