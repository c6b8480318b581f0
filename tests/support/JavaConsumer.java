import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own consumer of a group that brokers coordinate.
 *
 * Arguments: a topic, and properties of the consumer as key=value. Standard output has a line "PARTITION OFFSET" for each
 * record, which is committed after it, unless the partition has moved. The end of standard input closes the consumer.
 */
public final class JavaConsumer {
    public static void main(String[] arguments) {
        PrintStream records = System.out;
        System.setOut(System.err); // for loggers
        Properties properties = new Properties();
        for (String argument : List.of(arguments).subList(1, arguments.length)) {
            int equals = argument.indexOf('=');
            properties.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
        }
        Thread end = new Thread(JavaConsumer::awaitEnd, "end");
        end.setDaemon(true);
        end.start();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[0]));
            while (end.isAlive()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    records.println(record.partition() + " " + record.offset());
                }
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RebalanceInProgressException moved) {
                    System.err.println("not committed: " + moved);
                }
            }
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                // nothing is expected
            }
        } catch (IOException closed) {
            // as the end
        }
    }
}
