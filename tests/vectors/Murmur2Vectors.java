// Records tests/vectors/murmur2.json: hashes and partitions as Kafka's Java client computes them.
//
// Recipe, with Java 17 and kafka-clients-3.9.1.jar and slf4j-api-1.7.36.jar (Maven: org.apache.kafka:kafka-clients:3.9.1)
// in the folder LIB, from the root of this repository:
//
//     java -cp "$LIB/*" tests/vectors/Murmur2Vectors.java > tests/vectors/murmur2.json

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;

public class Murmur2Vectors {
    private static final int[] PARTITIONS = {1, 3, 7, 8, 12, 50, 100, 1000};

    public static void main(String[] arguments) {
        System.out.println("{");
        System.out.println("  \"tool\": \"kafka-clients " + AppInfoParser.getVersion() + ": Utils.murmur2, BuiltInPartitioner"
            + ".partitionForKey, RoundRobinPartitioner.partition\",");
        System.out.println("  \"recipe\": \"tests/vectors/Murmur2Vectors.java\",");
        System.out.println("  \"partition_counts\": " + Arrays.toString(PARTITIONS) + ",");
        System.out.println("  \"columns\": [\"key (hexadecimal)\", \"murmur2\", \"partition for each of partition_counts\"],");
        System.out.println("  \"keys\": [");
        System.out.println(keys().stream().map(Murmur2Vectors::row).collect(Collectors.joining(",\n")));
        System.out.println("  ],");
        System.out.println("  \"turns\": [");
        System.out.println(String.join(",\n", turns(6, List.of(0, 1, 2, 4)), turns(5, List.of(3)), turns(4, List.of()),
            turns(3, List.of(0, 1, 2))));
        System.out.println("  ]");
        System.out.println("}");
    }

    private static List<byte[]> keys() {
        List<byte[]> keys = new ArrayList<>();
        for (String text : List.of("", "a", "ab", "abc", "abcd", "abcde", "21", "foobar", "a-little-bit-long-string",
            "a-little-bit-longer-string", "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "Zoë", "日本語", "\uD83D\uDE80",
            "x".repeat(300), "0", "1", "42", "-1", "order-0000000001"))
            keys.add(text.getBytes(StandardCharsets.UTF_8));
        for (int length = 1; length <= 9; length++)
            for (int value : new int[] {0x00, 0x7f, 0x80, 0xff}) {
                byte[] key = new byte[length];
                Arrays.fill(key, (byte) value);
                keys.add(key);
            }
        Random random = new Random(20260101);
        for (int round = 0; round < 3; round++)
            for (int length = 0; length <= 64; length++)
                keys.add(bytes(random, length));
        for (int length : new int[] {127, 128, 255, 256, 257, 300, 301, 302, 303})
            keys.add(bytes(random, length));
        return keys;
    }

    private static byte[] bytes(Random random, int length) {
        byte[] key = new byte[length];
        random.nextBytes(key);
        return key;
    }

    private static String row(byte[] key) {
        String partitions = IntStream.of(PARTITIONS).mapToObj(n -> "" + BuiltInPartitioner.partitionForKey(key, n))
            .collect(Collectors.joining(", "));
        return "    [\"" + HexFormat.of().formatHex(key) + "\", " + Utils.murmur2(key) + ", [" + partitions + "]]";
    }

    /** Where keyless rows go, one after the other, from a counter of 0, when some partitions have no leader. */
    private static String turns(int count, List<Integer> available) {
        Node leader = new Node(1, "localhost", 9092);
        List<PartitionInfo> partitions = IntStream.range(0, count)
            .mapToObj(p -> new PartitionInfo("t", p, available.contains(p) ? leader : null, new Node[0], new Node[0]))
            .collect(Collectors.toList());
        Cluster cluster = new Cluster("id", List.of(leader), partitions, java.util.Set.of(), java.util.Set.of());
        RoundRobinPartitioner partitioner = new RoundRobinPartitioner();
        partitioner.configure(Map.of());
        List<Integer> chosen = new ArrayList<>();
        for (int row = 0; row < 12; row++)
            chosen.add(partitioner.partition("t", null, null, null, null, cluster));
        return "    {\"partitions\": " + count + ", \"available\": " + available + ", \"chosen\": " + chosen + "}";
    }
}
