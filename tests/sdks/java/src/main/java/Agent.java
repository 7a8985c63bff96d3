import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.a2a.server.ServerCallContext;
import io.a2a.server.auth.UnauthenticatedUser;
import io.a2a.server.events.InMemoryQueueManager;
import io.a2a.server.requesthandlers.DefaultRequestHandler;
import io.a2a.server.requesthandlers.RequestHandler;
import io.a2a.server.tasks.InMemoryPushNotificationConfigStore;
import io.a2a.server.tasks.InMemoryTaskStore;
import io.a2a.spec.AgentCard;
import io.a2a.spec.CancelTaskRequest;
import io.a2a.spec.DeleteTaskPushNotificationConfigRequest;
import io.a2a.spec.GetAuthenticatedExtendedCardRequest;
import io.a2a.spec.GetTaskPushNotificationConfigRequest;
import io.a2a.spec.GetTaskRequest;
import io.a2a.spec.InvalidRequestError;
import io.a2a.spec.JSONRPCErrorResponse;
import io.a2a.spec.ListTaskPushNotificationConfigRequest;
import io.a2a.spec.MethodNotFoundError;
import io.a2a.spec.NonStreamingJSONRPCRequest;
import io.a2a.spec.SendMessageRequest;
import io.a2a.spec.SendStreamingMessageRequest;
import io.a2a.spec.SetTaskPushNotificationConfigRequest;
import io.a2a.spec.StreamingJSONRPCRequest;
import io.a2a.spec.TaskResubscriptionRequest;
import io.a2a.transport.grpc.handler.CallContextFactory;
import io.a2a.transport.grpc.handler.GrpcHandler;
import io.a2a.transport.jsonrpc.handler.JSONRPCHandler;
import io.a2a.transport.rest.handler.RestHandler;
import io.a2a.util.Utils;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import jakarta.enterprise.inject.Instance;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The SDK's handlers behind the HTTP server of the JDK and a server of grpc-java; the routes are those of its reference servers. */
final class Agent {
    private static final Pattern CALL = Pattern.compile("/v1/tasks/([^/]+):(cancel|subscribe)");
    private static final Pattern CONFIGS = Pattern.compile("/v1/tasks/([^/]+)/pushNotificationConfigs(?:/([^/]+))?");
    private static final Pattern TASK = Pattern.compile("/v1/tasks/([^/]+)");

    private final JSONRPCHandler jsonrpc;
    private final RestHandler rest;
    private final AgentCard card;

    private Agent(AgentCard card, AgentCard extended, RequestHandler handler, Executor executor) {
        this.card = card;
        jsonrpc = new JSONRPCHandler(card, instance(extended), handler, executor);
        rest = new RestHandler(card, instance(extended), handler, executor);
    }

    static void serve(List<String> bindings) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        // The SDK looks for the reference servers of the bindings that a card names; here are others.
        System.setProperty("io.a2a.transport.skipValidation", "true");
        Executor executor = Executors.newCachedThreadPool();
        HttpServer web = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        Holder holder = new Holder(executor);
        Server rpc = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(holder).build().start();
        String http = "http://127.0.0.1:" + web.getAddress().getPort();
        String grpc = "127.0.0.1:" + rpc.getPort();
        Map<String, String> urls = Map.of("JSONRPC", http + "/", "HTTP+JSON", http, "GRPC", grpc);
        holder.card = Cards.card(bindings, urls, false);
        InMemoryTaskStore tasks = new InMemoryTaskStore();
        // No notification is sent: what is tried here is how they are configured.
        holder.handler = DefaultRequestHandler.create(
                new Script(), tasks, new InMemoryQueueManager(tasks), new InMemoryPushNotificationConfigStore(), task -> {}, executor);
        Agent agent = new Agent(holder.card, Cards.card(bindings, urls, true), holder.handler, executor);
        web.setExecutor(executor);
        web.createContext("/", agent::answer);
        web.start();
        System.out.println("ready http=" + http + " grpc=" + grpc);
        System.in.transferTo(OutputStream.nullOutputStream());
    }

    /** The gRPC service. Its port is in the card, so that the card is known later. */
    private static final class Holder extends GrpcHandler {
        private final Executor executor;
        private volatile AgentCard card;
        private volatile RequestHandler handler;

        Holder(Executor executor) {
            this.executor = executor;
        }

        @Override
        protected RequestHandler getRequestHandler() {
            return handler;
        }

        @Override
        protected AgentCard getAgentCard() {
            return card;
        }

        @Override
        protected CallContextFactory getCallContextFactory() {
            return null;
        }

        @Override
        protected Executor getExecutor() {
            return executor;
        }
    }

    /** What dependency injection would give a handler: an instance that there is. */
    @SuppressWarnings("unchecked")
    private static Instance<AgentCard> instance(AgentCard card) {
        return (Instance<AgentCard>) Proxy.newProxyInstance(
                Agent.class.getClassLoader(), new Class<?>[] {Instance.class}, (proxy, method, arguments) -> switch (method.getName()) {
                    case "get" -> card;
                    case "isResolvable" -> true;
                    case "isUnsatisfied", "isAmbiguous" -> false;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private static ServerCallContext context() {
        return new ServerCallContext(UnauthenticatedUser.INSTANCE, new HashMap<>(), Set.of());
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String path = exchange.getRequestURI().getPath();
            if (path.equals("/.well-known/agent-card.json")) {
                respond(exchange, 200, "application/json", Utils.toJsonString(card));
            } else if (path.equals("/")) {
                rpc(exchange, body);
            } else {
                rest(exchange, path, body);
            }
        }
    }

    private void rpc(HttpExchange exchange, String body) throws IOException {
        Object response;
        try {
            JsonNode node = Utils.OBJECT_MAPPER.readTree(body);
            String method = node.path("method").asText();
            if (method.equals(SendStreamingMessageRequest.METHOD) || method.equals(TaskResubscriptionRequest.METHOD)) {
                StreamingJSONRPCRequest<?> request = Utils.OBJECT_MAPPER.treeToValue(node, StreamingJSONRPCRequest.class);
                var events = request instanceof SendStreamingMessageRequest send
                        ? jsonrpc.onMessageSendStream(send, context())
                        : jsonrpc.onResubscribeToTask((TaskResubscriptionRequest) request, context());
                stream(exchange, events, Utils::toJsonString);
                return;
            }
            response = unary(Utils.OBJECT_MAPPER.treeToValue(node, NonStreamingJSONRPCRequest.class));
        } catch (JsonProcessingException e) {
            response = new JSONRPCErrorResponse(null, new InvalidRequestError());
        }
        respond(exchange, 200, "application/json", Utils.toJsonString(response));
    }

    private Object unary(NonStreamingJSONRPCRequest<?> request) {
        if (request instanceof SendMessageRequest one) {
            return jsonrpc.onMessageSend(one, context());
        } else if (request instanceof GetTaskRequest one) {
            return jsonrpc.onGetTask(one, context());
        } else if (request instanceof CancelTaskRequest one) {
            return jsonrpc.onCancelTask(one, context());
        } else if (request instanceof SetTaskPushNotificationConfigRequest one) {
            return jsonrpc.setPushNotificationConfig(one, context());
        } else if (request instanceof GetTaskPushNotificationConfigRequest one) {
            return jsonrpc.getPushNotificationConfig(one, context());
        } else if (request instanceof ListTaskPushNotificationConfigRequest one) {
            return jsonrpc.listPushNotificationConfig(one, context());
        } else if (request instanceof DeleteTaskPushNotificationConfigRequest one) {
            return jsonrpc.deletePushNotificationConfig(one, context());
        }
        return jsonrpc.onGetAuthenticatedExtendedCardRequest((GetAuthenticatedExtendedCardRequest) request, context());
    }

    private void rest(HttpExchange exchange, String path, String body) throws IOException {
        RestHandler.HTTPRestResponse response = restResponse(exchange, path, body);
        if (response instanceof RestHandler.HTTPRestStreamingResponse streaming) {
            stream(exchange, streaming.getPublisher(), Function.identity());
        } else {
            respond(exchange, response.getStatusCode(), response.getContentType(), response.getBody());
        }
    }

    private RestHandler.HTTPRestResponse restResponse(HttpExchange exchange, String path, String body) {
        String verb = exchange.getRequestMethod();
        Matcher call = CALL.matcher(path);
        Matcher configs = CONFIGS.matcher(path);
        Matcher task = TASK.matcher(path);
        switch (verb + " " + path) {
            case "POST /v1/message:send":
                return rest.sendMessage(body, context());
            case "POST /v1/message:stream":
                return rest.sendStreamingMessage(body, context());
            case "GET /v1/card":
                return rest.getAuthenticatedExtendedCard();
            default:
        }
        if (verb.equals("POST") && call.matches()) {
            return call.group(2).equals("cancel")
                    ? rest.cancelTask(call.group(1), context())
                    : rest.resubscribeTask(call.group(1), context());
        } else if (verb.equals("POST") && configs.matches()) {
            return rest.setTaskPushNotificationConfiguration(configs.group(1), body, context());
        } else if (verb.equals("GET") && configs.matches()) {
            return configs.group(2) == null
                    ? rest.listTaskPushNotificationConfigurations(configs.group(1), context())
                    : rest.getTaskPushNotificationConfiguration(configs.group(1), configs.group(2), context());
        } else if (verb.equals("DELETE") && configs.matches()) {
            return rest.deleteTaskPushNotificationConfiguration(configs.group(1), configs.group(2), context());
        } else if (verb.equals("GET") && task.matches()) {
            return rest.getTask(task.group(1), history(exchange), context());
        }
        return rest.createErrorResponse(new MethodNotFoundError());
    }

    /** As the reference server: absent is 0. */
    private static int history(HttpExchange exchange) {
        String query = exchange.getRequestURI().getQuery();
        Matcher found = Pattern.compile("(?:^|&)history_length=(\\d+)").matcher(query == null ? "" : query);
        return found.find() ? Integer.parseInt(found.group(1)) : 0;
    }

    private static void respond(HttpExchange exchange, int status, String type, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        if (body.length > 0) {
            exchange.getResponseBody().write(body);
        }
    }

    /** Writes events until there are no more, or nobody reads them. */
    private static <T> void stream(HttpExchange exchange, Flow.Publisher<T> events, Function<? super T, String> written)
            throws IOException {
        exchange.getResponseHeaders().set("Content-Type", "text/event-stream");
        exchange.sendResponseHeaders(200, 0);
        OutputStream out = exchange.getResponseBody();
        CountDownLatch ended = new CountDownLatch(1);
        events.subscribe(new Flow.Subscriber<T>() {
            private Flow.Subscription subscription;

            @Override
            public void onSubscribe(Flow.Subscription made) {
                subscription = made;
                made.request(1);
            }

            @Override
            public void onNext(T event) {
                try {
                    out.write(("data: " + written.apply(event) + "\n\n").getBytes(StandardCharsets.UTF_8));
                    out.flush();
                    subscription.request(1);
                } catch (IOException e) {
                    subscription.cancel();
                    ended.countDown();
                }
            }

            @Override
            public void onError(Throwable error) {
                ended.countDown();
            }

            @Override
            public void onComplete() {
                ended.countDown();
            }
        });
        try {
            ended.await();
        } catch (InterruptedException e) {
            throw new UncheckedIOException(new IOException(e));
        }
    }
}
