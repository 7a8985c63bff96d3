import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.a2a.server.agentexecution.AgentExecutor;
import io.a2a.server.agentexecution.RequestContext;
import io.a2a.server.events.EventQueue;
import io.a2a.spec.ContentTypeNotSupportedError;
import io.a2a.spec.Event;
import io.a2a.spec.InternalError;
import io.a2a.spec.InvalidParamsError;
import io.a2a.spec.JSONRPCError;
import io.a2a.spec.Message;
import io.a2a.spec.StreamingEventKind;
import io.a2a.spec.TextPart;
import io.a2a.spec.UnsupportedOperationError;
import io.a2a.util.Utils;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** An executor that does what each message says (tests/interop/script.py). Events are built as JSON and read by the SDK. */
final class Script implements AgentExecutor {
    private static final String PREFIX = "script:";
    /** Milliseconds between two events of a {@code tick} step. */
    private static final long TICK = 50;
    /** Seconds after which a {@code hold} gives up. */
    private static final long PATIENCE = 240;

    private static final Map<String, String> STATES = Map.of(
            "work", "working", "ask", "input-required", "auth", "auth-required", "done", "completed",
            "fail", "failed", "reject", "rejected", "cancel", "canceled");
    private static final Set<String> FINAL =
            Set.of("input-required", "completed", "failed", "rejected", "canceled");

    /** Named events: one message waits for what another one sets. */
    private final Map<String, CountDownLatch> gates = new ConcurrentHashMap<>();

    private CountDownLatch gate(String name) {
        return gates.computeIfAbsent(name, one -> new CountDownLatch(1));
    }

    @Override
    public void execute(RequestContext context, EventQueue queue) throws JSONRPCError {
        try {
            play(context, queue);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void cancel(RequestContext context, EventQueue queue) throws JSONRPCError {
        queue.enqueueEvent(event(status(context, "canceled", "")));
    }

    private void play(RequestContext context, EventQueue queue) throws InterruptedException {
        Message message = context.getMessage();
        boolean open = false;
        for (String step : steps(message)) {
            String[] words = step.strip().split(" ", 2);
            String verb = words[0];
            String text = words.length > 1 ? words[1].strip() : "";
            switch (verb) {
                case "open" -> queue.enqueueEvent(event(task(context)));
                case "chunk", "last" -> {
                    ObjectNode artifact = object().put("artifactId", "out");
                    artifact.putArray("parts").add(textPart(text));
                    queue.enqueueEvent(event(update(context, artifact).put("append", open).put("lastChunk", verb.equals("last"))));
                    open = verb.equals("chunk");
                }
                case "data" -> queue.enqueueEvent(event(data(context, text)));
                case "copy" -> {
                    ObjectNode told = tree(message);
                    ObjectNode artifact = object().put("artifactId", "copy").put("name", "copy");
                    artifact.set("parts", told.get("parts"));
                    artifact.set("metadata", told.get("metadata"));
                    queue.enqueueEvent(event(update(context, artifact).put("lastChunk", true)));
                }
                case "hold" -> gate(text).await(PATIENCE, TimeUnit.SECONDS);
                case "tick" -> {
                    do {
                        queue.enqueueEvent(event(status(context, "working", "")));
                    } while (!gate(text).await(TICK, TimeUnit.MILLISECONDS));
                }
                case "free" -> gate(text).countDown();
                case "say" -> {
                    ObjectNode said = message("said").put("contextId", context.getContextId());
                    said.putArray("parts").add(textPart(text));
                    queue.enqueueEvent(event(said));
                }
                case "echo" -> {
                    ObjectNode told = tree(message).put("messageId", "echo").put("role", "agent");
                    told.put("contextId", context.getContextId());
                    told.remove("taskId");
                    queue.enqueueEvent(event(told));
                }
                case "raise" -> throw failure(text);
                default -> queue.enqueueEvent(event(status(context, STATES.get(verb), text)));
            }
        }
    }

    private static String[] steps(Message message) {
        String text = message.getParts().stream()
                .filter(TextPart.class::isInstance)
                .map(part -> ((TextPart) part).getText())
                .findFirst()
                .orElse("");
        return text.startsWith(PREFIX) ? text.substring(PREFIX.length()).split(";") : new String[] {"echo"};
    }

    private static JSONRPCError failure(String text) {
        String[] words = text.split(" ", 2);
        String said = words.length > 1 ? words[1] : "";
        return switch (words[0]) {
            case "CONTENT_TYPE_NOT_SUPPORTED" -> new ContentTypeNotSupportedError(null, said, null);
            case "UNSUPPORTED_OPERATION" -> new UnsupportedOperationError(null, said, null);
            case "INVALID_PARAMS" -> new InvalidParamsError(said);
            default -> new InternalError(said);
        };
    }

    private static Event event(ObjectNode tree) {
        return (Event) Utils.OBJECT_MAPPER.convertValue(tree, StreamingEventKind.class);
    }

    private static ObjectNode tree(Message message) {
        return Utils.OBJECT_MAPPER.valueToTree(message);
    }

    private static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }

    private static ObjectNode textPart(String text) {
        return object().put("kind", "text").put("text", text);
    }

    private static ObjectNode message(String id) {
        return object().put("kind", "message").put("messageId", id).put("role", "agent");
    }

    private static ObjectNode at(RequestContext context, String kind) {
        return object().put("kind", kind).put("taskId", context.getTaskId()).put("contextId", context.getContextId());
    }

    private static ObjectNode task(RequestContext context) {
        ObjectNode task = object().put("kind", "task").put("id", context.getTaskId());
        task.put("contextId", context.getContextId());
        task.putObject("status").put("state", "submitted").put("timestamp", Instant.now().toString());
        task.putArray("history").add(tree(context.getMessage()));
        return task;
    }

    private static ObjectNode status(RequestContext context, String state, String text) {
        ObjectNode made = at(context, "status-update").put("final", FINAL.contains(state));
        ObjectNode status = made.putObject("status").put("state", state).put("timestamp", Instant.now().toString());
        if (!text.isEmpty()) {
            ObjectNode said = message("status-" + state);
            said.put("taskId", context.getTaskId()).put("contextId", context.getContextId());
            said.putArray("parts").add(textPart(text));
            status.set("message", said);
        }
        return made;
    }

    private static ObjectNode update(RequestContext context, ObjectNode artifact) {
        ObjectNode made = at(context, "artifact-update");
        made.set("artifact", artifact);
        return made;
    }

    private static ObjectNode data(RequestContext context, String name) {
        ObjectNode artifact = object().put("artifactId", "data").put("name", name);
        ArrayNode parts = artifact.putArray("parts");
        ObjectNode data = parts.addObject().put("kind", "data").putObject("data").put("n", 7).put("half", 0.5);
        data.putArray("list").addNull().add(true).addObject().put("deep", "x");
        byte[] bytes = new byte[16];
        for (int i = 1; i < bytes.length; i += 2) {
            bytes[i] = (byte) 0xff;
        }
        parts.addObject().put("kind", "file").putObject("file")
                .put("bytes", Base64.getEncoder().encodeToString(bytes)).put("name", "x.bin").put("mimeType", "image/png");
        parts.addObject().put("kind", "file").putObject("file").put("uri", "https://example.org/x.png");
        ObjectNode made = update(context, artifact).put("lastChunk", true);
        made.putObject("metadata").put("step", "data");
        return made;
    }
}
