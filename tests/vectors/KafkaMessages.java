// Records tests/vectors/kafka_messages_4.3.1.json and kafka_messages_3.9.1.json: requests and responses as Kafka's Java classes
// write them, in each version that both the package and the classes have. Kafka 4 dropped old versions, 3.9 lacks new ones.
//
// Recipe, with Java 17 and kafka-clients-4.3.1.jar and slf4j-api-1.7.36.jar (Maven: org.apache.kafka:kafka-clients:4.3.1)
// in the folder LIB, from the root of this repository; then the same with 3.9.1:
//
//     java -Dfile.encoding=UTF-8 -cp "$LIB/*" tests/vectors/KafkaMessages.java > tests/vectors/kafka_messages_4.3.1.json
//
// tests/unit/wire/test_vectors.py and tests/unit/records/direct/test_vectors.py have the same values, by API and name of the
// sample. Responses in flexible versions are also
// recorded with unknown tagged fields in every structure.

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.ApiVersionsResponseData.*;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopicCollection;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopicConfigCollection;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResourceResult;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsSynonym;
import org.apache.kafka.common.message.DescribeGroupsResponseData.DescribedGroup;
import org.apache.kafka.common.message.DescribeGroupsResponseData.DescribedGroupMember;
import org.apache.kafka.common.message.FindCoordinatorResponseData.Coordinator;
import org.apache.kafka.common.message.ListGroupsResponseData.ListedGroup;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsPartitionResponse;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsTopicResponse;
import org.apache.kafka.common.message.MetadataRequestData.MetadataRequestTopic;
import org.apache.kafka.common.message.MetadataResponseData.*;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.message.OffsetCommitResponseData.OffsetCommitResponsePartition;
import org.apache.kafka.common.message.OffsetCommitResponseData.OffsetCommitResponseTopic;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopic;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopics;
import org.apache.kafka.common.message.OffsetFetchResponseData.*;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderPartition;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderTopic;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.EpochEndOffset;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResultCollection;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceDataCollection;
import org.apache.kafka.common.message.ProduceResponseData.BatchIndexAndErrorMessage;
import org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse;
import org.apache.kafka.common.message.ProduceResponseData.TopicProduceResponse;
import org.apache.kafka.common.message.ProduceResponseData.TopicProduceResponseCollection;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;

public class KafkaMessages {
    private static final int CORRELATION_ID = 0x01020304;
    private static final Map<ApiKeys, SortedSet<Short>> VERSIONS = new EnumMap<>(ApiKeys.class);
    private static final List<String> MESSAGES = new ArrayList<>();
    private static final Uuid TOPIC_ID = new Uuid(0x0123456789ABCDEFL, 0x8877665544332211L);
    private static final Uuid OTHER_ID = new Uuid(0x0F1E2D3C4B5A6978L, 0x0102030405060708L);
    private static final long PRODUCER = 0x0102030405060708L;
    private static final short EPOCH = 9;

    public static void main(String[] arguments) throws Exception {
        connections();
        metadata();
        offsets();
        coordinators();
        committedOffsets();
        groups();
        topics();
        configs();
        fetches();
        producers();
        transactions();
        System.out.println("{");
        System.out.println("  \"tool\": \"kafka-clients " + AppInfoParser.getVersion() + ": org.apache.kafka.common.message\",");
        System.out.println("  \"recipe\": \"tests/vectors/KafkaMessages.java\",");
        System.out.println(String.join(",\n",
            list("headers", headers(), "api", "version", "request", "response", "response with tagged fields"),
            list("messages", MESSAGES, "api", "kind", "sample", "first version", "last version", "body"),
            list("assignments", assignments(), "version", "bytes")));
        System.out.println("}");
    }

    private static void connections() throws Exception {
        requests(ApiKeys.API_VERSIONS, 0, 3, "client", v -> v < 3 ? new ApiVersionsRequestData()
            : new ApiVersionsRequestData().setClientSoftwareName("pyspark-zkafka").setClientSoftwareVersion("1.2.3"));
        responses(ApiKeys.API_VERSIONS, 0, 3, "cluster", v -> new ApiVersionsResponseData().setThrottleTimeMs(7)
            .setApiKeys(new ApiVersionCollection(List.of(range(0, 3, 13), range(3, 0, 12), range(18, 0, 4)).iterator()))
            .setSupportedFeatures(new SupportedFeatureKeyCollection(List.of(new SupportedFeatureKey()
                .setName("metadata.version").setMinVersion((short) 7).setMaxVersion((short) 29)).iterator()))
            .setFinalizedFeaturesEpoch(12)
            .setFinalizedFeatures(new FinalizedFeatureKeyCollection(List.of(level("metadata.version", 25, 25),
                level("größe", 2, 0)).iterator()))
            .setZkMigrationReady(true));
        responses(ApiKeys.API_VERSIONS, 0, 3, "plain", v -> new ApiVersionsResponseData()
            .setApiKeys(new ApiVersionCollection(List.of(range(36, 2, 2)).iterator())));
        responses(ApiKeys.API_VERSIONS, 0, 0, "unsupported version", v -> new ApiVersionsResponseData().setErrorCode((short) 35)
            .setApiKeys(new ApiVersionCollection(List.of(range(18, 0, 2)).iterator())));

        requests(ApiKeys.SASL_HANDSHAKE, 0, 1, "mechanism", v -> new SaslHandshakeRequestData().setMechanism("SCRAM-SHA-512"));
        responses(ApiKeys.SASL_HANDSHAKE, 0, 1, "accepted",
            v -> new SaslHandshakeResponseData().setMechanisms(List.of("PLAIN", "SCRAM-SHA-512")));
        responses(ApiKeys.SASL_HANDSHAKE, 0, 1, "refused", v -> new SaslHandshakeResponseData().setErrorCode((short) 33));

        requests(ApiKeys.SASL_AUTHENTICATE, 0, 2, "token", v -> new SaslAuthenticateRequestData().setAuthBytes(token()));
        requests(ApiKeys.SASL_AUTHENTICATE, 0, 2, "empty", v -> new SaslAuthenticateRequestData().setAuthBytes(new byte[0]));
        responses(ApiKeys.SASL_AUTHENTICATE, 0, 2, "accepted", v -> new SaslAuthenticateResponseData().setAuthBytes(token())
            .setSessionLifetimeMs(3_600_000_000_000L));
        responses(ApiKeys.SASL_AUTHENTICATE, 0, 2, "refused", v -> new SaslAuthenticateResponseData().setErrorCode((short) 58)
            .setErrorMessage("falsches Paßwort"));
    }

    private static ApiVersion range(int key, int oldest, int newest) {
        return new ApiVersion().setApiKey((short) key).setMinVersion((short) oldest).setMaxVersion((short) newest);
    }

    private static FinalizedFeatureKey level(String name, int newest, int oldest) {
        return new FinalizedFeatureKey().setName(name).setMaxVersionLevel((short) newest).setMinVersionLevel((short) oldest);
    }

    private static byte[] token() {
        byte[] token = new byte[200];
        for (int i = 0; i < token.length; i++) {
            token[i] = (byte) (i + 100);
        }
        return token;
    }

    private static void metadata() throws Exception {
        requests(ApiKeys.METADATA, 0, 12, "all topics", v -> metadataRequest(v, false, v == 0 ? List.of() : null));
        requests(ApiKeys.METADATA, 0, 12, "no topics", v -> metadataRequest(v, false, List.of()));
        requests(ApiKeys.METADATA, 0, 12, "topics", v -> metadataRequest(v, false, List.of(asked("a"), asked("größe"))));
        requests(ApiKeys.METADATA, 0, 12, "created topic", v -> metadataRequest(v, true, List.of(asked("a"))));
        responses(ApiKeys.METADATA, 0, 12, "cluster", v -> new MetadataResponseData()
            .setThrottleTimeMs(9)
            .setBrokers(new MetadataResponseBrokerCollection(List.of(
                new MetadataResponseBroker().setNodeId(1).setHost("broker-1.example").setPort(9092)
                    .setRack(v == 0 ? null : "zone ä"),
                new MetadataResponseBroker().setNodeId(1001).setHost("::1").setPort(65_535)).iterator()))
            .setClusterId(v < 2 ? null : "abcDEF123_-").setControllerId(v == 0 ? -1 : 1001)
            .setTopics(new MetadataResponseTopicCollection(List.of(
                new MetadataResponseTopic().setName("a").setIsInternal(false).setTopicId(v < 10 ? Uuid.ZERO_UUID : TOPIC_ID)
                    .setTopicAuthorizedOperations(v < 8 ? Integer.MIN_VALUE : 0xDF8)
                    .setPartitions(List.of(partition(v, 0, 0, 1, List.of(1, 1001), List.of(1, 1001), List.of()),
                        partition(v, 9, 1, 1001, List.of(1, 1001), List.of(1001), List.of(1)),
                        partition(v, 5, 2, -1, List.of(1), List.of(), List.of(1)))),
                new MetadataResponseTopic().setName("__consumer_offsets").setIsInternal(v > 0),
                new MetadataResponseTopic().setName("größe").setErrorCode((short) 29)).iterator()))
            .setClusterAuthorizedOperations(v < 8 || v > 10 ? Integer.MIN_VALUE : 0x1FF0));
        responses(ApiKeys.METADATA, 0, 12, "starting broker", v -> new MetadataResponseData());
        responses(ApiKeys.METADATA, 12, 12, "unknown id", v -> new MetadataResponseData()
            .setTopics(new MetadataResponseTopicCollection(List.of(
                new MetadataResponseTopic().setName(null).setErrorCode((short) 100).setTopicId(TOPIC_ID)).iterator())));
    }

    private static MetadataRequestData metadataRequest(int version, boolean creates, List<MetadataRequestTopic> topics) {
        return new MetadataRequestData().setTopics(topics).setAllowAutoTopicCreation(version < 4 || creates);
    }

    private static MetadataRequestTopic asked(String topic) {
        return new MetadataRequestTopic().setName(topic);
    }

    private static MetadataResponsePartition partition(int version, int error, int index, int leader, List<Integer> replicas,
            List<Integer> inSync, List<Integer> offline) {
        return new MetadataResponsePartition().setErrorCode((short) error).setPartitionIndex(index).setLeaderId(leader)
            .setLeaderEpoch(version < 7 ? -1 : index + 40).setReplicaNodes(replicas).setIsrNodes(inSync)
            .setOfflineReplicas(version < 5 ? List.of() : offline);
    }

    private static void offsets() throws Exception {
        requests(ApiKeys.LIST_OFFSETS, 0, 5, "ends", v -> listOffsets(v, 0));
        requests(ApiKeys.LIST_OFFSETS, 0, 5, "ends of committed records", v -> listOffsets(v, v < 2 ? 0 : 1));
        requests(ApiKeys.LIST_OFFSETS, 0, 5, "nothing", v -> new ListOffsetsRequestData().setReplicaId(-1));
        responses(ApiKeys.LIST_OFFSETS, 0, 5, "offsets", v -> new ListOffsetsResponseData().setThrottleTimeMs(9).setTopics(List.of(
            new ListOffsetsTopicResponse().setName("a").setPartitions(List.of(
                listed(v, 0, 0, 1_700_000_000_000L, 1L << 40, 7), listed(v, 3, 0, -1, 5, -1), listed(v, 1, 6, -1, -1, -1))),
            new ListOffsetsTopicResponse().setName("größe").setPartitions(List.of(listed(v, 0, 0, -1, 0, 0))),
            new ListOffsetsTopicResponse().setName("empty"))));
        responses(ApiKeys.LIST_OFFSETS, 0, 5, "nothing", v -> new ListOffsetsResponseData());

        requests(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 2, 3, "epochs", v -> new OffsetForLeaderEpochRequestData().setReplicaId(-1)
            .setTopics(new OffsetForLeaderTopicCollection(List.of(
                new OffsetForLeaderTopic().setTopic("a").setPartitions(List.of(epoch(0, 7, 6), epoch(2, -1, 0))),
                new OffsetForLeaderTopic().setTopic("größe").setPartitions(List.of(epoch(1, 2, 2)))).iterator())));
        responses(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 2, 3, "ends", v -> new OffsetForLeaderEpochResponseData().setThrottleTimeMs(9)
            .setTopics(new OffsetForLeaderTopicResultCollection(List.of(
                new OffsetForLeaderTopicResult().setTopic("a").setPartitions(List.of(end(0, 0, 6, 1L << 40), end(2, 75, -1, -1))),
                new OffsetForLeaderTopicResult().setTopic("größe").setPartitions(List.of(end(1, 0, -1, -1)))).iterator())));
        responses(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 2, 3, "nothing", v -> new OffsetForLeaderEpochResponseData());
    }

    private static ListOffsetsRequestData listOffsets(int version, int isolation) {
        return new ListOffsetsRequestData().setReplicaId(-1).setIsolationLevel((byte) isolation).setTopics(List.of(
            new ListOffsetsTopic().setName("a").setPartitions(List.of(at(version, 0, -1, -1), at(version, 3, -2, 7))),
            new ListOffsetsTopic().setName("größe").setPartitions(List.of(at(version, 1, 1_700_000_000_000L, 0)))));
    }

    private static ListOffsetsPartition at(int version, int partition, long timestamp, int epoch) {
        return new ListOffsetsPartition().setPartitionIndex(partition).setTimestamp(timestamp)
            .setCurrentLeaderEpoch(version < 4 ? -1 : epoch);
    }

    private static ListOffsetsPartitionResponse listed(int version, int partition, int error, long timestamp, long offset,
            int epoch) {
        ListOffsetsPartitionResponse found = new ListOffsetsPartitionResponse().setPartitionIndex(partition)
            .setErrorCode((short) error);
        if (version == 0) {
            return set(found, "setOldStyleOffsets", List.class, offset < 0 ? List.of() : List.of(offset));
        }
        return found.setTimestamp(timestamp).setOffset(offset).setLeaderEpoch(version < 4 ? -1 : epoch);
    }

    private static OffsetForLeaderPartition epoch(int partition, int leaderEpoch, int epoch) {
        return new OffsetForLeaderPartition().setPartition(partition).setCurrentLeaderEpoch(leaderEpoch).setLeaderEpoch(epoch);
    }

    private static EpochEndOffset end(int partition, int error, int epoch, long offset) {
        return new EpochEndOffset().setPartition(partition).setErrorCode((short) error).setLeaderEpoch(epoch).setEndOffset(offset);
    }

    private static void coordinators() throws Exception {
        requests(ApiKeys.FIND_COORDINATOR, 0, 4, "group", v -> findCoordinators(v, 0, List.of("grüppe")));
        requests(ApiKeys.FIND_COORDINATOR, 1, 4, "transactional id", v -> findCoordinators(v, 1, List.of("id")));
        requests(ApiKeys.FIND_COORDINATOR, 4, 4, "groups", v -> findCoordinators(v, 0, List.of("g", "h")));
        responses(ApiKeys.FIND_COORDINATOR, 0, 4, "found",
            v -> coordinators(v, List.of(coordinator("grüppe", 0, v == 0 ? null : "NONE", 1001, "broker-1.example", 9092))));
        responses(ApiKeys.FIND_COORDINATOR, 0, 4, "refused",
            v -> coordinators(v, List.of(coordinator("grüppe", 15, null, -1, "", -1))));
        responses(ApiKeys.FIND_COORDINATOR, 4, 4, "several", v -> coordinators(v,
            List.of(coordinator("g", 0, "", 1, "a", 65_535), coordinator("h", 30, "Zutritt für h verweigert", -1, "", -1))));
    }

    private static FindCoordinatorRequestData findCoordinators(int version, int kind, List<String> keys) {
        FindCoordinatorRequestData request = new FindCoordinatorRequestData().setKeyType((byte) kind);
        return version < 4 ? request.setKey(keys.get(0)) : request.setCoordinatorKeys(keys);
    }

    private static Coordinator coordinator(String key, int error, String message, int broker, String host, int port) {
        return new Coordinator().setKey(key).setErrorCode((short) error).setErrorMessage(message).setNodeId(broker)
            .setHost(host).setPort(port);
    }

    private static FindCoordinatorResponseData coordinators(int version, List<Coordinator> found) {
        FindCoordinatorResponseData response = new FindCoordinatorResponseData().setThrottleTimeMs(9);
        if (version >= 4) {
            return response.setCoordinators(found);
        }
        Coordinator first = found.get(0);
        return response.setErrorCode(first.errorCode()).setErrorMessage(first.errorMessage()).setNodeId(first.nodeId())
            .setHost(first.host()).setPort(first.port());
    }

    private static void committedOffsets() throws Exception {
        requests(ApiKeys.OFFSET_FETCH, 1, 8, "partitions", v -> offsetFetch(v, v >= 7, asked("grüppe", List.of(
            askedOf("a", 0, 2), askedOf("größe", 1)))));
        requests(ApiKeys.OFFSET_FETCH, 1, 8, "no partitions", v -> offsetFetch(v, false, asked("g", List.of())));
        requests(ApiKeys.OFFSET_FETCH, 2, 8, "all partitions", v -> offsetFetch(v, false, asked("g", null)));
        requests(ApiKeys.OFFSET_FETCH, 8, 8, "groups",
            v -> offsetFetch(v, true, asked("g", null), asked("h", List.of(askedOf("a", 0)))));
        responses(ApiKeys.OFFSET_FETCH, 1, 8, "offsets", v -> offsetsOf(v, answer("grüppe", 0, List.of(
            fetchedOf("a", fetched(v, 0, 0, 1L << 40, 7, "späte Daten"), fetched(v, 2, 0, -1, -1, ""), fetched(v, 1, 0, 5, -1, null)),
            fetchedOf("größe", fetched(v, 1, 88, -1, -1, ""))))));
        responses(ApiKeys.OFFSET_FETCH, 1, 8, "no offsets", v -> offsetsOf(v, answer("grüppe", 0, List.of())));
        responses(ApiKeys.OFFSET_FETCH, 2, 8, "refused", v -> offsetsOf(v, answer("grüppe", 30, List.of())));
        responses(ApiKeys.OFFSET_FETCH, 8, 8, "groups", v -> offsetsOf(v,
            answer("g", 0, List.of(fetchedOf("a", fetched(v, 0, 0, 3, 0, "")))), answer("h", 16, List.of())));

        requests(ApiKeys.OFFSET_COMMIT, 1, 7, "offsets", v -> new OffsetCommitRequestData().setGroupId("grüppe").setTopics(List.of(
            new OffsetCommitRequestTopic().setName("a").setPartitions(List.of(commit(0, 1L << 40), commit(2, 0))),
            new OffsetCommitRequestTopic().setName("größe").setPartitions(List.of(commit(1, 5))))));
        responses(ApiKeys.OFFSET_COMMIT, 1, 7, "outcomes", v -> new OffsetCommitResponseData().setThrottleTimeMs(9).setTopics(List.of(
            new OffsetCommitResponseTopic().setName("a").setPartitions(List.of(committed(0, 0), committed(2, 12))),
            new OffsetCommitResponseTopic().setName("größe").setPartitions(List.of(committed(1, 25))))));
        responses(ApiKeys.OFFSET_COMMIT, 1, 7, "nothing", v -> new OffsetCommitResponseData());

        requests(ApiKeys.OFFSET_DELETE, 0, 0, "partitions", v -> new OffsetDeleteRequestData().setGroupId("grüppe").setTopics(
            new OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection(List.of(
                new OffsetDeleteRequestData.OffsetDeleteRequestTopic().setName("a").setPartitions(List.of(
                    new OffsetDeleteRequestData.OffsetDeleteRequestPartition().setPartitionIndex(0),
                    new OffsetDeleteRequestData.OffsetDeleteRequestPartition().setPartitionIndex(2)))).iterator())));
        responses(ApiKeys.OFFSET_DELETE, 0, 0, "outcomes", v -> new OffsetDeleteResponseData().setThrottleTimeMs(9).setTopics(
            new OffsetDeleteResponseData.OffsetDeleteResponseTopicCollection(List.of(
                new OffsetDeleteResponseData.OffsetDeleteResponseTopic().setName("a").setPartitions(
                    new OffsetDeleteResponseData.OffsetDeleteResponsePartitionCollection(List.of(
                        new OffsetDeleteResponseData.OffsetDeleteResponsePartition().setPartitionIndex(0),
                        new OffsetDeleteResponseData.OffsetDeleteResponsePartition().setPartitionIndex(2)
                            .setErrorCode((short) 86)).iterator()))).iterator())));
        responses(ApiKeys.OFFSET_DELETE, 0, 0, "refused", v -> new OffsetDeleteResponseData().setErrorCode((short) 69));
    }

    private static OffsetFetchRequestData offsetFetch(int version, boolean stable, OffsetFetchRequestGroup... groups) {
        OffsetFetchRequestData request = new OffsetFetchRequestData().setRequireStable(stable);
        if (version >= 8) {
            return request.setGroups(List.of(groups));
        }
        List<OffsetFetchRequestTopics> topics = groups[0].topics();
        return request.setGroupId(groups[0].groupId()).setTopics(topics == null ? null : topics.stream().map(topic ->
            new OffsetFetchRequestTopic().setName(topic.name()).setPartitionIndexes(topic.partitionIndexes())).toList());
    }

    private static OffsetFetchRequestGroup asked(String group, List<OffsetFetchRequestTopics> topics) {
        return new OffsetFetchRequestGroup().setGroupId(group).setTopics(topics);
    }

    private static OffsetFetchRequestTopics askedOf(String topic, Integer... partitions) {
        return new OffsetFetchRequestTopics().setName(topic).setPartitionIndexes(List.of(partitions));
    }

    private static OffsetFetchResponseData offsetsOf(int version, OffsetFetchResponseGroup... groups) {
        OffsetFetchResponseData response = new OffsetFetchResponseData().setThrottleTimeMs(9);
        if (version >= 8) {
            return response.setGroups(List.of(groups));
        }
        return response.setErrorCode(groups[0].errorCode()).setTopics(groups[0].topics().stream().map(topic ->
            new OffsetFetchResponseTopic().setName(topic.name()).setPartitions(topic.partitions().stream().map(row ->
                new OffsetFetchResponsePartition().setPartitionIndex(row.partitionIndex()).setErrorCode(row.errorCode())
                    .setCommittedOffset(row.committedOffset()).setCommittedLeaderEpoch(row.committedLeaderEpoch())
                    .setMetadata(row.metadata())).toList())).toList());
    }

    private static OffsetFetchResponseGroup answer(String group, int error, List<OffsetFetchResponseTopics> topics) {
        return new OffsetFetchResponseGroup().setGroupId(group).setErrorCode((short) error).setTopics(topics);
    }

    private static OffsetFetchResponseTopics fetchedOf(String topic, OffsetFetchResponsePartitions... partitions) {
        return new OffsetFetchResponseTopics().setName(topic).setPartitions(List.of(partitions));
    }

    private static OffsetFetchResponsePartitions fetched(int version, int partition, int error, long offset, int epoch,
            String metadata) {
        return new OffsetFetchResponsePartitions().setPartitionIndex(partition).setErrorCode((short) error)
            .setCommittedOffset(offset).setCommittedLeaderEpoch(version < 5 ? -1 : epoch).setMetadata(metadata);
    }

    private static OffsetCommitRequestPartition commit(int partition, long offset) {
        return new OffsetCommitRequestPartition().setPartitionIndex(partition).setCommittedOffset(offset).setCommittedMetadata("");
    }

    private static OffsetCommitResponsePartition committed(int partition, int error) {
        return new OffsetCommitResponsePartition().setPartitionIndex(partition).setErrorCode((short) error);
    }

    private static void groups() throws Exception {
        requests(ApiKeys.LIST_GROUPS, 0, 5, "all", v -> new ListGroupsRequestData());
        responses(ApiKeys.LIST_GROUPS, 0, 5, "groups", v -> new ListGroupsResponseData().setThrottleTimeMs(9).setGroups(List.of(
            listed(v, "grüppe", "consumer", "Stable", "consumer"), listed(v, "g", "", "Empty", "classic"),
            listed(v, "", "connect", "PreparingRebalance", "share"))));
        responses(ApiKeys.LIST_GROUPS, 0, 5, "starting coordinator", v -> new ListGroupsResponseData().setErrorCode((short) 14));

        requests(ApiKeys.DESCRIBE_GROUPS, 0, 6, "groups", v -> new DescribeGroupsRequestData().setGroups(List.of("g", "grüppe")));
        responses(ApiKeys.DESCRIBE_GROUPS, 0, 6, "groups", v -> new DescribeGroupsResponseData().setThrottleTimeMs(9).setGroups(List.of(
            described(v, "g", 0, "Stable", "consumer", "range", List.of(
                member(v, "m-1", null, "client", "/10.0.0.1", assignment(0, new byte[0], "a", 0, "größe", 1)),
                member(v, "m-2", "instänz", "clïent", "/::1", assignment(3, new byte[] {1, 2, 3}, "a", 1, "a", 2)),
                member(v, "m-3", null, "", "", assignment(1, new byte[0])),
                member(v, "m-4", null, "client", "/10.0.0.1", new byte[0]),
                member(v, "m-5", null, "client", "/10.0.0.1", "no assignment".getBytes(StandardCharsets.UTF_8)))),
            described(v, "grüppe", 0, "Stable", "connect", "sessioned", List.of(
                member(v, "m", null, "worker", "/10.0.0.2", assignment(0, new byte[0], "a", 0)))))));
        responses(ApiKeys.DESCRIBE_GROUPS, 0, 6, "groups without members", v -> {
            DescribedGroup missing = described(v, "h", v < 6 ? 0 : 69, "Dead", "", "", List.of());
            return new DescribeGroupsResponseData().setGroups(List.of(described(v, "g", 0, "Empty", "consumer", "", List.of()),
                v < 6 ? missing : set(missing, "setErrorMessage", String.class, "Gruppe h nicht gefunden"),
                described(v, "i", 16, "", "", "", List.of())));
        });

        requests(ApiKeys.CONSUMER_GROUP_DESCRIBE, 0, 1, "groups",
            v -> new ConsumerGroupDescribeRequestData().setGroupIds(List.of("g", "grüppe")));
        responses(ApiKeys.CONSUMER_GROUP_DESCRIBE, 0, 1, "groups", v -> new ConsumerGroupDescribeResponseData().setThrottleTimeMs(9)
            .setGroups(List.of(
                new ConsumerGroupDescribeResponseData.DescribedGroup().setGroupId("g").setGroupState("Reconciling")
                    .setGroupEpoch(5).setAssignmentEpoch(4).setAssignorName("uniform").setAuthorizedOperations(0x148)
                    .setMembers(List.of(
                        consumer(v, "m-1", "instänz", "zone ä", null, owned("a", 0, 1), owned("a", 0, 1)),
                        consumer(v, "m-2", null, null, "a.*", owned(), owned("größe", 1)),
                        consumer(v, "m-3", null, null, null, owned("größe", 1), owned()))),
                new ConsumerGroupDescribeResponseData.DescribedGroup().setGroupId("grüppe").setErrorCode((short) 69)
                    .setErrorMessage("Group grüppe is not a consumer group."))));
        responses(ApiKeys.CONSUMER_GROUP_DESCRIBE, 0, 1, "nothing", v -> new ConsumerGroupDescribeResponseData());

        requests(ApiKeys.DELETE_GROUPS, 0, 2, "groups", v -> new DeleteGroupsRequestData().setGroupsNames(List.of("g", "grüppe")));
        responses(ApiKeys.DELETE_GROUPS, 0, 2, "outcomes", v -> new DeleteGroupsResponseData().setThrottleTimeMs(9).setResults(
            new DeleteGroupsResponseData.DeletableGroupResultCollection(List.of(
                new DeleteGroupsResponseData.DeletableGroupResult().setGroupId("g"),
                new DeleteGroupsResponseData.DeletableGroupResult().setGroupId("grüppe").setErrorCode((short) 68)).iterator())));
        responses(ApiKeys.DELETE_GROUPS, 0, 2, "nothing", v -> new DeleteGroupsResponseData());
    }

    private static ListedGroup listed(int version, String name, String protocol, String state, String type) {
        ListedGroup group = new ListedGroup().setGroupId(name).setProtocolType(protocol);
        return group.setGroupState(version < 4 ? "" : state).setGroupType(version < 5 ? "" : type);
    }

    private static DescribedGroup described(int version, String name, int error, String state, String protocol, String assignor,
            List<DescribedGroupMember> members) {
        return new DescribedGroup().setGroupId(name).setErrorCode((short) error).setGroupState(state).setProtocolType(protocol)
            .setProtocolData(assignor).setMembers(members).setAuthorizedOperations(version < 3 ? Integer.MIN_VALUE : 0x148);
    }

    private static DescribedGroupMember member(int version, String id, String instance, String client, String host,
            byte[] assignment) {
        return new DescribedGroupMember().setMemberId(id).setGroupInstanceId(version < 4 ? null : instance).setClientId(client)
            .setClientHost(host).setMemberMetadata(new byte[] {0, 1, 0, 0}).setMemberAssignment(assignment);
    }

    private static byte[] assignment(int version, byte[] userData, Object... partitions) {
        List<TopicPartition> owned = new ArrayList<>();
        for (int i = 0; i < partitions.length; i += 2) {
            owned.add(new TopicPartition((String) partitions[i], (Integer) partitions[i + 1]));
        }
        ByteBuffer data = ByteBuffer.wrap(userData);
        return Utils.toArray(ConsumerProtocol.serializeAssignment(new Assignment(owned, data), (short) version));
    }

    private static List<String> assignments() {
        List<String> rows = new ArrayList<>();
        for (int version = 0; version <= 3; version++) {
            rows.add(row(version, hex(assignment(version, new byte[] {9}, "a", 0, "a", 2, "größe", 1))));
        }
        return rows;
    }

    private static ConsumerGroupDescribeResponseData.Member consumer(int version, String id, String instance, String rack,
            String pattern, ConsumerGroupDescribeResponseData.Assignment owned, ConsumerGroupDescribeResponseData.Assignment target) {
        ConsumerGroupDescribeResponseData.Member member = new ConsumerGroupDescribeResponseData.Member().setMemberId(id)
            .setInstanceId(instance).setRackId(rack).setMemberEpoch(4).setClientId("clïent").setClientHost("/10.0.0.1")
            .setSubscribedTopicNames(pattern == null ? List.of("a", "größe") : List.of()).setSubscribedTopicRegex(pattern)
            .setAssignment(owned).setTargetAssignment(target);
        return version < 1 ? member : set(member, "setMemberType", byte.class, (byte) 1);
    }

    private static ConsumerGroupDescribeResponseData.Assignment owned(String topic, Integer... partitions) {
        return owned().setTopicPartitions(List.of(new ConsumerGroupDescribeResponseData.TopicPartitions().setTopicId(TOPIC_ID)
            .setTopicName(topic).setPartitions(List.of(partitions))));
    }

    private static ConsumerGroupDescribeResponseData.Assignment owned() {
        return new ConsumerGroupDescribeResponseData.Assignment();
    }

    private static void topics() throws Exception {
        requests(ApiKeys.CREATE_TOPICS, 1, 4, "topic", v -> createTopic(false, new CreatableTopic().setName("größe")
            .setNumPartitions(3).setReplicationFactor((short) 2).setConfigs(new CreatableTopicConfigCollection(List.of(
                new CreateTopicsRequestData.CreatableTopicConfig().setName("cleanup.policy").setValue("compact"),
                new CreateTopicsRequestData.CreatableTopicConfig().setName("x").setValue("ä")).iterator()))));
        requests(ApiKeys.CREATE_TOPICS, 1, 4, "checked topic with defaults", v -> createTopic(true,
            new CreatableTopic().setName("a").setNumPartitions(-1).setReplicationFactor((short) -1)));
        responses(ApiKeys.CREATE_TOPICS, 1, 4, "outcomes", v -> new CreateTopicsResponseData().setThrottleTimeMs(9).setTopics(
            new CreateTopicsResponseData.CreatableTopicResultCollection(List.of(
                new CreateTopicsResponseData.CreatableTopicResult().setName("a").setErrorMessage(null),
                new CreateTopicsResponseData.CreatableTopicResult().setName("größe").setErrorCode((short) 36)
                    .setErrorMessage("Topic 'größe' already exists.")).iterator())));
        responses(ApiKeys.CREATE_TOPICS, 1, 4, "nothing", v -> new CreateTopicsResponseData());

        requests(ApiKeys.CREATE_PARTITIONS, 0, 1, "topic", v -> new CreatePartitionsRequestData().setTimeoutMs(30_000)
            .setTopics(new CreatePartitionsRequestData.CreatePartitionsTopicCollection(List.of(
                new CreatePartitionsRequestData.CreatePartitionsTopic().setName("größe").setCount(12).setAssignments(null))
                .iterator())));
        requests(ApiKeys.CREATE_PARTITIONS, 0, 1, "checked topic", v -> new CreatePartitionsRequestData().setTimeoutMs(1)
            .setValidateOnly(true).setTopics(new CreatePartitionsRequestData.CreatePartitionsTopicCollection(List.of(
                new CreatePartitionsRequestData.CreatePartitionsTopic().setName("a").setCount(2).setAssignments(null))
                .iterator())));
        responses(ApiKeys.CREATE_PARTITIONS, 0, 1, "outcomes", v -> new CreatePartitionsResponseData().setThrottleTimeMs(9).setResults(
            List.of(new CreatePartitionsResponseData.CreatePartitionsTopicResult().setName("a").setErrorMessage(null),
                new CreatePartitionsResponseData.CreatePartitionsTopicResult().setName("größe").setErrorCode((short) 37)
                    .setErrorMessage("größe hat schon 12"))));
        responses(ApiKeys.CREATE_PARTITIONS, 0, 1, "nothing", v -> new CreatePartitionsResponseData());

        requests(ApiKeys.DELETE_TOPICS, 0, 3, "topics",
            v -> new DeleteTopicsRequestData().setTopicNames(List.of("a", "größe")).setTimeoutMs(30_000));
        responses(ApiKeys.DELETE_TOPICS, 0, 3, "outcomes", v -> new DeleteTopicsResponseData().setThrottleTimeMs(9).setResponses(
            new DeleteTopicsResponseData.DeletableTopicResultCollection(List.of(
                new DeleteTopicsResponseData.DeletableTopicResult().setName("a"),
                new DeleteTopicsResponseData.DeletableTopicResult().setName("größe").setErrorCode((short) 73)).iterator())));
        responses(ApiKeys.DELETE_TOPICS, 0, 3, "nothing", v -> new DeleteTopicsResponseData());
    }

    private static CreateTopicsRequestData createTopic(boolean validateOnly, CreatableTopic topic) {
        return new CreateTopicsRequestData().setTimeoutMs(30_000).setValidateOnly(validateOnly)
            .setTopics(new CreatableTopicCollection(List.of(topic).iterator()));
    }

    private static void configs() throws Exception {
        requests(ApiKeys.DESCRIBE_CONFIGS, 0, 3, "setting of a broker", v -> new DescribeConfigsRequestData().setResources(List.of(
            new DescribeConfigsRequestData.DescribeConfigsResource().setResourceType((byte) 4).setResourceName("1001")
                .setConfigurationKeys(List.of("offsets.retention.minutes")))));
        responses(ApiKeys.DESCRIBE_CONFIGS, 0, 3, "settings", v -> describedConfig(0, v == 0 ? null : "", List.of(
            setting(v, "offsets.retention.minutes", "10080", false, 5, List.of(
                new DescribeConfigsSynonym().setName("offsets.retention.minutes").setValue("10080").setSource((byte) 5),
                new DescribeConfigsSynonym().setName("passwort").setValue(null).setSource((byte) 4)), "How long – in minutes"),
            setting(v, "ssl.keystore.password", null, true, 4, List.of(), null),
            setting(v, "größe", "", false, 1, List.of(), ""))));
        responses(ApiKeys.DESCRIBE_CONFIGS, 0, 3, "refused", v -> describedConfig(31, "Zugriff verweigert für 1001", List.of()));

        requests(ApiKeys.ALTER_CONFIGS, 0, 1, "checked topic", v -> new AlterConfigsRequestData().setValidateOnly(true).setResources(
            new AlterConfigsRequestData.AlterConfigsResourceCollection(List.of(new AlterConfigsRequestData.AlterConfigsResource()
                .setResourceType((byte) 2).setResourceName("größe").setConfigs(
                    new AlterConfigsRequestData.AlterableConfigCollection(List.of(
                        new AlterConfigsRequestData.AlterableConfig().setName("cleanup.policy").setValue("compact"),
                        new AlterConfigsRequestData.AlterableConfig().setName("x").setValue("ä")).iterator()))).iterator())));
        responses(ApiKeys.ALTER_CONFIGS, 0, 1, "accepted", v -> alteredConfig(0, null));
        responses(ApiKeys.ALTER_CONFIGS, 0, 1, "refused", v -> alteredConfig(40, "Unbekannt: „x“"));
    }

    private static DescribeConfigsResponseData describedConfig(int error, String message,
            List<DescribeConfigsResourceResult> settings) {
        return new DescribeConfigsResponseData().setThrottleTimeMs(9).setResults(List.of(
            new DescribeConfigsResponseData.DescribeConfigsResult().setErrorCode((short) error).setErrorMessage(message)
                .setResourceType((byte) 4).setResourceName("1001").setConfigs(settings)));
    }

    private static DescribeConfigsResourceResult setting(int version, String name, String value, boolean isSecret, int source,
            List<DescribeConfigsSynonym> synonyms, String documentation) {
        DescribeConfigsResourceResult setting = new DescribeConfigsResourceResult().setName(name).setValue(value)
            .setReadOnly(true).setIsSensitive(isSecret);
        if (version == 0) {
            return set(setting, "setIsDefault", boolean.class, source == 5);
        }
        setting.setConfigSource((byte) source).setSynonyms(synonyms);
        return version < 3 ? setting : setting.setConfigType((byte) 5).setDocumentation(documentation);
    }

    private static AlterConfigsResponseData alteredConfig(int error, String message) {
        return new AlterConfigsResponseData().setThrottleTimeMs(9).setResponses(List.of(
            new AlterConfigsResponseData.AlterConfigsResourceResponse().setErrorCode((short) error).setErrorMessage(message)
                .setResourceType((byte) 2).setResourceName("größe")));
    }

    private static void fetches() throws Exception {
        requests(ApiKeys.FETCH, 0, 17, "partitions", v -> fetch(v, v < 4 ? 0 : 1, List.of(
            fetchOf("a", TOPIC_ID, fetch(v, 0, 1L << 40, 7, 6), fetch(v, 2, 0, -1, -1)),
            fetchOf("größe", OTHER_ID, fetch(v, 1, 5, 0, 0)))));
        requests(ApiKeys.FETCH, 0, 17, "all records", v -> fetch(v, 0, List.of(fetchOf("a", TOPIC_ID, fetch(v, 0, 0, -1, -1)))));
        // All partitions have diverged: the unknown tagged fields would write the tagged field with its default.
        responses(ApiKeys.FETCH, 0, 17, "records", v -> new FetchResponseData().setThrottleTimeMs(9).setResponses(List.of(
            fetchedOf("a", TOPIC_ID,
                fetched(v, 0, 0, 1L << 40, 5, 1001, List.of(transaction(1L << 33, 3), transaction(8, 4)), new byte[] {1, 2, 3}),
                fetched(v, 2, 1, -1, -1, -1, null, null)),
            fetchedOf("größe", OTHER_ID, fetched(v, 1, 0, 7, 7, -1, List.of(), new byte[0])))));
        responses(ApiKeys.FETCH, 1, 17, "throttled", v -> new FetchResponseData().setThrottleTimeMs(9));
        responses(ApiKeys.FETCH, 7, 17, "refused", v -> new FetchResponseData().setThrottleTimeMs(9).setErrorCode((short) 70));
    }

    private static FetchRequestData fetch(int version, int isolation, List<FetchRequestData.FetchTopic> topics) {
        return new FetchRequestData().setMaxWaitMs(500).setMinBytes(1).setMaxBytes(52_428_800).setIsolationLevel((byte) isolation)
            .setRackId(version < 11 ? "" : "zone ä").setTopics(topics);
    }

    private static FetchRequestData.FetchTopic fetchOf(String topic, Uuid id, FetchRequestData.FetchPartition... partitions) {
        return new FetchRequestData.FetchTopic().setTopic(topic).setTopicId(id).setPartitions(List.of(partitions));
    }

    private static FetchRequestData.FetchPartition fetch(int version, int partition, long offset, int epoch, int lastEpoch) {
        return new FetchRequestData.FetchPartition().setPartition(partition).setFetchOffset(offset)
            .setPartitionMaxBytes(1_048_576).setCurrentLeaderEpoch(epoch).setLastFetchedEpoch(version < 12 ? -1 : lastEpoch);
    }

    private static FetchResponseData.FetchableTopicResponse fetchedOf(String topic, Uuid id,
            FetchResponseData.PartitionData... partitions) {
        return new FetchResponseData.FetchableTopicResponse().setTopic(topic).setTopicId(id).setPartitions(List.of(partitions));
    }

    private static FetchResponseData.PartitionData fetched(int version, int partition, int error, long end, long stable,
            int replica, List<FetchResponseData.AbortedTransaction> aborted, byte[] records) {
        FetchResponseData.PartitionData data = new FetchResponseData.PartitionData().setPartitionIndex(partition)
            .setErrorCode((short) error).setHighWatermark(end).setLastStableOffset(version < 4 ? -1 : stable).setLogStartOffset(2)
            .setAbortedTransactions(version < 4 ? null : aborted).setPreferredReadReplica(version < 11 ? -1 : replica);
        if (records != null) {
            setRecords(data, records);
        }
        return version < 12 ? data
            : data.setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(4).setEndOffset(90 + partition));
    }

    private static FetchResponseData.AbortedTransaction transaction(long producer, long offset) {
        return new FetchResponseData.AbortedTransaction().setProducerId(producer).setFirstOffset(offset);
    }

    private static void producers() throws Exception {
        requests(ApiKeys.PRODUCE, 3, 12, "batches", v -> produce(null));
        requests(ApiKeys.PRODUCE, 3, 12, "batches of a transaction", v -> produce("transäktion"));
        responses(ApiKeys.PRODUCE, 3, 12, "outcomes", v -> new ProduceResponseData().setThrottleTimeMs(9)
            .setResponses(new TopicProduceResponseCollection(List.of(
                new TopicProduceResponse().setName("a").setPartitionResponses(List.of(
                    produced(0, 0, 1L << 40, 3),
                    produced(2, 87, -1, -1).setErrorMessage("ungültig").setRecordErrors(List.of(
                        new BatchIndexAndErrorMessage().setBatchIndex(1).setBatchIndexErrorMessage("ä"),
                        new BatchIndexAndErrorMessage().setBatchIndex(2))))),
                new TopicProduceResponse().setName("größe").setPartitionResponses(List.of(produced(1, 6, -1, -1)))).iterator())));
        responses(ApiKeys.PRODUCE, 3, 12, "nothing", v -> new ProduceResponseData());

        requests(ApiKeys.INIT_PRODUCER_ID, 0, 1, "transactional id",
            v -> new InitProducerIdRequestData().setTransactionalId("transäktion").setTransactionTimeoutMs(60_000));
        requests(ApiKeys.INIT_PRODUCER_ID, 0, 1, "no id",
            v -> new InitProducerIdRequestData().setTransactionalId(null).setTransactionTimeoutMs(0));
        responses(ApiKeys.INIT_PRODUCER_ID, 0, 1, "answered", v -> new InitProducerIdResponseData().setThrottleTimeMs(9)
            .setProducerId(PRODUCER).setProducerEpoch(EPOCH));
        responses(ApiKeys.INIT_PRODUCER_ID, 0, 1, "refused", v -> new InitProducerIdResponseData().setErrorCode((short) 51));
    }

    private static ProduceRequestData produce(String transactionalId) {
        return new ProduceRequestData().setTransactionalId(transactionalId).setAcks((short) -1).setTimeoutMs(1000)
            .setTopicData(new TopicProduceDataCollection(List.of(
                new TopicProduceData().setName("a").setPartitionData(List.of(batch(0, new byte[] {1, 2, 3}), batch(2, new byte[] {4}))),
                new TopicProduceData().setName("größe").setPartitionData(List.of(batch(1, new byte[] {5, 6})))).iterator()));
    }

    private static PartitionProduceData batch(int partition, byte[] records) {
        return setRecords(new PartitionProduceData().setIndex(partition), records);
    }

    // Kafka 4.3 has moved the classes of records to another package.
    private static <T> T setRecords(T message, byte[] records) {
        try {
            Method setter = Arrays.stream(message.getClass().getMethods())
                .filter(method -> method.getName().equals("setRecords")).findAny().get();
            Class<?> memory = Class.forName(setter.getParameterTypes()[0].getPackageName() + ".MemoryRecords");
            Method wrap = memory.getMethod("readableRecords", ByteBuffer.class);
            setter.invoke(message, wrap.invoke(null, ByteBuffer.wrap(records)));
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
        return message;
    }

    private static PartitionProduceResponse produced(int partition, int error, long offset, long start) {
        return new PartitionProduceResponse().setIndex(partition).setErrorCode((short) error).setBaseOffset(offset)
            .setLogAppendTimeMs(error == 0 ? 1_700_000_000_000L : -1).setLogStartOffset(start);
    }

    private static void transactions() throws Exception {
        requests(ApiKeys.ADD_PARTITIONS_TO_TXN, 0, 2, "partitions", v -> new AddPartitionsToTxnRequestData()
            .setV3AndBelowTransactionalId("transäktion").setV3AndBelowProducerId(PRODUCER).setV3AndBelowProducerEpoch(EPOCH)
            .setV3AndBelowTopics(new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection(List.of(
                new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName("a").setPartitions(List.of(0, 2)),
                new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName("größe").setPartitions(List.of(1)))
                .iterator())));
        responses(ApiKeys.ADD_PARTITIONS_TO_TXN, 0, 2, "accepted", v -> added(0, 0, 0));
        responses(ApiKeys.ADD_PARTITIONS_TO_TXN, 0, 2, "refused", v -> added(55, 29, 55));

        requests(ApiKeys.ADD_OFFSETS_TO_TXN, 0, 2, "group", v -> new AddOffsetsToTxnRequestData().setTransactionalId("transäktion")
            .setProducerId(PRODUCER).setProducerEpoch(EPOCH).setGroupId("grüppe"));
        responses(ApiKeys.ADD_OFFSETS_TO_TXN, 0, 2, "accepted", v -> new AddOffsetsToTxnResponseData().setThrottleTimeMs(9));
        responses(ApiKeys.ADD_OFFSETS_TO_TXN, 0, 2, "refused", v -> new AddOffsetsToTxnResponseData().setErrorCode((short) 30));

        // librdkafka ends metadata with a zero byte.
        requests(ApiKeys.TXN_OFFSET_COMMIT, 0, 5, "offset", v -> new TxnOffsetCommitRequestData().setTransactionalId("transäktion")
            .setProducerId(PRODUCER).setProducerEpoch(EPOCH).setGroupId("grüppe").setTopics(List.of(
                new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setName("größe").setPartitions(List.of(
                    new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition().setPartitionIndex(1)
                        .setCommittedOffset(1L << 40).setCommittedMetadata("späte Daten\0"))))));
        responses(ApiKeys.TXN_OFFSET_COMMIT, 0, 5, "accepted", v -> committed(0));
        responses(ApiKeys.TXN_OFFSET_COMMIT, 0, 5, "refused", v -> committed(16));

        requests(ApiKeys.END_TXN, 0, 5, "commit", v -> end(true));
        requests(ApiKeys.END_TXN, 0, 5, "abort", v -> end(false));
        responses(ApiKeys.END_TXN, 0, 5, "ended", v -> ended(v));
        responses(ApiKeys.END_TXN, 0, 5, "refused", v -> new EndTxnResponseData().setErrorCode((short) 90));
    }

    private static AddPartitionsToTxnResponseData added(int... errors) {
        return new AddPartitionsToTxnResponseData().setThrottleTimeMs(9).setResultsByTopicV3AndBelow(
            new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResultCollection(List.of(
                addedTo("a", 0, errors[0], 2, errors[1]), addedTo("größe", 1, errors[2])).iterator()));
    }

    private static AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult addedTo(String topic, int... errors) {
        AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection results =
            new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection();
        for (int i = 0; i < errors.length; i += 2) {
            results.add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult().setPartitionIndex(errors[i])
                .setPartitionErrorCode((short) errors[i + 1]));
        }
        return new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult().setName(topic).setResultsByPartition(results);
    }

    private static TxnOffsetCommitResponseData committed(int error) {
        return new TxnOffsetCommitResponseData().setThrottleTimeMs(9).setTopics(List.of(
            new TxnOffsetCommitResponseData.TxnOffsetCommitResponseTopic().setName("größe").setPartitions(List.of(
                new TxnOffsetCommitResponseData.TxnOffsetCommitResponsePartition().setPartitionIndex(1)
                    .setErrorCode((short) error)))));
    }

    private static EndTxnRequestData end(boolean commits) {
        return new EndTxnRequestData().setTransactionalId("transäktion").setProducerId(PRODUCER).setProducerEpoch(EPOCH)
            .setCommitted(commits);
    }

    private static EndTxnResponseData ended(int version) {
        EndTxnResponseData response = new EndTxnResponseData().setThrottleTimeMs(9);
        return version < 5 ? response
            : set(set(response, "setProducerId", long.class, PRODUCER), "setProducerEpoch", short.class, EPOCH);
    }

    // Set a field that only Kafka 3 or Kafka 4 has. A Kafka without the field lacks its versions, too, and `body` skips those.
    private static <T> T set(T object, String setter, Class<?> type, Object value) {
        try {
            object.getClass().getMethod(setter, type).invoke(object, value);
        } catch (NoSuchMethodException missing) {
            return object;
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
        return object;
    }

    private static void requests(ApiKeys api, int oldest, int newest, String sample, IntFunction<ApiMessage> message)
            throws Exception {
        write(api, "request", oldest, newest, sample, message);
    }

    private static void responses(ApiKeys api, int oldest, int newest, String sample, IntFunction<ApiMessage> message)
            throws Exception {
        write(api, "response", oldest, newest, sample, message);
        write(api, "response with tagged fields", oldest, newest, sample, message);
    }

    // Add a row for each range of versions with the same bytes.
    private static void write(ApiKeys api, String kind, int oldest, int newest, String sample, IntFunction<ApiMessage> made)
            throws Exception {
        int first = oldest;
        String last = null;
        for (int version = oldest; version <= newest + 1; version++) {
            String body = version > newest ? null : body(api, kind, (short) version, made.apply(version));
            if (last != null && !last.equals(body)) {
                MESSAGES.add(row(api.name, kind, sample, first, version - 1, last));
            }
            if (body != null && !body.equals(last)) {
                first = version;
            }
            last = body;
        }
    }

    // Null if this Kafka lacks the version, or if the version has no tagged fields and `kind` needs them.
    private static String body(ApiKeys api, String kind, short version, ApiMessage message) throws Exception {
        if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
            return null;
        }
        VERSIONS.computeIfAbsent(api, key -> new TreeSet<>()).add(version);
        if (kind.equals("response with tagged fields")) {
            if (!isFlexible(api, version)) {
                return null;
            }
            addTaggedFields(message);
        }
        return hex(message, version);
    }

    private static boolean isFlexible(ApiKeys api, short version) {
        return api.requestHeaderVersion(version) >= 2;
    }

    private static void addTaggedFields(Message message) throws ReflectiveOperationException {
        message.unknownTaggedFields().add(new RawTaggedField(100, new byte[] {1, 2, 3}));
        message.unknownTaggedFields().add(new RawTaggedField(20_000, new byte[0]));
        for (Field field : message.getClass().getDeclaredFields()) {
            // Produce 9 has no current leader, and an unknown field inside would write it.
            if (!Modifier.isStatic(field.getModifiers()) && !field.getName().equals("currentLeader")) {
                field.setAccessible(true);
                Object value = field.get(message);
                for (Object element : value instanceof Collection ? (Collection<?>) value : Arrays.asList(value)) {
                    if (element instanceof Message) {
                        addTaggedFields((Message) element);
                    }
                }
            }
        }
    }

    private static List<String> headers() throws Exception {
        List<String> rows = new ArrayList<>();
        for (ApiKeys api : VERSIONS.keySet()) {
            for (short version : VERSIONS.get(api)) {
                RequestHeaderData request = new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion(version)
                    .setCorrelationId(CORRELATION_ID).setClientId("clïent");
                ResponseHeaderData response = new ResponseHeaderData().setCorrelationId(CORRELATION_ID);
                short responseVersion = api.responseHeaderVersion(version);
                String plain = hex(response, responseVersion);
                if (responseVersion >= 1) {
                    addTaggedFields(response);
                }
                rows.add(row(api.name, version,
                    hex(request, api.requestHeaderVersion(version)), plain,
                    hex(response, responseVersion)));
            }
        }
        return rows;
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return hex(written.array());
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static String row(Object... values) {
        return "    [" + Arrays.stream(values).map(value -> value instanceof String ? "\"" + value + "\"" : value.toString())
            .collect(Collectors.joining(", ")) + "]";
    }

    private static String list(String name, List<String> rows, String... columns) {
        return "  \"" + name + " columns\": [\"" + String.join("\", \"", columns) + "\"],\n"
            + "  \"" + name + "\": [\n" + String.join(",\n", rows) + "\n  ]";
    }
}
