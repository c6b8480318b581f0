import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * Kafka's old high-level consumer, under remote control. Compiles against Kafka 0.8.2.2 and 1.1.1.
 *
 * Arguments: --topics a=1,b=2 (streams by topic), or --whitelist REGEX or --blacklist REGEX with --streams N; and
 * properties of the consumer as key=value.
 *
 * Standard output has one JSON object per line: {"event":"ready"} once there are streams, {"event":"record",...} with key
 * and value in base64 or null, {"event":"committed"}, {"event":"stopped"}, {"event":"failed","during":...,"message":...}.
 * Standard input takes the commands "commit" and "stop". SIGTERM also stops it. Everything else goes to standard error.
 *
 * If the streams cannot be created, e.g. after the last failed rebalance, shuts the connector down and creates another one.
 * Otherwise the member would own partitions and read none.
 */
public final class OldConsumer {
    private static final int RETRY_MS = 500;
    private static final int LAST_RECORDS_MS = 5000;

    private final Properties properties = new Properties();
    private final Map<String, Integer> topics = new HashMap<>();
    private final List<Thread> readers = new ArrayList<>();
    private final OutputStream events = new FileOutputStream(FileDescriptor.out);
    // Records are taken and reported under this lock. A "committed" event follows every record that it covers, and none is
    // taken after stopping is set.
    private final Object gate = new Object();
    private TopicFilter filter;
    private int streams = 1;
    private volatile ConsumerConnector connector;
    private volatile boolean ready;
    private boolean stopping;

    public static void main(String[] arguments) {
        System.setOut(System.err); // loggers and libraries; events go to the descriptor itself
        OldConsumer consumer = new OldConsumer();
        ConsumerConfig config;
        try {
            config = consumer.configure(arguments);
        } catch (RuntimeException | AssertionError refused) { // Scala's require, and what old versions throw instead
            refused.printStackTrace();
            System.exit(2);
            return;
        }
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::stop, "stop"));
        Thread commands = new Thread(consumer::obey, "commands");
        commands.setDaemon(true);
        commands.start();
        consumer.run(config);
    }

    private ConsumerConfig configure(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            String argument = arguments[i];
            if (!argument.startsWith("--")) {
                int equals = argument.indexOf('=');
                properties.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
                continue;
            }
            String value = arguments[++i];
            switch (argument) {
                case "--topics" -> subscribe(value);
                case "--whitelist" -> filter = new Whitelist(value);
                case "--blacklist" -> filter = new Blacklist(value);
                case "--streams" -> streams = Integer.parseInt(value);
                default -> throw new IllegalArgumentException("Unknown argument: " + argument);
            }
        }
        if ((filter == null) == topics.isEmpty()) {
            throw new IllegalArgumentException("Give either --topics, or one of --whitelist and --blacklist");
        }
        return new ConsumerConfig(properties);
    }

    private void subscribe(String list) {
        for (String entry : list.split(",")) {
            int equals = entry.indexOf('=');
            topics.put(entry.substring(0, equals), Integer.valueOf(entry.substring(equals + 1)));
        }
    }

    /** Connects until that succeeds; the readers then keep the process alive. */
    private void run(ConsumerConfig config) {
        while (!isStopping()) {
            try {
                connector = Consumer.createJavaConsumerConnector(config);
                List<KafkaStream<byte[], byte[]>> made = makeStreams();
                ready = true;
                emit("{\"event\":\"ready\"}");
                made.forEach(this::startReader);
                return;
            } catch (RuntimeException failure) {
                failed("start", failure);
                disconnect();
                sleep(RETRY_MS);
            }
        }
    }

    private List<KafkaStream<byte[], byte[]>> makeStreams() {
        if (filter != null) {
            return connector.createMessageStreamsByFilter(filter, streams);
        }
        List<KafkaStream<byte[], byte[]>> made = new ArrayList<>();
        connector.createMessageStreams(topics).values().forEach(made::addAll);
        return made;
    }

    private void disconnect() {
        ConsumerConnector current = connector;
        connector = null;
        if (current != null) {
            try {
                current.shutdown();
            } catch (RuntimeException failure) {
                failed("shutdown", failure);
            }
        }
    }

    private void startReader(KafkaStream<byte[], byte[]> stream) {
        Thread reader = new Thread(() -> read(stream.iterator()), "reader");
        synchronized (gate) {
            readers.add(reader);
        }
        reader.start();
    }

    private void read(ConsumerIterator<byte[], byte[]> records) {
        try {
            while (hasNext(records)) {
                synchronized (gate) {
                    if (stopping) {
                        return;
                    }
                    tell(records.next());
                }
            }
        } catch (RuntimeException failure) {
            failed("read", failure);
        }
        if (!isStopping()) {
            sleep(Long.MAX_VALUE); // a member whose stream broke stays one
        }
    }

    private static boolean hasNext(ConsumerIterator<byte[], byte[]> records) {
        while (true) {
            try {
                return records.hasNext();
            } catch (ConsumerTimeoutException nothing) {
                // consumer.timeout.ms was set
            }
        }
    }

    private void obey() {
        try (BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String command = commands.readLine(); command != null; command = commands.readLine()) {
                switch (command) {
                    case "commit" -> commit();
                    case "stop" -> System.exit(0);
                    default -> System.err.println("Unknown command: " + command);
                }
            }
        } catch (IOException closed) {
            closed.printStackTrace();
        }
    }

    private void commit() {
        try {
            if (!ready) {
                throw new IllegalStateException("The consumer has no streams yet");
            }
            connector.commitOffsets();
            emit("{\"event\":\"committed\"}");
        } catch (RuntimeException failure) {
            failed("commit", failure);
        }
    }

    /** The shutdown hook: ends the process with status 0, whatever asked for its end. */
    private void stop() {
        List<Thread> last;
        synchronized (gate) {
            stopping = true;
            last = new ArrayList<>(readers);
        }
        disconnect();
        for (Thread reader : last) {
            try {
                reader.join(LAST_RECORDS_MS);
            } catch (InterruptedException impatient) {
                break;
            }
        }
        emit("{\"event\":\"stopped\"}");
        Runtime.getRuntime().halt(0);
    }

    private boolean isStopping() {
        synchronized (gate) {
            return stopping;
        }
    }

    private void tell(MessageAndMetadata<byte[], byte[]> record) {
        emit("{\"event\":\"record\",\"topic\":\"" + record.topic() + "\",\"partition\":" + record.partition()
                + ",\"offset\":" + record.offset() + ",\"key\":" + base64(record.key())
                + ",\"value\":" + base64(record.message()) + "}");
    }

    private void failed(String during, RuntimeException failure) {
        failure.printStackTrace();
        emit("{\"event\":\"failed\",\"during\":\"" + during + "\",\"message\":" + quoted(failure.toString()) + "}");
    }

    /** One write for each event: what was told before a SIGKILL is not lost. */
    private void emit(String event) {
        synchronized (gate) {
            try {
                events.write((event + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException nobodyListens) {
                Runtime.getRuntime().halt(1);
            }
        }
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? "null" : '"' + Base64.getEncoder().encodeToString(bytes) + '"';
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException woken) {
            Thread.currentThread().interrupt();
        }
    }
}
