// Records tests/vectors/error_codes.json: every error code of Kafka's protocol, and how Java's clients react to it.
//
// Recipe, with Java 17 and kafka-clients-4.3.1.jar and slf4j-api-1.7.36.jar (Maven: org.apache.kafka:kafka-clients:4.3.1)
// in the folder LIB, from the root of this repository:
//
//     java -cp "$LIB/*" tests/vectors/ErrorCodes.java > tests/vectors/error_codes.json

import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.AppInfoParser;

public class ErrorCodes {
    public static void main(String[] arguments) {
        System.out.println("{");
        System.out.println("  \"tool\": \"kafka-clients " + AppInfoParser.getVersion() + ": Errors\",");
        System.out.println("  \"recipe\": \"tests/vectors/ErrorCodes.java\",");
        System.out.println("  \"columns\": [\"code\", \"name\", \"is a RetriableException\", \"is an InvalidMetadataException\"],");
        System.out.println("  \"errors\": [");
        System.out.println(Arrays.stream(Errors.values()).map(ErrorCodes::row).collect(Collectors.joining(",\n")));
        System.out.println("  ]");
        System.out.println("}");
    }

    private static String row(Errors error) {
        boolean isRetriable = error.exception() instanceof RetriableException;
        boolean refreshes = error.exception() instanceof InvalidMetadataException;
        return "    [" + error.code() + ", \"" + error.name() + "\", " + isRetriable + ", " + refreshes + "]";
    }
}
