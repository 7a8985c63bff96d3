// The line protocol of a client program, see ../lines.md. Knows nothing of the SDK.
import { createInterface } from 'node:readline';

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// client.open(binding, origin) -> a client; client.unary and client.streams: operation -> (client, params, options) -> what
// the SDK answers, as a tree; client.error(error) -> {type, message}.
export function answer(client) {
  const opened = new Map();
  const running = new Map();

  async function run({ id, client: number, operation, binding, origin, params }, signal) {
    if (!opened.has(number)) opened.set(number, client.open(binding, origin));
    const at = await opened.get(number);
    if (operation in client.unary) {
      say({ id, result: (await client.unary[operation](at, params, { signal })) ?? null });
      return;
    }
    if (!(operation in client.streams)) throw new Error(`no such operation: ${operation}`);
    for await (const event of client.streams[operation](at, params, { signal })) {
      if (signal.aborted) break;
      say({ id, event });
    }
    say({ id, end: true });
  }

  createInterface({ input: process.stdin }).on('line', (line) => {
    const request = JSON.parse(line);
    if (request.cancel) {
      running.get(request.id)?.abort();
      return;
    }
    const abort = new AbortController();
    running.set(request.id, abort);
    run(request, abort.signal)
      .catch((error) => say({ id: request.id, error: client.error(error) }))
      .finally(() => running.delete(request.id));
  }).on('close', () => process.exit(0));
  process.stdout.write('ready\n');
}
