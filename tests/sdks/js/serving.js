// Ports of an agent: one of HTTP, one of gRPC. Knows nothing of the SDK.
import { createServer } from 'node:http';

import * as grpc from '@grpc/grpc-js';

// Listens, so that the addresses are known before the card is written.
export async function listening() {
  const web = createServer();
  await new Promise((resolve) => web.listen(0, '127.0.0.1', resolve));
  const rpc = new grpc.Server();
  const port = await new Promise((resolve, reject) => {
    const insecure = grpc.ServerCredentials.createInsecure();
    rpc.bindAsync('127.0.0.1:0', insecure, (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  return { web, rpc, http: `http://127.0.0.1:${web.address().port}`, grpc: `127.0.0.1:${port}` };
}

export function urls({ http, grpc }) {
  return { JSONRPC: `${http}/`, 'HTTP+JSON': http, GRPC: grpc };
}

// An executor of either release: what `play` yields is published as it comes.
export function executor(events, canceled) {
  return {
    async execute(context, bus) {
      for await (const event of events(context)) bus.publish(event);
      bus.finished();
    },
    async cancelTask(taskId, bus) {
      bus.publish(canceled(taskId));
    },
  };
}
