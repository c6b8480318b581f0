"""The conditions of all errors, in the order of the tree in `errors`: docs/errors.md is generated from them.

A test compares them with what the package raises. Nothing of the package imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_zkafka.errors import (
    BrokersUnavailable,
    CheckpointError,
    ChrootMissing,
    ClusterStateError,
    CodecError,
    ConsumerIdTaken,
    DataLoss,
    DeliveryFailed,
    GroupContended,
    GroupError,
    InvalidRow,
    LocalClusterError,
    NoLeader,
    OptionError,
    PartitionLost,
    PartitionOwned,
    UnknownTopic,
    UnreadableRecord,
    ZKafkaError,
    ZooKeeperError,
    ZooKeeperMisused,
    ZooKeeperRefused,
)

__all__ = ["CATALOGUE", "Condition"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Parameters
    ----------
    kind : type of ZKafkaError
        The class of all its errors.
    name : str
        The text in brackets that their messages begin with.
    cause, remedy : str
        What has happened, and what to do; Markdown, one sentence each.
    """

    kind: type[ZKafkaError]
    name: str
    cause: str
    remedy: str


CATALOGUE: tuple[Condition, ...] = (
    Condition(
        ZKafkaError,
        "DEMO_FAILED",
        "A check of `zkafka demo` failed.",
        "Report it with the output of the demo.",
    ),
    Condition(
        OptionError,
        "INVALID_OPTIONS",
        "Options are unknown, malformed or contradictory; the message lists every problem.",
        "Correct the options that are listed; their names and forms are in [Options](options.md).",
    ),
    Condition(
        OptionError,
        "INVALID_OPTION",
        "The value of one option is malformed, or another option that it needs is missing.",
        "Give the form that the message shows, or set the missing option.",
    ),
    Condition(
        OptionError,
        "INVALID_SCHEMA",
        "A schema has a column that the source does not have, or one of another type, or a frame to write lacks a column.",
        "Select, rename or cast the columns that the message lists.",
    ),
    Condition(
        OptionError,
        "INVALID_OFFSETS_FILE",
        "A file of offsets has lines that are malformed or contradict each other; the message lists them.",
        "Correct the file; nothing was changed.",
    ),
    Condition(
        OptionError,
        "INVALID_GROUP",
        "A group is named as no znode can be: an empty name, `.`, `..`, or one with a slash or a zero byte.",
        "Choose a `group.id` of letters, digits, `.`, `_` and `-`.",
    ),
    Condition(
        OptionError,
        "INVALID_OFFSET",
        "An offset to commit is negative, or does not fit 64 bits.",
        "Commit the offset of the next record to read, not -1 (latest) or -2 (earliest).",
    ),
    Condition(
        OptionError,
        "OFFSETS_DO_NOT_MATCH",
        "Offsets in JSON name partitions that are not read, or leave out some that are.",
        "Name exactly the partitions that are read, or their whole topics; or, for a start, set `auto.offset.reset`.",
    ),
    Condition(
        OptionError,
        "START_AFTER_END",
        "A partition's starting offset or timestamp is after its ending one.",
        "Choose a start that is not after the end.",
    ),
    Condition(
        OptionError,
        "UNKNOWN_ASSIGNOR",
        "There is no assignor of the name that was given.",
        "Choose one of the names in the message.",
    ),
    Condition(
        OptionError,
        "UNKNOWN_PARTITIONER",
        "There is no partitioner of the name that was given.",
        "Choose one of the names in the message.",
    ),
    Condition(
        OptionError,
        "BAD_KEY_TYPE",
        "The column `key` has a type whose values cannot be hashed to a partition.",
        "Cast the column to binary or string.",
    ),
    Condition(
        OptionError,
        "SAVE_MODE",
        "A frame is written with another mode than append.",
        'Write with `.mode("append")`.',
    ),
    Condition(
        OptionError,
        "OUTPUT_MODE",
        "A stream is written in the output mode complete.",
        "Use append, or write what has changed with `foreachBatch`; see [Writing](writing.md#a-stream).",
    ),
    Condition(
        OptionError,
        "NO_NATIVE_PATH",
        "`nativePath` is on, and the compiled path was not built, or cannot use confluent-kafka's librdkafka.",
        "Install a C compiler and then the package again, on the driver and every executor, or leave the option at auto.",
    ),
    Condition(
        OptionError,
        "UNUSABLE_KAFKA_PROPERTY",
        "librdkafka rejected a property in `kafka.*`, or cannot load a file or a key that it names.",
        "Correct the property; install the same librdkafka and place the same files on the driver and every executor.",
    ),
    Condition(
        OptionError,
        "UNUSABLE_TLS_FILE",
        "A file in `zookeeper.ssl.*` is missing or unreadable, or is not the PEM file that is expected.",
        "Place a PEM file at that path, on the driver and every executor.",
    ),
    Condition(
        OptionError,
        "SASL_MISSING",
        "`zookeeper.auth` asks for SASL, and the package pure-sasl is not installed.",
        "Run `pip install 'pyspark-zkafka[sasl]'`.",
    ),
    Condition(
        ZooKeeperError,
        "ZOOKEEPER_UNREACHABLE",
        "No server of `zookeeper.connect` granted a session within the connection timeout.",
        "Check hosts, ports, network and TLS, and that the servers run, or raise `zookeeper.connection.timeout.ms`.",
    ),
    Condition(
        ZooKeeperError,
        "ZOOKEEPER_TIMEOUT",
        "A request to ZooKeeper got no answer within the connection timeout.",
        "Check that the ensemble has a quorum, or raise `zookeeper.connection.timeout.ms`.",
    ),
    Condition(
        ZooKeeperError,
        "ZOOKEEPER_CONNECTION_LOST",
        "The connection or the session was lost during a request.",
        "Try again; if it recurs, see the servers' logs.",
    ),
    Condition(
        ZooKeeperError,
        "ZOOKEEPER_ERROR",
        "ZooKeeper answered with an error that has no condition of its own.",
        "See the servers' logs.",
    ),
    Condition(
        ZooKeeperError,
        "NO_SESSION",
        "A member's session with ZooKeeper is lost, and its partitions with it.",
        "Plan again when ZooKeeper can be reached; a stream does so by itself.",
    ),
    Condition(
        ChrootMissing,
        "NO_CHROOT",
        "The path that follows the hosts in `zookeeper.connect` does not exist.",
        "Correct that path; the message names those under which there is a Kafka cluster.",
    ),
    Condition(
        ZooKeeperRefused,
        "ZOOKEEPER_REFUSED",
        "ZooKeeper rejected the credentials, an ACL or a quota forbids the request, or the server is read-only.",
        "Correct `zookeeper.auth`, or have the ACL or the quota changed; wait for a quorum if the server is read-only.",
    ),
    Condition(
        ZooKeeperRefused,
        "REQUEST_TOO_LARGE",
        "A request is larger than the servers' `jute.maxbuffer` (1 MiB by default), as a registration of many topics is.",
        "Subscribe to fewer topics or by a pattern, or raise that limit on all servers.",
    ),
    Condition(
        ZooKeeperMisused,
        "ZOOKEEPER_NOT_OPEN",
        "A ZooKeeper client was used outside its `with` block.",
        "Use it inside the block.",
    ),
    Condition(
        ZooKeeperMisused,
        "ZOOKEEPER_ALREADY_OPEN",
        "A ZooKeeper client was opened twice.",
        "Make another client.",
    ),
    Condition(
        ZooKeeperMisused,
        "ZOOKEEPER_MISUSED",
        "The servers do not understand a request, as servers before ZooKeeper 3.4 do not.",
        "Check the servers' version, and report it if they are newer.",
    ),
    Condition(
        ClusterStateError,
        "NO_BROKERS",
        "No broker is registered under `/brokers/ids`.",
        "Start a broker, or correct the chroot in `zookeeper.connect`.",
    ),
    Condition(
        ClusterStateError,
        "NO_KAFKA_CLUSTER",
        "The chroot in `zookeeper.connect` has no `/brokers/ids`.",
        "Correct the chroot, or set `kafka.bootstrap.servers` for a cluster without ZooKeeper (KRaft).",
    ),
    Condition(
        ClusterStateError,
        "NO_LISTENER",
        "No broker has the listener that is asked for; the message lists those that are registered.",
        "Set `listener.name` or `kafka.security.protocol` to one of them.",
    ),
    Condition(
        ClusterStateError,
        "WRONG_SECURITY_PROTOCOL",
        "The listener of `listener.name` has another security protocol than `kafka.security.protocol`.",
        "Set the listener's protocol, or `kafka.bootstrap.servers` where a proxy converts it.",
    ),
    Condition(
        ClusterStateError,
        "NO_COMMITTED_OFFSET",
        "The group has no offset of a partition, and `auto.offset.reset` is error.",
        "Commit one, name the partition in `startingOffsets`, or set `auto.offset.reset` to earliest or latest.",
    ),
    Condition(
        ClusterStateError,
        "NO_OFFSET_FOR_TIMESTAMP",
        "A partition has no record at or after the starting timestamp.",
        "Choose an earlier timestamp, or set `startingOffsetsByTimestampStrategy` to latest.",
    ),
    Condition(
        ClusterStateError,
        "TRANSACTION_OPEN",
        "With `kafka.isolation.level=read_committed`, the range of a batch ends among the records of a transaction that "
        "did not end in time.",
        "Read again when the transaction has ended, or raise `kafkaConsumer.pollTimeoutMs`.",
    ),
    Condition(
        ClusterStateError,
        "OFFSETS_OUT_OF_ORDER",
        "librdkafka returned records whose offsets are not ascending.",
        "Report it with librdkafka's log (`kafka.debug=fetch`).",
    ),
    Condition(
        ClusterStateError,
        "REFUSED_BY_BROKER",
        "A broker rejected the credentials, the certificate or the operation.",
        "Check `kafka.security.protocol`, `kafka.sasl.*`, `kafka.ssl.*` and the ACLs; see [Security](security.md).",
    ),
    Condition(
        ClusterStateError,
        "KAFKA_ERROR",
        "librdkafka reported an error that has no condition of its own.",
        "Look up its name, which is in the message, in librdkafka's documentation.",
    ),
    Condition(
        UnknownTopic,
        "UNKNOWN_TOPIC",
        "A topic or partition does not exist, or was deleted.",
        "Correct the name, or create the topic.",
    ),
    Condition(
        UnknownTopic,
        "TOPIC_WITHOUT_PARTITIONS",
        "A topic to write to has no partitions.",
        "Create the topic, or correct its name.",
    ),
    Condition(
        NoLeader,
        "NO_LEADER",
        "A partition is offline, or its leader is changing.",
        "Start a broker of its ISR, or read the other partitions with `offlinePartitions=skip`.",
    ),
    Condition(
        BrokersUnavailable,
        "BROKERS_UNAVAILABLE",
        "No broker, or no leader of the partitions that are asked for, answered in time.",
        "Check that the brokers run, and that the addresses that they register can be reached from the driver and the "
        "executors.",
    ),
    Condition(
        GroupError,
        "NOT_A_MEMBER",
        "A `ConsumerGroup` was used outside its `with` block, or has no membership.",
        "Use it inside the block.",
    ),
    Condition(
        GroupError,
        "ASSIGN_IN_GROUP",
        "A member of a group was given fixed partitions by `assign`.",
        "Subscribe to topics instead.",
    ),
    Condition(
        GroupError,
        "NOT_STICKY",
        "`partition.assignment.strategy` is sticky, and other members of the group have another strategy.",
        "Set one strategy for all members: range or roundrobin beside JVM consumers.",
    ),
    Condition(
        GroupError,
        "BAD_FILTER",
        "A member of the group has registered a topic filter that is no regular expression, or an unbounded one.",
        "Correct the filter of that member.",
    ),
    Condition(
        GroupError,
        "GROUP_ACTIVE",
        "Consumers of the group are active, in ZooKeeper or in Kafka, so that its offsets must not be changed.",
        "Stop the group's consumers, wait until the session of one that died expires, and run the command again.",
    ),
    Condition(
        GroupError,
        "UNKNOWN_GROUP",
        "There is no group of that name, or it has no offsets.",
        "Correct the name, or the chroot in `zookeeper.connect`.",
    ),
    Condition(
        GroupError,
        "OFFSETS_REFUSED",
        "The brokers refused offsets of a group, of which others are written, as the message says.",
        "Remove the cause, and write these offsets again.",
    ),
    Condition(
        PartitionOwned,
        "PARTITION_OWNED",
        "A live consumer of the group owns a partition whose offset was to be committed.",
        "Stop that consumer, join the group with `ConsumerGroup`, or use another `group.id`.",
    ),
    Condition(
        PartitionLost,
        "PARTITION_LOST",
        "The member no longer owned a partition when it committed that partition's offset.",
        "Plan again, or raise `rebalance.hold.ms`.",
    ),
    Condition(
        GroupContended,
        "COMMIT_CONTENDED",
        "Others kept changing the group's offsets while they were committed.",
        "Try again, as a stream does by itself; if it recurs, find the other client that commits to it.",
    ),
    Condition(
        GroupContended,
        "OFFSETS_CHANGED",
        "Somebody changed the group's offsets between the time when a command read them and the time when it wrote them.",
        "Find the client that commits for the group, and run the command again.",
    ),
    Condition(
        GroupContended,
        "CLAIMS_CONTENDED",
        "Others kept changing the claims of the group while they were read.",
        "Try again, as a stream does by itself; if it recurs, find the client that deletes and creates its owners.",
    ),
    Condition(
        GroupContended,
        "REGISTRATION_CONTENDED",
        "Others kept creating and deleting the znodes of the group while a member registered.",
        "Try again; if it recurs, find the client that deletes and creates these znodes.",
    ),
    Condition(
        GroupContended,
        "GROUP_CONTENDED",
        "Others kept creating and deleting the parents of the group's znodes while these were created.",
        "Try again.",
    ),
    Condition(
        ConsumerIdTaken,
        "CONSUMER_ID_TAKEN",
        "Another session is registered by the member's `consumer.id`.",
        "Stop the other consumer, wait until its session expires if it died, or set another `consumer.id`.",
    ),
    Condition(
        CheckpointError,
        "UNKNOWN_CHECKPOINT",
        "The checkpoint has an offset that this version of the package cannot read.",
        "Use the version that wrote it, or a new `checkpointLocation`.",
    ),
    Condition(
        DataLoss,
        "DATA_LOSS",
        "Records of the planned range are gone: deleted, expired or truncated.",
        "Set `failOnDataLoss` to false to go on without them; see [Reading](reading.md#what-a-task-proves).",
    ),
    Condition(
        DataLoss,
        "OFFSET_OUT_OF_RANGE",
        "A starting or ending offset is outside the log.",
        "Correct the offsets, or set `failOnDataLoss` to false to read what there is.",
    ),
    Condition(
        DataLoss,
        "OFFSET_WENT_BACK",
        "A log ends, or was truncated, before the position of a stream.",
        "Find out what truncated it (an unclean election, or somebody by hand), then set `failOnDataLoss` to false.",
    ),
    Condition(
        DataLoss,
        "PARTITIONS_GONE",
        "Partitions that a stream was reading no longer exist.",
        "Set `failOnDataLoss` to false to go on without them.",
    ),
    Condition(
        DataLoss,
        "TOPIC_REPLACED",
        "A topic was deleted, or deleted and created again, after the read was planned or between two micro-batches.",
        "Plan the batch again, or set `failOnDataLoss` to false to go on with the new topic.",
    ),
    Condition(
        UnreadableRecord,
        "MALFORMED_UTF8",
        "A key or value that is read as a string is not UTF-8, or the name of a header is not.",
        "Read the column as binary, which is the default, or leave out the column `headers`.",
    ),
    Condition(
        UnreadableRecord,
        "MALFORMED_TIMESTAMP",
        "A record's timestamp is outside the range of Spark's timestamps.",
        "Leave the column `timestamp` out of the schema.",
    ),
    Condition(
        InvalidRow,
        "NULL_TOPIC",
        "The column `topic` is null in a row.",
        "Fill the column, or set the option `topic`.",
    ),
    Condition(
        InvalidRow,
        "INVALID_TOPIC",
        "The name of a topic in a row is one that Kafka does not allow.",
        "Correct the name in that row.",
    ),
    Condition(
        InvalidRow,
        "PARTITION_OUT_OF_RANGE",
        "The column `partition` has a number that the topic does not have.",
        "Correct the number, or leave it null for the partitioner to choose.",
    ),
    Condition(
        InvalidRow,
        "INVALID_TIMESTAMP",
        "The column `timestamp` has a time before 1970-01-01T00:00:00.001Z.",
        "Leave it null for the producer to set the time.",
    ),
    Condition(
        InvalidRow,
        "INVALID_HEADERS",
        "A header has a null key, or one that is not UTF-8 or has a zero byte.",
        "Give each header a key of UTF-8 without zero bytes.",
    ),
    Condition(
        DeliveryFailed,
        "DELIVERY_FAILED",
        "The brokers did not acknowledge all rows of a task; the message quotes the first cause.",
        "Correct the cause and write again; the acknowledged rows will be duplicated.",
    ),
    Condition(
        DeliveryFailed,
        "DELIVERY_MISCOUNTED",
        "The brokers acknowledged another number of rows than was sent, without reporting an error.",
        "Write again, and report it with librdkafka's log (`kafka.debug=msg`).",
    ),
    Condition(
        CodecError,
        "MALFORMED_ZNODE",
        "A znode has data that Kafka does not write there; the message quotes its path and data.",
        "Correct or delete the znode, or find the client that wrote it.",
    ),
    Condition(
        LocalClusterError,
        "BAD_CLUSTER",
        "A cluster is described by settings that contradict each other, or has a name that is not allowed.",
        "Correct what the message lists.",
    ),
    Condition(
        LocalClusterError,
        "BAD_KAFKA_VERSION",
        "The version of Kafka is malformed, or is one that does not run with ZooKeeper.",
        "Choose a version from 0.8.2.2 to 3.9.x.",
    ),
    Condition(
        LocalClusterError,
        "NO_JAVA",
        "No Java was found in `JAVA_HOME` or on `PATH`.",
        "Install Java 17 or newer, or correct `JAVA_HOME`.",
    ),
    Condition(
        LocalClusterError,
        "JAVA_TOO_OLD",
        "The Java that was found is older than 17.",
        "Install Java 17, and set `JAVA_HOME` to it.",
    ),
    Condition(
        LocalClusterError,
        "NO_IVY",
        "Spark's Ivy, which fetches Kafka's jars, is missing, or `ZKAFKA_IVY_SETTINGS` names no file.",
        "Install the full pyspark, or correct the variable.",
    ),
    Condition(
        LocalClusterError,
        "BAD_COORDINATES",
        "A jar is not named by `group:artifact:version`.",
        "Write the coordinates in that form.",
    ),
    Condition(
        LocalClusterError,
        "JARS_NOT_FETCHED",
        "Ivy could not fetch Kafka's jars.",
        "Check that the repository can be reached, or name a mirror in `ZKAFKA_IVY_SETTINGS` or a filled cache in "
        "`ZKAFKA_CACHE`.",
    ),
    Condition(
        LocalClusterError,
        "NO_FREE_PORT",
        "No free port was found for a server.",
        "Stop other servers on the machine.",
    ),
    Condition(
        LocalClusterError,
        "SERVER_NOT_STARTED",
        "The operating system did not start a server.",
        "See the reason in the message.",
    ),
    Condition(
        LocalClusterError,
        "SERVER_DIED",
        "A server ended by itself; the message quotes its log.",
        "Correct the setting or the resource that the log names.",
    ),
    Condition(
        LocalClusterError,
        "NOT_READY",
        "Servers did not become ready in time; the message quotes a log.",
        "Raise `startup_timeout_s` on a slow or busy machine.",
    ),
    Condition(
        LocalClusterError,
        "SERVER_DID_NOT_END",
        "A server did not end in time after a signal.",
        "Use `kill()` for a server that cannot shut down by itself.",
    ),
    Condition(
        LocalClusterError,
        "SERVER_NOT_RUNNING",
        "An operation needs a server that is stopped.",
        "Start the server with `restart()`.",
    ),
    Condition(
        LocalClusterError,
        "NO_SUCH_SERVER",
        "The cluster has no broker of that number.",
        "Choose one of the servers in the message.",
    ),
    Condition(
        LocalClusterError,
        "SUPERVISOR_GONE",
        "The process that the servers run under has ended, and the servers with it.",
        "Start the cluster again; check whether memory ran out.",
    ),
    Condition(
        LocalClusterError,
        "CLUSTER_NOT_RUNNING",
        "A `LocalCluster` was used before it was started, after it was closed, or in a child process.",
        "Use it inside its `with` block.",
    ),
    Condition(
        LocalClusterError,
        "ZOOKEEPER_SILENT",
        "The cluster's ZooKeeper did not answer in time.",
        "Check whether it is stopped or paused.",
    ),
    Condition(
        LocalClusterError,
        "CLUSTER_ALREADY_UP",
        "A local cluster of that name is up, or is starting.",
        "Run `zkafka cluster down` first, or give another name.",
    ),
    Condition(
        LocalClusterError,
        "CLUSTER_NOT_UP",
        "The daemon of a local cluster ended before the cluster was up.",
        "See the reason in the message.",
    ),
    Condition(
        LocalClusterError,
        "CLUSTER_NOT_DOWN",
        "The daemon of a local cluster did not end in time.",
        "Kill the process in the message; the servers end with it.",
    ),
    Condition(
        LocalClusterError,
        "NO_CLUSTER_UP",
        "No local cluster of that name is up.",
        "Run `zkafka cluster up`.",
    ),
    Condition(
        LocalClusterError,
        "NO_SUCH_TOPIC",
        "The local cluster has no topic of that name.",
        "Create it with `create_topic`.",
    ),
    Condition(
        LocalClusterError,
        "BAD_REPLICATION",
        "More replicas are asked for than there are brokers.",
        "Ask for fewer replicas.",
    ),
    Condition(
        LocalClusterError,
        "NOT_IN_THIS_VERSION",
        "Records are to be deleted by a broker before Kafka 0.11, which cannot.",
        "Start a newer Kafka.",
    ),
    Condition(
        LocalClusterError,
        "REFUSED_BY_CLUSTER",
        "The local cluster refused to create, change or delete a topic.",
        "See the reason in the message.",
    ),
    Condition(
        LocalClusterError,
        "NOT_SETTLED",
        "The local cluster did not reach the requested state in time.",
        "See in the message what is lacking, and check that all brokers run.",
    ),
    Condition(
        LocalClusterError,
        "BAD_RECORD",
        "A record to produce has unknown fields.",
        "Give a dict, or a tuple in the order that the message shows.",
    ),
    Condition(
        LocalClusterError,
        "NOT_DELIVERED",
        "The local cluster did not acknowledge all records.",
        "See the reason in the message, and check that all leaders run.",
    ),
    Condition(
        LocalClusterError,
        "NOT_COMPILED",
        "A Java program for tests could not be compiled.",
        "Correct the program, or set `JAVA_HOME` to another Java.",
    ),
    Condition(
        LocalClusterError,
        "TOOL_FAILED",
        "A command-line tool of Kafka failed; the message quotes its output.",
        "Correct what the output names.",
    ),
    Condition(
        LocalClusterError,
        "TOOL_TIMED_OUT",
        "A command-line tool of Kafka did not end in time; the message quotes its output.",
        "Check that the cluster answers.",
    ),
    Condition(
        LocalClusterError,
        "BAD_CONSUMER",
        "An `OldConsumer` has none or several of `topics`, `white_list` and `black_list`.",
        "Give one of them.",
    ),
    Condition(
        LocalClusterError,
        "CONSUMER_RUNNING",
        "An `OldConsumer` that runs was started.",
        "Use `stop()` or `kill()` first.",
    ),
    Condition(
        LocalClusterError,
        "CONSUMER_NOT_RUNNING",
        "An operation needs an `OldConsumer` that runs.",
        "Use `start()`, or see its `log`.",
    ),
    Condition(
        LocalClusterError,
        "CONSUMER_NOT_READY",
        "An `OldConsumer` got no streams in time; the message quotes its log.",
        "See its log, and check that ZooKeeper and the brokers answer.",
    ),
    Condition(
        LocalClusterError,
        "CONSUMER_DIED",
        "An `OldConsumer` ended before it was ready; the message quotes its log.",
        "Correct the property that the log names.",
    ),
    Condition(
        LocalClusterError,
        "CONSUMER_DID_NOT_END",
        "An `OldConsumer` did not end in time after SIGTERM.",
        "Use `kill()` for a consumer that cannot shut down, for example without ZooKeeper.",
    ),
    Condition(
        LocalClusterError,
        "NOT_COMMITTED",
        "An `OldConsumer` did not commit.",
        "See its log, which the message quotes.",
    ),
)
