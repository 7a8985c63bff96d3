import java.util.ArrayList;
import java.util.List;

/**
 * Agents and clients of a2a-java 0.3 to test against.
 *
 * <pre>
 * java Main agent [--binding NAME]...   plays scripts, until its standard input ends
 * java Main client                      answers requests on standard input, see ../lines.md (in the words of 0.3)
 * </pre>
 */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        // What the SDK logs is of no use here.
        java.util.logging.LogManager.getLogManager().reset();
        if (arguments.length > 0 && arguments[0].equals("client")) {
            new Lines().run();
            System.exit(0);
        }
        List<String> bindings = new ArrayList<>();
        for (int i = 1; i + 1 < arguments.length; i += 2) {
            bindings.add(arguments[i + 1]);
        }
        Agent.serve(bindings.isEmpty() ? List.of("JSONRPC", "HTTP+JSON", "GRPC") : bindings);
        System.exit(0);
    }
}
