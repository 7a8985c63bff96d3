// An agent and a client of @a2a-js/sdk 1.
import {
  AgentCard,
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskArtifactUpdateEvent,
  TaskPushNotificationConfig,
  TaskStatusUpdateEvent,
} from 'a2a-js-1';
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from 'a2a-js-1/client';
import { GrpcTransportFactory } from 'a2a-js-1/client/grpc';
import { LegacyA2AService, legacyGrpcService } from 'a2a-js-1/compat/v0_3/server/grpc';
import * as errors from 'a2a-js-1/errors';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from 'a2a-js-1/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from 'a2a-js-1/server/express';
import { A2AService, grpcService } from 'a2a-js-1/server/grpc';
import express from 'express';

import { BYTES, DATA, play } from './script.js';
import { executor, listening, urls } from './serving.js';

function card(interfaces, extended) {
  const skills = [{ id: 'script', name: 'Script', description: 'Plays a script', tags: ['test'] }];
  if (extended) skills.push({ id: 'more', name: 'More', description: 'For those who may', tags: ['extended'] });
  return AgentCard.fromJSON({
    name: 'Scripted (JavaScript)',
    description: 'Does what it is told',
    version: '1.2.3',
    supportedInterfaces: interfaces,
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills,
  });
}

function interfaces(bindings, where, compat) {
  return bindings.map((binding) => ({
    url: where[binding],
    protocolBinding: binding,
    protocolVersion: compat ? '0.3' : '1.0',
  }));
}

// Builds the events of a run, from ProtoJSON.
function maker(taskId, contextId, message) {
  const told = Message.toJSON(message);
  const at = { taskId, contextId };
  const named = (state) => `TASK_STATE_${state.toUpperCase().replace('-', '_')}`;
  const artifact = (one, members) =>
    AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ ...at, artifact: one, ...members }));
  const status = (state, text) => ({
    state: named(state),
    timestamp: new Date().toISOString(),
    ...(text && {
      message: { messageId: `status-${named(state)}`, role: 'ROLE_AGENT', parts: [{ text }], ...at },
    }),
  });
  return {
    status: (state, text) =>
      AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...at, status: status(state, text) })),
    task: () => AgentEvent.task(Task.fromJSON({ id: taskId, contextId, status: status('submitted'), history: [told] })),
    chunk: (text, append, lastChunk) => artifact({ artifactId: 'out', parts: [{ text }] }, { append, lastChunk }),
    data: (name) =>
      artifact(
        {
          artifactId: 'data',
          name,
          parts: [
            { data: DATA, mediaType: 'application/json' },
            { raw: BYTES.toString('base64'), filename: 'x.bin', mediaType: 'image/png' },
            { url: 'https://example.org/x.png' },
          ],
        },
        { lastChunk: true, metadata: { step: 'data' } },
      ),
    copy: () =>
      artifact(
        { artifactId: 'copy', name: 'copy', parts: told.parts, metadata: told.metadata },
        { lastChunk: true },
      ),
    say: (text) =>
      AgentEvent.message(
        Message.fromJSON({ messageId: 'said', role: 'ROLE_AGENT', parts: [{ text }], contextId }),
      ),
    echo: () =>
      AgentEvent.message(
        Message.fromJSON({ ...told, messageId: 'echo', role: 'ROLE_AGENT', contextId, taskId: undefined }),
      ),
    failure: (reason, words) => {
      const known = Object.values(errors).find((one) => {
        return typeof one === 'function' && one.prototype instanceof errors.A2AError && new one().reason === reason;
      });
      return known ? new known(words) : new Error(words);
    },
  };
}

async function* events(context) {
  const message = context.userMessage;
  const text = message.parts.find((part) => part.content?.$case === 'text')?.content.value;
  let first = true;
  for await (const event of play(text, maker(context.taskId, context.contextId, message))) {
    // The SDK wants every turn to begin with a task or a message.
    if (first && context.task && event.kind !== 'task' && event.kind !== 'message') yield AgentEvent.task(context.task);
    first = false;
    yield event;
  }
}

function canceled(taskId, store) {
  return maker(taskId, store.get(taskId) ?? '', Message.fromJSON({})).status('canceled', '');
}

export async function agent(bindings, compat) {
  const ports = await listening();
  const shown = interfaces(bindings, urls(ports), compat);
  const contexts = new Map();
  const requestHandler = new DefaultRequestHandler(
    card(shown, false),
    new InMemoryTaskStore(),
    executor(
      (context) => {
        contexts.set(context.taskId, context.contextId);
        return events(context);
      },
      (taskId) => canceled(taskId, contexts),
    ),
    undefined,
    undefined,
    undefined,
    async () => card(shown, true),
  );
  const common = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: compat } };
  const app = express();
  app.use(
    '/.well-known/agent-card.json',
    agentCardHandler({ agentCardProvider: requestHandler, legacyCompat: { enabled: compat } }),
  );
  // The handler of JSON-RPC reads every body of a POST: it gets those of its own path only.
  if (bindings.includes('JSONRPC')) app.post('/', jsonRpcHandler(common));
  if (bindings.includes('HTTP+JSON')) app.use('/', restHandler(common));
  ports.web.on('request', app);
  if (compat) ports.rpc.addService(LegacyA2AService, legacyGrpcService(common));
  else ports.rpc.addService(A2AService, grpcService(common));
  return ports;
}

// A call whose request and response are these types.
function call(method, request, response) {
  return async (client, params, options) => {
    const answer = await client[method](request.fromJSON(params ?? {}), options);
    return response ? response.toJSON(answer) : {};
  };
}

async function* stream(events) {
  for await (const event of events) yield StreamResponse.toJSON(event);
}

const TRANSPORTS = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: GrpcTransportFactory };

export function client(compat) {
  return {
    // A client has one transport: a preference would fall back to another one.
    open(binding, origin) {
      const legacyCompat = { enabled: compat };
      const cardResolver = new DefaultAgentCardResolver({ legacyCompat });
      const factory = new ClientFactory({ transports: [new TRANSPORTS[binding]({ legacyCompat })], cardResolver });
      // The SDK asks for a card of 1.0 and has no option for the version: the path says that it is 0.3.
      return factory.createFromUrl(origin, compat ? '/.well-known/agent-card.json?version=0.3' : undefined);
    },
    unary: {
      async SendMessage(client, params, options) {
        const answer = await client.sendMessage(SendMessageRequest.fromJSON(params), options);
        return 'messageId' in answer ? { message: Message.toJSON(answer) } : { task: Task.toJSON(answer) };
      },
      GetTask: call('getTask', GetTaskRequest, Task),
      ListTasks: call('listTasks', ListTasksRequest, ListTasksResponse),
      CancelTask: call('cancelTask', CancelTaskRequest, Task),
      CreateTaskPushNotificationConfig: call(
        'createTaskPushNotificationConfig',
        TaskPushNotificationConfig,
        TaskPushNotificationConfig,
      ),
      GetTaskPushNotificationConfig: call(
        'getTaskPushNotificationConfig',
        GetTaskPushNotificationConfigRequest,
        TaskPushNotificationConfig,
      ),
      ListTaskPushNotificationConfigs: call(
        'listTaskPushNotificationConfig',
        ListTaskPushNotificationConfigsRequest,
        ListTaskPushNotificationConfigsResponse,
      ),
      DeleteTaskPushNotificationConfig: call(
        'deleteTaskPushNotificationConfig',
        DeleteTaskPushNotificationConfigRequest,
      ),
      // It is the extended one: the card that the client was made from says that there is one.
      GetExtendedAgentCard: async (client, _, options) => AgentCard.toJSON(await client.getAgentCard(options)),
    },
    streams: {
      SendStreamingMessage: (client, params, options) =>
        stream(client.sendMessageStream(SendMessageRequest.fromJSON(params), options)),
      SubscribeToTask: (client, params, options) =>
        stream(client.resubscribeTask(SubscribeToTaskRequest.fromJSON(params), options)),
    },
    // An error event of a stream is told as the cause of another error.
    error(error) {
      const said = error.reason ? error : (error.cause ?? error);
      return { type: said.reason ?? 'INTERNAL_ERROR', message: String(said.message) };
    },
  };
}
