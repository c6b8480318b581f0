// Sends records for tests/vectors/record_batches.py, by Kafka's Java producer: of each codec, and in transactions.
// Arguments: the bootstrap servers. The topics java-CODEC and transactions exist, with one partition each.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class RecordBatchProducer {
    private static final long TIME_MS = 1_700_000_000_000L;

    public static void main(String[] arguments) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<byte[], byte[]> producer = producer(arguments[0], Map.of("compression.type", codec))) {
                for (int n = 0; n < 20; n++) {
                    producer.send(record("java-" + codec, n));
                    if (n % 8 == 7) producer.flush();
                }
            }
        }
        transactions(arguments[0]);
    }

    private static void transactions(String servers) {
        KafkaProducer<byte[], byte[]> first = producer(servers, Map.of("transactional.id", "first"));
        KafkaProducer<byte[], byte[]> second = producer(servers, Map.of("transactional.id", "second", "compression.type", "lz4"));
        KafkaProducer<byte[], byte[]> plain = producer(servers, Map.of());
        first.initTransactions();
        second.initTransactions();
        for (int n = 0; n < 6; n++) {
            first.beginTransaction();
            if (n % 2 == 0) second.beginTransaction();
            send(first, 3 * n, 3);
            send(second, 100 + 3 * n, 3);
            send(plain, 200 + n, 1);
            if (n % 3 == 0) first.abortTransaction(); else first.commitTransaction();
            if (n == 3) second.abortTransaction(); else if (n % 2 == 1) second.commitTransaction();
        }
        first.close();
        second.close();
        plain.close();
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, int from, int count) {
        for (int n = from; n < from + count; n++) producer.send(record("transactions", n));
        producer.flush();
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int n) {
        byte[] key = n % 4 == 0 ? null : ("key " + n).getBytes();
        byte[] value = n % 5 == 0 ? null : ("a value that repeats; ".repeat(n % 7) + n).getBytes();
        List<Header> headers = new ArrayList<>();
        for (int i = 0; i < n % 3; i++) headers.add(new RecordHeader("h" + i, i == 1 ? null : new byte[] {(byte) n, 0, -1}));
        // Markers have the time of day: records with another one would begin a segment at each marker, and end the response.
        Long time = topic.equals("transactions") ? null : (Long) (TIME_MS + 1000L * (n % 6));
        return new ProducerRecord<>(topic, 0, time, key, n % 9 == 8 ? new byte[0] : value, headers);
    }

    private static KafkaProducer<byte[], byte[]> producer(String servers, Map<String, Object> more) {
        Map<String, Object> properties = new HashMap<>(more);
        properties.put("bootstrap.servers", servers);
        properties.put("linger.ms", 500);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
