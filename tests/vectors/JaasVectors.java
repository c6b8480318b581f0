// Records tests/vectors/jaas.json: how Kafka's Java client reads sasl.jaas.config.
//
// Recipe, with Java 17 and kafka-clients-3.9.1.jar and slf4j-api-1.7.36.jar (Maven: org.apache.kafka:kafka-clients:3.9.1)
// in the folder LIB, from the root of this repository:
//
//     java -cp "$LIB/*" tests/vectors/JaasVectors.java > tests/vectors/jaas.json

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.utils.AppInfoParser;

public class JaasVectors {
    private static final List<String> TEXTS = List.of(
        "a.b.PlainLoginModule required username=\"me\" password=\"secret\";",
        "a.b.PlainLoginModule required username='me' password='it is \"so\"';",
        "  a.b.PlainLoginModule\n  REQUIRED\n  username=\"me\"\n  password=\"two\\\\three\\\"four\" ;\n",
        "a.b.PlainLoginModule optional username=me password=secret-1_$x.y;",
        "a.b.PlainLoginModule required username = \"me\" password= \"a=b;c//d/*e*/\";",
        "a.b.PlainLoginModule required username=\"me\" /* why */ password=\"x\"; // end",
        "a.b.PlainLoginModule required username=\"Zo\u00eb\" password=\"\u65e5\u672c\";",
        "a.b.PlainLoginModule required username=\"t\\tn\\nq\\x\" password=\"\\101\\7\\377\";",
        "a.b.PlainLoginModule required username=\"\" password=\"\";",
        "a.b.PlainLoginModule required \"username\"=\"me\" 'password'=\"x\";",
        "a.b.PlainLoginModule required;",
        "a.b.PlainLoginModule requisite debug=true;",
        "a.b.PlainLoginModule required username=\"me\" username=\"you\";",
        "$a_b.Module1 sufficient _k=$v;",
        "a.b.PlainLoginModule required username=\"me\" password=\"secret\"",
        "a.b.PlainLoginModule required username password=\"secret\";",
        "a.b.PlainLoginModule required username=\"me\" password=;",
        "a.b.PlainLoginModule required password=1234;",
        "a.b.PlainLoginModule mandatory username=\"me\";",
        "a.b.PlainLoginModule username=\"me\" password=\"secret\";",
        "a.b.PlainLoginModule;",
        "a.b.PlainLoginModule",
        "a.b.PlainLoginModule required username=\"me;",
        "a.b.Plain required; a.b.Scram required;",
        "   ");

    public static void main(String[] arguments) {
        System.out.println("{");
        System.out.println("  \"tool\": \"kafka-clients " + AppInfoParser.getVersion() + ": JaasContext.loadClientContext\",");
        System.out.println("  \"recipe\": \"tests/vectors/JaasVectors.java\",");
        System.out.println("  \"columns\": [\"sasl.jaas.config\", \"login module, or null where Java refuses\", \"options\"],");
        System.out.println("  \"texts\": [");
        System.out.println(TEXTS.stream().map(JaasVectors::row).collect(Collectors.joining(",\n")));
        System.out.println("  ]");
        System.out.println("}");
    }

    private static String row(String text) {
        try {
            AppConfigurationEntry entry = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)))
                .configurationEntries().get(0);
            String options = new TreeMap<>(entry.getOptions()).entrySet().stream()
                .map(o -> json(o.getKey()) + ": " + json(o.getValue().toString())).collect(Collectors.joining(", ", "{", "}"));
            return "    [" + json(text) + ", " + json(entry.getLoginModuleName()) + ", " + options + "]";
        } catch (RuntimeException refused) {
            return "    [" + json(text) + ", null, {}]";
        }
    }

    private static String json(String text) {
        return text.chars().mapToObj(c -> c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", c)
            : String.valueOf((char) c)).collect(Collectors.joining("", "\"", "\""));
    }
}
