// Records tests/vectors/java_patterns.json: which names of topics java.util.regex.Pattern matches as a whole.
//
// Recipe, with Java 17, from the root of this repository:
//
//     java tests/vectors/JavaPatterns.java > tests/vectors/java_patterns.json

import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Collectors;

public class JavaPatterns {
    private static final List<String> NAMES = List.of(
        "a", "b", "c", "z", "A", "Z", "0", "9", "-", "_", "x.y", "ab", "ba", "aab", "a.b", "a-b", "a_b", "A.b", "aB", "abc",
        "orders", "orders-eu", "orders.eu-1", "ORDERS", "__x", "__offsets", "test-1", "my-test-2", "ba-dlq", "a1b2");

    private static final List<String> PATTERNS = List.of(
        "orders.*", "\\Qa.b\\E", "\\Qa.b\\E|\\Qorders\\E.*", "\\Qab", "a\\Q.\\E+b", "\\Q\\E", "\\\\Qa",
        "(?<team>a|b)[._-](?<kind>b|c)", "a.b\\z", "\\Aa.b\\Z", "^a.b$", "\\Ga.*", "a\\b.b", "a\\Bb", "\\p{Lower}+",
        "\\p{Upper}.*", "\\P{Alpha}", "\\p{Punct}", "\\p{L}{2}", "\\pL+", "\\p{IsLl}", "\\p{Nd}", "\\p{IsAlphabetic}", "\\p{gc=Pd}",
        "\\p{Pc}", "\\w+", "\\W", "[\\w.]+", "[^\\W_]+", "\\d", "\\D", "\\s*a", "\\S+", "\\h*b", "\\H", "\\v?c", "\\V",
        "\\x61", "\\u0062", "\\x{63}", "\\0101", "\\e?a", "\\cA?a", "\\R?a", "\\X", "a\\-b", "a\\_b", "x\\.y",
        "[a-z&&[^b]]", "[a-z&&[^bc]]+", "[a-z&&b-d]", "[^a-c&&[^b]]", "[a-z&&[bc]x]", "[abc&&[b-z]&&[^c]]", "[a-b[z]]", "[a[^b]]",
        "[^a[b]]", "[]a]", "[^]a]", "[a-]", "[-a]", "[\\d-a]", "[a&b]", "[&&&a]", "[a&&]", "[[:alpha:]]", "[\\Qa-c\\E]", "[\\x61-\\x63]",
        "[.]", "[a^]", "[\\]a]", "[\\p{Lu}&&[^Z]]", "[^\\p{L}]",
        "(?i)ORDERS", "(?i)[^a]", "(?i)[b-z]", "(?i)[B&&[b]]", "(?i:a)b", "a(?i)b", "(?i)a(?-i)b", "((?i)a)b", "(?i)\\p{Lower}", "(?i)\\p{Lu}",
        "(?i)[^\\p{Lower}]", "(?i)\\x41", "(?s)a.b", "(?m)^a$", "(?u)a", "(?U)\\w", "(?d).", "(?-i)a", "(?idmsuU-i)a",
        "(?!__).*", "^(?!__).*$", "(?!__)(?!test).*", "(?=a)(?:.*b|.*c)", ".*(?<!-dlq)", ".*(?<!-dlq)$", ".*(?<=[12])", "(?!a).*|a.b",
        "(?!a)b|c", "((?!test).)*", "(?:(?!-dlq|test).)+", "(?i)((?!TEST).)*", "((?!a$|).)*",
        "a{2}b", "a{1,}b", "a{0,2}b", "a??b", "a*?b", "(a|b)+", "()a", "a||b", "(?:)", "a{0}b", "]", "}", "a{2,1}", "a{,3}", "a{x", "{2}", "a**",
        "*a", "a|*b", "(a", "a)", "[a", "[", "[c-a]", "[a-\\d]", "\\", "\\y", "\\E", "\\p{Nothing}", "(?y)a", "(?#x)a", "(?<a>a)(?<a>b)");

    public static void main(String[] arguments) {
        System.out.println("{");
        System.out.println("  \"tool\": \"java.util.regex.Pattern of Java " + Runtime.version().feature() + "\",");
        System.out.println("  \"recipe\": \"tests/vectors/JavaPatterns.java\",");
        System.out.println("  \"names\": [" + NAMES.stream().map(JavaPatterns::quoted).collect(Collectors.joining(", ")) + "],");
        System.out.println("  \"columns\": [\"pattern\", \"names that match, or null where Java refuses\"],");
        System.out.println("  \"patterns\": [");
        System.out.println(PATTERNS.stream().map(JavaPatterns::row).collect(Collectors.joining(",\n")));
        System.out.println("  ]");
        System.out.println("}");
    }

    private static String row(String pattern) {
        String found;
        try {
            Pattern compiled = Pattern.compile(pattern);
            found = NAMES.stream().filter(name -> compiled.matcher(name).matches()).map(JavaPatterns::quoted)
                .collect(Collectors.joining(", ", "[", "]"));
        } catch (PatternSyntaxException refused) {
            found = "null";
        }
        return "    [" + quoted(pattern) + ", " + found + "]";
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
