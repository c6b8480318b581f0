import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a group that brokers coordinate, by Kafka's own consumer, each on a thread of its own.
 *
 * Arguments: a topic, and properties of the consumers as key=value. Standard input has lines "join NAME" and "leave NAME".
 */
public final class GroupMembers {
    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        for (String argument : List.of(arguments).subList(1, arguments.length)) {
            int equals = argument.indexOf('=');
            properties.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
        }
        Map<String, Thread> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("join")) {
                Thread member = new Thread(() -> consume(properties, arguments[0]), words[1]);
                member.setDaemon(true);
                member.start();
                members.put(words[1], member);
            } else {
                members.remove(words[1]).interrupt();
            }
        }
    }

    private static void consume(Properties properties, String topic) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes);
        try {
            consumer.subscribe(List.of(topic));
            while (true) {
                consumer.poll(Duration.ofMillis(100));
            }
        } catch (org.apache.kafka.common.errors.InterruptException left) {
            Thread.interrupted(); // or close() would not wait for the coordinator
            consumer.close();
        }
    }
}
