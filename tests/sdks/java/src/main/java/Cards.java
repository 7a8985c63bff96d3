import io.a2a.spec.AgentCapabilities;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.AgentSkill;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The card of the agent. */
final class Cards {
    private Cards() {}

    static AgentCard card(List<String> bindings, Map<String, String> urls, boolean extended) {
        List<AgentSkill> skills = new ArrayList<>();
        skills.add(skill("script", "Script", "Plays a script", "test"));
        if (extended) {
            skills.add(skill("more", "More", "For those who may", "extended"));
        }
        return new AgentCard.Builder()
                .name("Scripted (Java)")
                .description("Does what it is told")
                .version("1.2.3")
                .protocolVersion("0.3.0")
                .url(urls.get(bindings.get(0)))
                .preferredTransport(bindings.get(0))
                .additionalInterfaces(bindings.stream().map(one -> new AgentInterface(one, urls.get(one))).toList())
                .capabilities(new AgentCapabilities.Builder().streaming(true).pushNotifications(true).build())
                .defaultInputModes(List.of("text/plain"))
                .defaultOutputModes(List.of("text/plain"))
                .skills(skills)
                .supportsAuthenticatedExtendedCard(true)
                .build();
    }

    private static AgentSkill skill(String id, String name, String description, String tag) {
        return new AgentSkill.Builder().id(id).name(name).description(description).tags(List.of(tag)).build();
    }
}
