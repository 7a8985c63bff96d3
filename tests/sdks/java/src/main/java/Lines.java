import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.a2a.A2A;
import io.a2a.client.Client;
import io.a2a.client.ClientBuilder;
import io.a2a.client.transport.grpc.GrpcTransport;
import io.a2a.client.transport.grpc.GrpcTransportConfigBuilder;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfigBuilder;
import io.a2a.client.transport.rest.RestTransport;
import io.a2a.client.transport.rest.RestTransportConfigBuilder;
import io.a2a.client.transport.spi.ClientTransport;
import io.a2a.spec.A2AClientException;
import io.a2a.spec.DeleteTaskPushNotificationConfigParams;
import io.a2a.spec.GetTaskPushNotificationConfigParams;
import io.a2a.spec.JSONRPCError;
import io.a2a.spec.ListTaskPushNotificationConfigParams;
import io.a2a.spec.Message;
import io.a2a.spec.MessageSendParams;
import io.a2a.spec.StreamingEventKind;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskPushNotificationConfig;
import io.a2a.spec.TaskQueryParams;
import io.a2a.spec.TaskStatusUpdateEvent;
import io.a2a.util.Utils;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** Answers requests on standard input (../lines.md), in the words of 0.3, through the SDK's client transports. */
final class Lines {
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Map<Integer, ClientTransport> clients = new ConcurrentHashMap<>();
    private final Set<Integer> cancelled = ConcurrentHashMap.newKeySet();

    void run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService pool = Executors.newCachedThreadPool();
        out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = Utils.OBJECT_MAPPER.readTree(line);
            int id = request.get("id").asInt();
            if (request.path("cancel").asBoolean()) {
                // The SDK cannot cancel a stream: what still comes of it is not told.
                cancelled.add(id);
            } else {
                pool.execute(() -> answer(id, request));
            }
        }
    }

    private void say(int id, String member, JsonNode value) {
        ObjectNode line = Utils.OBJECT_MAPPER.createObjectNode().put("id", id);
        line.set(member, value);
        String text = line.toString();
        synchronized (out) {
            if (!cancelled.contains(id)) {
                out.println(text);
            }
        }
    }

    private void fail(int id, Throwable error) {
        JSONRPCError said = null;
        for (Throwable cause = error; cause != null && said == null; cause = cause.getCause()) {
            said = cause instanceof JSONRPCError known ? known : null;
        }
        ObjectNode told = Utils.OBJECT_MAPPER.createObjectNode();
        if (said == null) {
            told.put("type", "INTERNAL_ERROR");
        } else {
            told.put("type", said.getClass().getSimpleName()).put("code", said.getCode());
        }
        told.put("message", String.valueOf(error.getMessage()));
        say(id, "error", told);
    }

    private void answer(int id, JsonNode request) {
        try {
            String operation = request.get("operation").asText();
            String binding = request.get("binding").asText();
            String origin = request.get("origin").asText();
            boolean streams = operation.equals("message/stream") || operation.equals("tasks/resubscribe");
            // The SDK cancels a stream over HTTP after its last event (client.transport.rest.sse.RestSSEEventListener).
            // Where the response has ended by then, that closes a connection which another request may have taken
            // over: each stream has a client of its own.
            ClientTransport client = streams && !binding.equals("GRPC")
                    ? client(binding, origin)
                    : clients.computeIfAbsent(request.get("client").asInt(), key -> client(binding, origin));
            JsonNode params = request.get("params");
            switch (operation) {
                case "message/stream" -> follow(id, (events, errors) -> client.sendMessageStreaming(
                        read(params, MessageSendParams.class), events, errors, null));
                case "tasks/resubscribe" -> follow(id, (events, errors) -> client.resubscribe(
                        read(params, TaskIdParams.class), events, errors, null));
                default -> say(id, "result", Utils.OBJECT_MAPPER.valueToTree(unary(client, operation, params)));
            }
        } catch (Throwable e) {
            // The errors of the protocol are of class Error here.
            fail(id, e);
        }
    }

    private static Object unary(ClientTransport client, String operation, JsonNode params) throws Exception {
        return switch (operation) {
            case "message/send" -> client.sendMessage(read(params, MessageSendParams.class), null);
            case "tasks/get" -> client.getTask(read(params, TaskQueryParams.class), null);
            case "tasks/cancel" -> client.cancelTask(read(params, TaskIdParams.class), null);
            case "tasks/pushNotificationConfig/set" ->
                client.setTaskPushNotificationConfiguration(read(params, TaskPushNotificationConfig.class), null);
            case "tasks/pushNotificationConfig/get" ->
                client.getTaskPushNotificationConfiguration(read(params, GetTaskPushNotificationConfigParams.class), null);
            case "tasks/pushNotificationConfig/list" ->
                client.listTaskPushNotificationConfigurations(read(params, ListTaskPushNotificationConfigParams.class), null);
            case "tasks/pushNotificationConfig/delete" -> {
                client.deleteTaskPushNotificationConfigurations(read(params, DeleteTaskPushNotificationConfigParams.class), null);
                yield null;
            }
            case "agent/getAuthenticatedExtendedCard" -> client.getAgentCard(null);
            default -> throw new IllegalArgumentException("no such operation: " + operation);
        };
    }

    private static <T> T read(JsonNode params, Class<T> type) throws Exception {
        return Utils.OBJECT_MAPPER.treeToValue(params, type);
    }

    private interface Streaming {
        void start(Consumer<StreamingEventKind> events, Consumer<Throwable> errors) throws Exception;
    }

    /**
     * Over gRPC the SDK does not tell that a stream has ended (EventStreamObserver.onCompleted): a final status and a
     * message are the end on every binding, as they are for its own Client.
     */
    private void follow(int id, Streaming streaming) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        streaming.start(
                event -> {
                    if (ended.get()) {
                        return;
                    }
                    say(id, "event", Utils.OBJECT_MAPPER.valueToTree(event));
                    if ((event instanceof Message || event instanceof TaskStatusUpdateEvent status && status.isFinal())
                            && ended.compareAndSet(false, true)) {
                        say(id, "end", Utils.OBJECT_MAPPER.valueToTree(true));
                    }
                },
                error -> {
                    if (!ended.compareAndSet(false, true)) {
                        return;
                    }
                    if (error == null) {
                        say(id, "end", Utils.OBJECT_MAPPER.valueToTree(true));
                    } else {
                        fail(id, error);
                    }
                });
    }

    /**
     * The transport that the SDK makes from the card of an agent. It is the only one that is named to it: a preference
     * would fall back to another one. Its Client tells events in a form of its own, so that what it keeps is taken out.
     */
    private static ClientTransport client(String binding, String origin) {
        ClientBuilder builder = Client.builder(A2A.getAgentCard(origin));
        switch (binding) {
            case "JSONRPC" -> builder.withTransport(JSONRPCTransport.class, new JSONRPCTransportConfigBuilder());
            case "HTTP+JSON" -> builder.withTransport(RestTransport.class, new RestTransportConfigBuilder());
            default -> builder.withTransport(GrpcTransport.class, new GrpcTransportConfigBuilder()
                    .channelFactory(url -> NettyChannelBuilder.forTarget(url).usePlaintext().build()));
        }
        try {
            Field kept = Client.class.getDeclaredField("clientTransport");
            kept.setAccessible(true);
            return (ClientTransport) kept.get(builder.build());
        } catch (ReflectiveOperationException | A2AClientException e) {
            throw new IllegalStateException(e);
        }
    }
}
