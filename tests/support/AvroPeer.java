// Java's resolution of Avro schemas: encodes random values of each schema, and decodes them by every schema.
//
// The arguments are names of classes. Their static fields that are schemas, and the standard input's schemas, one a line, are
// the schemas of the writers and of the readers. The first line of the output lists the schemas, and the second line those of
// the input that Avro's parser refuses. The other lines are
//
//     [writer, reader, payload in hex, value or null]
//
// with the numbers of the schemas. The value is [plain value], where the value of a union is [branch, plain value], and bytes
// have a character each. Null stands for an error of the reader. A schema without finite values is only a reader's schema.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.RandomData;

public class AvroPeer {
    private static final int VALUES = 3;
    private static final long SEED = 1;
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] classes) throws Exception {
        Set<String> texts = new LinkedHashSet<>();
        for (String name : classes) {
            for (Field field : Class.forName(name).getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && field.getType() == Schema.class) {
                    field.setAccessible(true);
                    texts.add(field.get(null).toString());
                }
            }
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<String> invalid = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                texts.add(parse(line).toString());
            } catch (AvroRuntimeException | NullPointerException refused) {
                invalid.add(line);
            }
        }
        List<Schema> schemas = texts.stream().map(AvroPeer::parse).toList();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        out.println(JSON.writeValueAsString(texts));
        out.println(JSON.writeValueAsString(invalid));
        for (int writer = 0; writer < schemas.size(); writer++) {
            for (byte[] payload : payloads(schemas.get(writer))) {
                for (int reader = 0; reader < schemas.size(); reader++) {
                    List<Object> value = decoded(schemas.get(writer), schemas.get(reader), payload);
                    out.println(JSON.writeValueAsString(Arrays.asList(writer, reader, HexFormat.of().formatHex(payload), value)));
                }
            }
        }
        out.flush();
    }

    private static Schema parse(String text) {
        return new Schema.Parser().parse(text);
    }

    private static Collection<byte[]> payloads(Schema schema) throws Exception {
        Map<String, byte[]> found = new LinkedHashMap<>();
        try {
            for (Object value : new RandomData(schema, VALUES, SEED, true)) {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(bytes, null);
                new GenericDatumWriter<Object>(schema).write(value, encoder);
                encoder.flush();
                found.put(HexFormat.of().formatHex(bytes.toByteArray()), bytes.toByteArray());
            }
        } catch (StackOverflowError | IllegalArgumentException infiniteOrEmptyUnion) {
            return List.of();
        }
        return found.values();
    }

    private static List<Object> decoded(Schema writer, Schema reader, byte[] payload) throws Exception {
        try {
            Object value = new GenericDatumReader<>(writer, reader).read(null, DecoderFactory.get().binaryDecoder(payload, null));
            return Arrays.asList(plain(reader, value));
        } catch (AvroRuntimeException | ClassCastException | StackOverflowError refused) {
            return null;
        }
    }

    private static Object plain(Schema schema, Object value) {
        switch (schema.getType()) {
            case UNION:
                int branch = GenericData.get().resolveUnion(schema, value);
                return Arrays.asList(branch, plain(schema.getTypes().get(branch), value));
            case RECORD:
                Map<String, Object> fields = new LinkedHashMap<>();
                for (Schema.Field field : schema.getFields()) {
                    fields.put(field.name(), plain(field.schema(), ((IndexedRecord) value).get(field.pos())));
                }
                return fields;
            case ARRAY:
                List<Object> items = new ArrayList<>();
                ((Collection<?>) value).forEach(item -> items.add(plain(schema.getElementType(), item)));
                return items;
            case MAP:
                Map<String, Object> entries = new LinkedHashMap<>();
                ((Map<?, ?>) value).forEach((key, item) -> entries.put(key.toString(), plain(schema.getValueType(), item)));
                return entries;
            case BYTES:
                return new String(((ByteBuffer) value).array(), StandardCharsets.ISO_8859_1);
            case FIXED:
                return new String(((GenericFixed) value).bytes(), StandardCharsets.ISO_8859_1);
            case STRING:
            case ENUM:
                return value.toString();
            case FLOAT:
                return ((Float) value).doubleValue();
            default:
                return value;
        }
    }
}
