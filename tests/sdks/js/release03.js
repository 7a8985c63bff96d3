// An agent and a client of @a2a-js/sdk 0.3.
import * as errors from 'a2a-js-03/client';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from 'a2a-js-03/client';
import { GrpcTransportFactory } from 'a2a-js-03/client/grpc';
import { A2AError, DefaultRequestHandler, InMemoryTaskStore } from 'a2a-js-03/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from 'a2a-js-03/server/express';
import { A2AService, grpcService } from 'a2a-js-03/server/grpc';
import express from 'express';

import { BYTES, DATA, play } from './script.js';
import { executor, listening, urls } from './serving.js';

// States that end a turn.
const FINAL = new Set(['input-required', 'completed', 'failed', 'rejected', 'canceled']);

const CODES = {
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  INVALID_PARAMS: -32602,
};

function card(bindings, where, extended) {
  const skills = [{ id: 'script', name: 'Script', description: 'Plays a script', tags: ['test'] }];
  if (extended) skills.push({ id: 'more', name: 'More', description: 'For those who may', tags: ['extended'] });
  return {
    name: 'Scripted (JavaScript 0.3)',
    description: 'Does what it is told',
    version: '1.2.3',
    protocolVersion: '0.3.0',
    url: where[bindings[0]],
    preferredTransport: bindings[0],
    additionalInterfaces: bindings.map((transport) => ({ transport, url: where[transport] })),
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills,
    supportsAuthenticatedExtendedCard: true,
  };
}

function maker(taskId, contextId, message) {
  const at = { taskId, contextId };
  const said = (messageId, parts, members) => ({ kind: 'message', messageId, role: 'agent', parts, ...members });
  const text = (words) => ({ kind: 'text', text: words });
  const artifact = (one, members) => ({ kind: 'artifact-update', ...at, artifact: one, ...members });
  const status = (state, words) => ({
    state,
    timestamp: new Date().toISOString(),
    ...(words && { message: said(`status-${state}`, [text(words)], at) }),
  });
  return {
    status: (state, words) => ({ kind: 'status-update', ...at, status: status(state, words), final: FINAL.has(state) }),
    task: () => ({ kind: 'task', id: taskId, contextId, status: status('submitted'), history: [message] }),
    chunk: (words, append, lastChunk) => artifact({ artifactId: 'out', parts: [text(words)] }, { append, lastChunk }),
    data: (name) =>
      artifact(
        {
          artifactId: 'data',
          name,
          parts: [
            { kind: 'data', data: DATA },
            { kind: 'file', file: { bytes: BYTES.toString('base64'), name: 'x.bin', mimeType: 'image/png' } },
            { kind: 'file', file: { uri: 'https://example.org/x.png' } },
          ],
        },
        { lastChunk: true, metadata: { step: 'data' } },
      ),
    copy: () =>
      artifact(
        { artifactId: 'copy', name: 'copy', parts: message.parts, metadata: message.metadata },
        { lastChunk: true },
      ),
    say: (words) => said('said', [text(words)], { contextId }),
    echo: () =>
      said('echo', message.parts, {
        contextId,
        metadata: message.metadata,
        extensions: message.extensions,
        referenceTaskIds: message.referenceTaskIds,
      }),
    failure: (reason, words) => new A2AError(CODES[reason] ?? -32603, words),
  };
}

export async function agent(bindings) {
  const ports = await listening();
  const where = urls(ports);
  const contexts = new Map();
  const requestHandler = new DefaultRequestHandler(
    card(bindings, where, false),
    new InMemoryTaskStore(),
    executor(
      ({ taskId, contextId, userMessage }) => {
        contexts.set(taskId, contextId);
        const text = userMessage.parts.find((part) => part.kind === 'text')?.text;
        return play(text, maker(taskId, contextId, userMessage));
      },
      (taskId) => maker(taskId, contexts.get(taskId), {}).status('canceled', ''),
    ),
    undefined,
    undefined,
    undefined,
    async () => card(bindings, where, true),
  );
  const common = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  const app = express();
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  if (bindings.includes('JSONRPC')) app.post('/', jsonRpcHandler(common));
  if (bindings.includes('HTTP+JSON')) app.use('/', restHandler(common));
  ports.web.on('request', app);
  ports.rpc.addService(A2AService, grpcService(common));
  return ports;
}

// The SDK's classes of errors, by the reason that each stands for.
const REASONS = [
  ['TASK_NOT_FOUND', errors.TaskNotFoundError],
  ['TASK_NOT_CANCELABLE', errors.TaskNotCancelableError],
  ['PUSH_NOTIFICATION_NOT_SUPPORTED', errors.PushNotificationNotSupportedError],
  ['UNSUPPORTED_OPERATION', errors.UnsupportedOperationError],
  ['CONTENT_TYPE_NOT_SUPPORTED', errors.ContentTypeNotSupportedError],
  ['INVALID_AGENT_RESPONSE', errors.InvalidAgentResponseError],
  ['EXTENDED_AGENT_CARD_NOT_CONFIGURED', errors.AuthenticatedExtendedCardNotConfiguredError],
];

// Over JSON-RPC the SDK keeps what the agent said; an error in a stream is the cause of another one.
function told(error) {
  const said = (error.errorResponse ?? error.cause?.errorResponse)?.error;
  if (said) return { type: 'JSONRPC', code: said.code, message: said.message };
  const reason = REASONS.find(([, known]) => error instanceof known)?.[0];
  return { type: reason ?? 'INTERNAL_ERROR', message: String(error.message) };
}

const call = (method) => (client, params, options) => client[method](params, options);

const TRANSPORTS = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: GrpcTransportFactory };

export function client() {
  return {
    // A client has one transport: a preference would fall back to another one.
    open: (binding, origin) => new ClientFactory({ transports: [new TRANSPORTS[binding]()] }).createFromUrl(origin),
    unary: {
      'message/send': call('sendMessage'),
      'tasks/get': call('getTask'),
      'tasks/cancel': call('cancelTask'),
      'tasks/pushNotificationConfig/set': call('setTaskPushNotificationConfig'),
      'tasks/pushNotificationConfig/get': call('getTaskPushNotificationConfig'),
      'tasks/pushNotificationConfig/list': call('listTaskPushNotificationConfig'),
      'tasks/pushNotificationConfig/delete': call('deleteTaskPushNotificationConfig'),
      // It is the extended one: the card that the client was made from says that there is one.
      'agent/getAuthenticatedExtendedCard': (client, _, options) => client.getAgentCard(options),
    },
    streams: {
      'message/stream': call('sendMessageStream'),
      'tasks/resubscribe': call('resubscribeTask'),
    },
    error: told,
  };
}
