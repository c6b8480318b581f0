// Records tests/vectors/java_config_names.json: every configuration key of Kafka's Java clients.
//
// Recipe, with Java 17 and kafka-clients-3.9.1.jar and slf4j-api-1.7.36.jar (Maven: org.apache.kafka:kafka-clients:3.9.1)
// in the folder LIB, from the root of this repository:
//
//     java -cp "$LIB/*" tests/vectors/JavaConfigNames.java > tests/vectors/java_config_names.json

import java.util.Collection;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.AppInfoParser;

public class JavaConfigNames {
    public static void main(String[] arguments) {
        System.out.println("{");
        System.out.println("  \"tool\": \"kafka-clients " + AppInfoParser.getVersion() + ": ConsumerConfig and ProducerConfig\",");
        System.out.println("  \"recipe\": \"tests/vectors/JavaConfigNames.java\",");
        System.out.println("  \"consumer\": " + list(ConsumerConfig.configNames()) + ",");
        System.out.println("  \"producer\": " + list(ProducerConfig.configNames()) + ",");
        System.out.println("  \"passwords\": " + list(passwords()));
        System.out.println("}");
    }

    private static Collection<String> passwords() {
        return Stream.of(ConsumerConfig.configDef(), ProducerConfig.configDef())
            .flatMap(definition -> definition.configKeys().values().stream())
            .filter(key -> key.type == ConfigDef.Type.PASSWORD).map(key -> key.name).collect(Collectors.toSet());
    }

    private static String list(Collection<String> names) {
        return new TreeSet<>(names).stream().map(name -> "    \"" + name + "\"").collect(Collectors.joining(",\n", "[\n", "\n  ]"));
    }
}
