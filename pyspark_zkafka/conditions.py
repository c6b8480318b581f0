"""Every condition in which the package raises an error, with its class, cause and remedy.

``raise NO_LEADER("...")`` raises the condition's class with a message that says what was found. Each text has two
sentences: the cause and the remedy. docs/errors.md is generated from them. `testing.conditions` has the local cluster's
conditions.
"""

from __future__ import annotations

import logging

from pyspark_zkafka import errors

_log = logging.getLogger(__name__)

DEMO_FAILED = errors.ZKafkaError.define("""DEMO_FAILED
    A check of `zkafka demo` failed. Report the failure with the output of the demo.""")
VERSIONS_DIFFER = errors.ZKafkaError.define("""VERSIONS_DIFFER
    Driver and executors have different builds of the package. Install the same one on all of them; see
    [Deploy](deploy.md#what-to-install).""")
UNSUPPORTED_PYSPARK = errors.ZKafkaError.define("""UNSUPPORTED_PYSPARK
    Spark is older than 4.0, too old for an option (limits of micro-batches need 4.2), or newer than the tested versions.
    Leave out the option, or use a [version that has it](compatibility.md#versions-of-spark).""")
UNSUPPORTED_ENGINE = errors.ZKafkaError.define("""UNSUPPORTED_ENGINE
    The engine that runs the query is not Spark, and lacks what the query needs: Sail runs no streams of Python data
    sources, and gives tasks no identity for exactly-once writes. Run the query on Spark, or see [Sail](sail.md).""")
BATCHES_KEPT = errors.ZKafkaError.define("""BATCHES_KEPT
    On Sail, a query keeps all rows of a task, and these are too many, or it has read none for ten minutes. Set
    `maxRecordsPerPartition`, so that each task reads less; see [Sail](sail.md#memory).""")
THREAD_FAILED = errors.ZKafkaError.define("""THREAD_FAILED
    A background thread, such as the thread of a group's member, ended with an unexpected error; the member has left its
    group. Restart the query or job, which continues at the stored offsets, and report the error with the traceback in
    the log.""")
MATPLOTLIB_MISSING = errors.ZKafkaError.define("""MATPLOTLIB_MISSING
    `pyspark_zkafka.plot` needs matplotlib, which is not installed. Run `pip install 'pyspark-zkafka[plot]'`.""")

INVALID_OPTIONS = errors.OptionError.define("""INVALID_OPTIONS
    Options are unknown, malformed or contradictory; the message lists every problem. Correct the listed options as
    described in [Options](options.md).""")
TABLE_WITHOUT_OPTIONS = errors.OptionError.define("""TABLE_WITHOUT_OPTIONS
    A table of SQL's `CREATE TABLE` has no options, because Spark does not pass them to a Python data source.
    Use `CREATE TEMPORARY VIEW`, or name the options in each query; see [SQL](sql.md#tables).""")
INVALID_OPTION = errors.OptionError.define("""INVALID_OPTION
    An option has a malformed value, or requires another option that is missing. Use the form shown in the message, or
    set the missing option.""")
UNNAMED_WRITE = errors.OptionError.define("""UNNAMED_WRITE
    An exactly-once batch write cannot identify its micro-batch: it runs under Spark Connect, in a thread that
    `foreachBatch` starts, or in a batch job. Set `writerName` and `batchId` while no micro-batch is interrupted, and leave
    `commitOffsets` out; see [Exactly once](exactly-once.md#batch-jobs).""")
INVALID_SCHEMA = errors.OptionError.define("""INVALID_SCHEMA
    A column is unknown, missing or of the wrong type, or the schema of a format is malformed or does not fit. Select,
    rename or cast the columns listed in the message, or correct the schema.""")
INVALID_OFFSETS_FILE = errors.OptionError.define("""INVALID_OFFSETS_FILE
    A file of offsets has malformed or contradictory lines; the message lists them. Correct the file; nothing was
    changed.""")
INVALID_GROUP = errors.OptionError.define("""INVALID_GROUP
    A group's name is empty, `.` or `..`, or contains a slash or a control character, and cannot name a znode. Choose a
    `group.id` of letters, digits, `.`, `_` and `-`.""")
INVALID_NAME = errors.OptionError.define("""INVALID_NAME
    The name of a topic or consumer is empty, `.` or `..`, or contains a slash or a control character, and cannot name a
    znode. Correct the name.""")
INVALID_OFFSET = errors.OptionError.define("""INVALID_OFFSET
    An offset to commit is negative or exceeds 64 bits. Commit the offset of the next record to read, not -1 (latest) or
    -2 (earliest).""")
OFFSETS_DO_NOT_MATCH = errors.OptionError.define("""OFFSETS_DO_NOT_MATCH
    Offsets in JSON name partitions that are not read, or omit partitions that are read. Name exactly the partitions to
    read, or their topics, or set `auto.offset.reset` for the partitions without an offset.""")
START_AFTER_END = errors.OptionError.define("""START_AFTER_END
    A partition's start is after its end. Choose a start at or before the end.""")
INVALID_REASSIGNMENT = errors.OptionError.define("""INVALID_REASSIGNMENT
    Partitions cannot be reassigned as requested; the message lists all reasons. Correct the replicas, or wait for the
    current deletion or reassignment to finish.""")
INVALID_TOPIC_CONFIG = errors.OptionError.define("""INVALID_TOPIC_CONFIG
    A topic setting has a wrong name or value. Correct the setting; the message quotes the broker's reason or the
    expected form.""")
UNKNOWN_ASSIGNOR = errors.OptionError.define("""UNKNOWN_ASSIGNOR
    No assignor has the given name. Choose one of the names in the message.""")
UNKNOWN_PARTITIONER = errors.OptionError.define("""UNKNOWN_PARTITIONER
    No partitioner has the given name. Choose one of the names in the message.""")
BAD_KEY_TYPE = errors.OptionError.define("""BAD_KEY_TYPE
    The column `key` has a type that cannot be hashed. Cast the column to binary or string.""")
SAVE_MODE = errors.OptionError.define("""SAVE_MODE
    A batch write has a save mode other than append. Write with `.mode("append")`.""")
OUTPUT_MODE = errors.OptionError.define("""OUTPUT_MODE
    A stream is written in the output mode complete. Use append, or write the changes with `foreachBatch`; see
    [Writing](writing.md#a-stream).""")
NO_NATIVE_PATH = errors.OptionError.define("""NO_NATIVE_PATH
    `transport=direct`, an exactly-once write, or a column in Avro requires compiled code that was not built or cannot be
    loaded. Install a C compiler and reinstall the package on the driver and every executor, and start Spark
    outside the package's source tree.""")
UNUSABLE_KAFKA_PROPERTY = errors.OptionError.define("""UNUSABLE_KAFKA_PROPERTY
    librdkafka rejected a `kafka.*` property, or cannot load a file or key that the property names; or an exactly-once
    write does not support it. Correct the property, or leave it out, and use the same librdkafka and files on the driver
    and every executor.""")
UNUSABLE_TLS_FILE = errors.OptionError.define("""UNUSABLE_TLS_FILE
    A file named by `zookeeper.ssl.*` is missing, unreadable or not the expected PEM file. Place a PEM file at that path
    on the driver and every executor.""")
TRANSACTION_TIMEOUT = errors.OptionError.define("""TRANSACTION_TIMEOUT
    `kafka.transaction.timeout.ms` exceeds the brokers' `transaction.max.timeout.ms`. Lower the option, or raise the
    brokers' setting.""")
SASL_MISSING = errors.OptionError.define("""SASL_MISSING
    `zookeeper.auth` requests SASL, but the package pure-sasl is not installed. Run `pip install
    'pyspark-zkafka[sasl]'`.""")
FORMAT_LIBRARY_MISSING = errors.OptionError.define("""FORMAT_LIBRARY_MISSING
    A format or the schema registry needs a package that is not installed; the message names it. Install the extra in
    the message, such as `pip install 'pyspark-zkafka[schema-registry]'`, on the driver and every executor.""")
PROTOC_STOPPED = errors.OptionError.define("""PROTOC_STOPPED
    The compiler of Protobuf schemas was killed, or took more than a minute. Try again, with more memory or processors.""")
UNKNOWN_COLUMN_TYPE = errors.OptionError.define("""UNKNOWN_COLUMN_TYPE
    The type of the column `key` or `value` is unknown: JSON has no schema, or topics have subjects with different
    schemas. Set `value.schema` or `value.subject`, or for JSON declare the column's type in the frame's schema; see
    [Formats](formats.md).""")

ZOOKEEPER_UNREACHABLE = errors.ZooKeeperError.define("""ZOOKEEPER_UNREACHABLE
    No server in `zookeeper.connect` granted a session within the connection timeout. Check the hosts, ports, network,
    TLS and servers, or raise `zookeeper.connection.timeout.ms`.""")
ZOOKEEPER_TIMEOUT = errors.ZooKeeperError.define("""ZOOKEEPER_TIMEOUT
    ZooKeeper did not answer a request within the connection timeout. Check that the ensemble has a quorum, or raise
    `zookeeper.connection.timeout.ms`.""")
ZOOKEEPER_CONNECTION_LOST = errors.ZooKeeperError.define("""ZOOKEEPER_CONNECTION_LOST
    The connection or session was lost during a request. Try again, and check the servers' logs if the error recurs.""")
ZOOKEEPER_ERROR = errors.ZooKeeperError.define("""ZOOKEEPER_ERROR
    ZooKeeper answered with an error that has no condition of its own. Check the servers' logs.""")
NO_SESSION = errors.ZooKeeperError.define("""NO_SESSION
    A member lost its ZooKeeper session and therefore its partitions. Plan again when ZooKeeper can be reached; a stream
    does so automatically.""")

NO_CHROOT = errors.ChrootMissing.define("""NO_CHROOT
    The path after the hosts in `zookeeper.connect` does not exist. Correct the path; the message lists the paths that
    have a Kafka cluster.""")

ZOOKEEPER_REFUSED = errors.ZooKeeperRefused.define("""ZOOKEEPER_REFUSED
    ZooKeeper rejected the credentials, an ACL or a quota forbids the request, or the server is read-only. Correct
    `zookeeper.auth`, change the ACL or quota, or wait until the server has a quorum.""")
REQUEST_TOO_LARGE = errors.ZooKeeperRefused.define("""REQUEST_TOO_LARGE
    A request exceeds the servers' `jute.maxbuffer` (1 MiB by default), for example a registration with many topics.
    Subscribe to fewer topics or by a pattern, or raise the limit on all servers.""")

ZOOKEEPER_NOT_OPEN = errors.ZooKeeperMisused.define("""ZOOKEEPER_NOT_OPEN
    A ZooKeeper client was used outside its `with` block. Use the client inside the block.""")
ZOOKEEPER_ALREADY_OPEN = errors.ZooKeeperMisused.define("""ZOOKEEPER_ALREADY_OPEN
    A ZooKeeper client was opened twice. Create another client.""")
ZOOKEEPER_MISUSED = errors.ZooKeeperMisused.define("""ZOOKEEPER_MISUSED
    The servers do not know a request, as before ZooKeeper 3.4, or a znode has a name that ZooKeeper does not allow.
    Check the servers' version, delete a znode that the message names, and report the error otherwise.""")

MIGRATED_TO_KRAFT = errors.ClusterStateError.define("""MIGRATED_TO_KRAFT
    The cluster was migrated to KRaft: its brokers no longer register in ZooKeeper, and the state in ZooKeeper is out of
    date. Set `kafka.bootstrap.servers`; for a stream with `group.id`, first copy the group's offsets with `zkafka groups
    migrate`, then set `groupMembership=kafka`; see [To Kafka 4](migrate-to-kafka-4.md).""")
NO_BROKERS = errors.ClusterStateError.define("""NO_BROKERS
    No broker is registered under `/brokers/ids`. Start a broker, or correct the chroot in `zookeeper.connect`.""")
NO_KAFKA_CLUSTER = errors.ClusterStateError.define("""NO_KAFKA_CLUSTER
    The chroot in `zookeeper.connect` has no `/brokers/ids`. Correct the chroot, or set `kafka.bootstrap.servers` for a
    cluster without ZooKeeper (KRaft).""")
NO_ZOOKEEPER_CONTROLLER = errors.ClusterStateError.define("""NO_ZOOKEEPER_CONTROLLER
    No controller acts on administrative znodes: no broker runs, or the cluster was migrated to KRaft. Start a broker,
    or use Kafka's own tools with `--bootstrap-server`.""")
ADMIN_UNDER_WAY = errors.ClusterStateError.define("""ADMIN_UNDER_WAY
    Another reassignment, election or deletion is in progress. Wait until it is done; `zkafka admin show` shows its
    state.""")
ADMIN_CONFLICT = errors.ClusterStateError.define("""ADMIN_CONFLICT
    Another client changed an administrative znode at the same time; nothing was changed. Try again.""")
ADMIN_UNFINISHED = errors.ClusterStateError.define("""ADMIN_UNFINISHED
    A reassignment, election or deletion did not finish within the command's time limit, and continues. Check its state
    with `zkafka admin show`, and that all brokers of the partitions run.""")
DELETION_DISABLED = errors.ClusterStateError.define("""DELETION_DISABLED
    A topic cannot be deleted because the controller has `delete.topic.enable=false`. Set it to true on all brokers, and
    restart them.""")
TOPIC_REFUSED = errors.ClusterStateError.define("""TOPIC_REFUSED
    The brokers refuse to create or delete a topic, or to add partitions to it; nothing was changed. Correct what the
    message names: the name, the number of partitions or replicas, or the brokers' policy.""")
BROKERS_TOO_OLD = errors.ClusterStateError.define("""BROKERS_TOO_OLD
    The brokers cannot store a column of the rows, or have no idempotent producer or no transactions. Leave out what the
    message names, or upgrade the brokers.""")
NO_COORDINATORS = errors.ClusterStateError.define("""NO_COORDINATORS
    A stream cannot join a group that Kafka coordinates because the brokers are older than 0.9. Set
    `groupMembership=zookeeper`.""")
NO_LISTENER = errors.ClusterStateError.define("""NO_LISTENER
    No broker has the requested listener; the message lists the registered listeners. Set `listener.name` or
    `kafka.security.protocol` to match one of them.""")
WRONG_SECURITY_PROTOCOL = errors.ClusterStateError.define("""WRONG_SECURITY_PROTOCOL
    The security protocol of the listener in `listener.name` differs from `kafka.security.protocol`. Set the listener's
    protocol, or set `kafka.bootstrap.servers` if a proxy converts it.""")
NO_COMMITTED_OFFSET = errors.ClusterStateError.define("""NO_COMMITTED_OFFSET
    The group has no offset for a partition, and `auto.offset.reset` is error, or `reset-offsets --shift-by` needs one.
    Commit an offset, name the partition in `startingOffsets`, or set `auto.offset.reset` to earliest or latest.""")
NO_OFFSET_FOR_TIMESTAMP = errors.ClusterStateError.define("""NO_OFFSET_FOR_TIMESTAMP
    A partition has no record at or after the starting timestamp. Choose an earlier timestamp, or set
    `startingOffsetsByTimestampStrategy` to latest.""")
TRANSACTION_OPEN = errors.ClusterStateError.define("""TRANSACTION_OPEN
    With `kafka.isolation.level=read_committed`, a batch ends inside a transaction that stayed open too long. Read again
    when the transaction has ended, or raise `kafkaConsumer.pollTimeoutMs`.""")
OFFSETS_OUT_OF_ORDER = errors.ClusterStateError.define("""OFFSETS_OUT_OF_ORDER
    The transport returned records whose offsets are not ascending. Report the error with the transport's log; for
    librdkafka, set `kafka.debug=fetch`, and the logger `pyspark_zkafka.librdkafka` to DEBUG.""")
REFUSED_BY_BROKER = errors.ClusterStateError.define("""REFUSED_BY_BROKER
    A broker rejected the credentials, the certificate or the operation. Check `kafka.security.protocol`,
    `kafka.sasl.*`, `kafka.ssl.*` and the ACLs; see [Security](security.md).""")
KAFKA_ERROR = errors.ClusterStateError.define("""KAFKA_ERROR
    The brokers or librdkafka reported an error that has no condition of its own. Do what the message says, or look up the
    error's name in the protocol guide of Kafka's documentation; librdkafka's own names begin with an underscore.""")

UNKNOWN_TOPIC = errors.UnknownTopic.define("""UNKNOWN_TOPIC
    A topic or partition does not exist, or was deleted. Correct the name (for a read, the message suggests the nearest
    one), create the topic, or set `missingTopics=wait` for a stream.""")
NO_TOPIC_MATCHES = errors.UnknownTopic.define("""NO_TOPIC_MATCHES
    `subscribePattern` matches no topic, or `subscribeExceptPattern` excludes every topic. Correct the pattern, which
    must match a topic's whole name, or set `missingTopics=wait`.""")
TOPIC_WITHOUT_PARTITIONS = errors.UnknownTopic.define("""TOPIC_WITHOUT_PARTITIONS
    A topic to write to has no partitions. Create the topic, or correct its name.""")

NO_LEADER = errors.NoLeader.define("""NO_LEADER
    A partition is offline, or its leader is changing. Start a broker of the partition's ISR, or read the other
    partitions with `offlinePartitions=skip`.""")

TOKEN_UNAVAILABLE = errors.BrokersUnavailable.define("""TOKEN_UNAVAILABLE
    The function of `kafka.sasl.oauthbearer.token.provider` cannot be imported, fails, or returns no valid token within
    30 seconds. Correct the function or its `kafka.sasl.oauthbearer.config`; see
    [Security](security.md#tokens-from-a-function).""")
BROKERS_UNAVAILABLE = errors.BrokersUnavailable.define("""BROKERS_UNAVAILABLE
    No broker, or no leader of the requested partitions, answered in time. Check that the brokers run, and that driver
    and executors can reach the addresses in the brokers' `advertised.listeners`.""")

SCHEMA_REGISTRY_UNAVAILABLE = errors.SchemaRegistryError.define("""SCHEMA_REGISTRY_UNAVAILABLE
    No address in `schema.registry.url` answered within 30 seconds, or all reported that they cannot serve requests now.
    Check the addresses, the network, TLS and the registry.""")
SCHEMA_REGISTRY_REFUSED = errors.SchemaRegistryRefused.define("""SCHEMA_REGISTRY_REFUSED
    The schema registry refused the login or the operation. Check `schema.registry.basic.auth.user.info`,
    `schema.registry.bearer.auth.*` or the client's certificate, and the rights of the user.""")
SCHEMA_REGISTRY_ERROR = errors.SchemaRegistryRefused.define("""SCHEMA_REGISTRY_ERROR
    The address answers, but not as a schema registry with Confluent's API. Correct the path in `schema.registry.url`, or,
    if it is right, try another version of confluent-kafka.""")
UNKNOWN_SUBJECT = errors.SchemaRegistryRefused.define("""UNKNOWN_SUBJECT
    The schema registry has no such subject or version, or no such schema under the subject. Register the schema,
    correct `value.subject`, or set `value.schema`.""")
SCHEMA_NOT_REGISTERED = errors.SchemaRegistryRefused.define("""SCHEMA_NOT_REGISTERED
    The schema registry does not accept a schema: it is invalid, or incompatible with the subject's. Correct the schema
    or the frame, or change the subject's compatibility.""")

NOT_A_MEMBER = errors.GroupError.define("""NOT_A_MEMBER
    A `ConsumerGroup` was used outside its `with` block, or a member has left its group. Use the `ConsumerGroup` inside
    the block.""")
ALREADY_A_MEMBER = errors.GroupError.define("""ALREADY_A_MEMBER
    A `ConsumerGroup` was entered a second time, inside its own `with` block. Create a `ConsumerGroup` for each member.""")
NO_GROUP_OFFSETS = errors.GroupError.define("""NO_GROUP_OFFSETS
    A batch starts at a group's offsets (`startingOffsets=committed`), and the group has none in the topics read.
    Correct `group.id`, or set `startingOffsets=earliest`, or `auto.offset.reset` for partitions without an offset.""")
ASSIGN_IN_GROUP = errors.GroupError.define("""ASSIGN_IN_GROUP
    A member of a group cannot read fixed partitions (`assign`). Subscribe to topics instead.""")
NOT_STICKY = errors.GroupError.define("""NOT_STICKY
    `partition.assignment.strategy` is sticky, but other members of the group use another strategy. Set one strategy for
    all members: range or roundrobin if there are JVM consumers.""")
BAD_FILTER = errors.GroupError.define("""BAD_FILTER
    A member registered a topic filter that is malformed or could take unbounded time to match. Correct that member's
    filter.""")
GROUP_ACTIVE = errors.GroupError.define("""GROUP_ACTIVE
    The group has active consumers, in ZooKeeper or in Kafka, and its offsets must not be changed meanwhile. Stop the
    group's consumers, wait until the sessions of dead consumers expire, and try again.""")
UNKNOWN_GROUP = errors.GroupError.define("""UNKNOWN_GROUP
    No group has that name, or the group has no offsets. Correct the name, or the chroot in `zookeeper.connect`.""")
UNREADABLE_GROUP = errors.GroupError.define("""UNREADABLE_GROUP
    The description of a group in Kafka cannot be read, usually since its members are not consumers: their assignments have
    another form. Leave the group to the program that uses it, or stop that program.""")
OFFSETS_REFUSED = errors.GroupError.define("""OFFSETS_REFUSED
    The brokers refused some offsets of a group, while others were written; the message says which. Remove the cause,
    and write the refused offsets again.""")
MEMBERS_IN_ZOOKEEPER = errors.GroupError.define("""MEMBERS_IN_ZOOKEEPER
    A member cannot join a group in Kafka while ZooKeeper coordinates members of the group. Stop these members first; a
    dead member disappears when its session expires.""")
INCONSISTENT_GROUP_PROTOCOL = errors.GroupError.define("""INCONSISTENT_GROUP_PROTOCOL
    The other members of a group in Kafka use another assignment strategy, or the brokers do not allow two protocols in one
    group. Set `partition.assignment.strategy` and `group.protocol` as the other members do.""")
GROUP_PROTOCOL_UNSUPPORTED = errors.GroupError.define("""GROUP_PROTOCOL_UNSUPPORTED
    `group.protocol` is consumer, which the brokers do not know or have switched off. Set `group.protocol=classic`, or
    raise the feature `group.version` on brokers 4.0 or later.""")
GROUP_FULL = errors.GroupError.define("""GROUP_FULL
    A group in Kafka has as many members as the brokers allow. Stop another member, or raise `group.max.size` of the
    brokers (`group.consumer.max.size` with `group.protocol=consumer`).""")
INSTANCE_ID_TAKEN = errors.GroupError.define("""INSTANCE_ID_TAKEN
    Another member of a group in Kafka has the same `group.instance.id`. Give each member its own id, or wait until a
    dead member's session expires.""")
COMMIT_BY_MEMBER = errors.GroupError.define("""COMMIT_BY_MEMBER
    A write cannot commit the batch of a group in Kafka: only the member itself can commit the group's offsets. Write
    without `commit_options`, and call `batch.commit()` afterwards.""")

PARTITION_OWNED = errors.PartitionOwned.define("""PARTITION_OWNED
    A live consumer of the group owns a partition whose offset was to be committed. Stop that consumer, join the group
    with `ConsumerGroup`, or use another `group.id`.""")

PARTITION_LOST = errors.PartitionLost.define("""PARTITION_LOST
    The member no longer owned a partition when it committed the partition's offset. Plan again, or raise
    `rebalance.hold.ms`.""")

ENDS_NOT_REACHED = errors.GroupContended.define("""ENDS_NOT_REACHED
    A query with `trigger(availableNow=True)` ended early because no member of its group owns some partitions, or their
    owner did not commit and may be dead. Check that all members subscribe to the same topics with one strategy, start
    the query again, and raise `kafkaConsumer.pollTimeoutMs` if other members take longer to process their records.""")
COMMIT_CONTENDED = errors.GroupContended.define("""COMMIT_CONTENDED
    Other clients kept changing the group's offsets or owners during a commit. Try again, and find the other client if
    the error recurs; a stream retries automatically.""")
OFFSETS_CHANGED = errors.GroupContended.define("""OFFSETS_CHANGED
    Other clients changed the group's offsets between a command's read and its write. Find the client that commits for
    the group, and run the command again.""")
CLAIMS_CONTENDED = errors.GroupContended.define("""CLAIMS_CONTENDED
    Other clients kept changing the group's claims while they were read. Try again, and find the client that recreates
    the owners if the error recurs; a stream retries automatically.""")
REGISTRATION_CONTENDED = errors.GroupContended.define("""REGISTRATION_CONTENDED
    Other clients kept creating and deleting the group's znodes while a member registered. Try again, and find the
    client that recreates the znodes if the error recurs.""")
GROUP_CONTENDED = errors.GroupContended.define("""GROUP_CONTENDED
    Other clients kept creating and deleting the parents of the group's znodes. Try again.""")
GROUP_REBALANCES = errors.GroupContended.define("""GROUP_REBALANCES
    A group that Kafka coordinates rebalanced, or its coordinator moved, during every attempt to commit its start. Try
    again.""")

CONSUMER_ID_TAKEN = errors.ConsumerIdTaken.define("""CONSUMER_ID_TAKEN
    Another session is registered under the member's `consumer.id`. Stop the other consumer, wait for a dead consumer's
    session to expire, or set another `consumer.id`.""")

UNKNOWN_CHECKPOINT = errors.CheckpointError.define("""UNKNOWN_CHECKPOINT
    This version of the package cannot read an offset in the checkpoint. Use the version that wrote it, or a new
    `checkpointLocation`.""")

NOT_A_CHECKPOINT = errors.CheckpointError.define("""NOT_A_CHECKPOINT
    `zkafka checkpoint show` found no checkpoint of a streaming query in a folder, or files that it cannot read. Name the
    `checkpointLocation` of the query, as a whole local copy.""")

DATA_LOSS = errors.DataLoss.define("""DATA_LOSS
    Records of the planned range were deleted, expired or truncated. Set `failOnDataLoss` to false to continue without
    them; see [Reading](reading.md#what-a-task-proves).""")
OFFSET_OUT_OF_RANGE = errors.DataLoss.define("""OFFSET_OUT_OF_RANGE
    A starting or ending offset is outside the log. Correct the offsets, or in a read, set `failOnDataLoss` to false to
    read the available records.""")
OFFSET_WENT_BACK = errors.DataLoss.define("""OFFSET_WENT_BACK
    A log ends before a stream's position, or was truncated before it. Find the cause (an unclean election or a manual
    deletion), then set `failOnDataLoss` to false.""")
PARTITIONS_GONE = errors.DataLoss.define("""PARTITIONS_GONE
    Partitions that a stream was reading no longer exist. Set `failOnDataLoss` to false to continue without them.""")
TOPIC_REPLACED = errors.DataLoss.define("""TOPIC_REPLACED
    A topic was deleted, and perhaps recreated, after a read was planned, between two micro-batches, or since the group
    committed. Plan the batch again and reset the group's offsets, or set `failOnDataLoss` to false to continue with the
    new topic.""")

MALFORMED_UTF8 = errors.UnreadableRecord.define("""MALFORMED_UTF8
    A key or value read as a string, or a header's name, is not UTF-8. Read the column as binary (the default), or leave
    out the column `headers`.""")
MALFORMED_RECORD = errors.UnreadableRecord.define("""MALFORMED_RECORD
    A key or value does not have the format of its column; the message has the reason. Correct `value.format` or
    `value.schema`, or set `mode` to PERMISSIVE or DROPMALFORMED; see [Formats](formats.md).""")
MALFORMED_TIMESTAMP = errors.UnreadableRecord.define("""MALFORMED_TIMESTAMP
    A record's timestamp is outside the range of Spark's timestamps. Leave the column `timestamp` out of the schema.""")

NULL_TOPIC = errors.InvalidRow.define("""NULL_TOPIC
    The column `topic` is null in a row. Fill the column, or set the option `topic`.""")
INVALID_TOPIC = errors.InvalidRow.define("""INVALID_TOPIC
    A row names a topic that Kafka does not allow. Correct the name in that row.""")
PARTITION_OUT_OF_RANGE = errors.InvalidRow.define("""PARTITION_OUT_OF_RANGE
    The column `partition` has a number that the topic does not have. Correct the number, or leave it null to let the
    partitioner choose.""")
INVALID_TIMESTAMP = errors.InvalidRow.define("""INVALID_TIMESTAMP
    The column `timestamp` has a time before 1970-01-01T00:00:00.001Z. Leave it null to let the producer set the time.""")
INVALID_HEADERS = errors.InvalidRow.define("""INVALID_HEADERS
    A header's key is null, not UTF-8, or contains a zero byte. Set the key to UTF-8 text without zero bytes.""")
INVALID_VALUE = errors.InvalidRow.define("""INVALID_VALUE
    The schema does not allow a key or value of a row, or a header has the name of a schema's id. Correct what the
    message names.""")

DELIVERY_FAILED = errors.DeliveryFailed.define("""DELIVERY_FAILED
    The brokers did not acknowledge all rows of a task; the message quotes the first cause. Correct the cause and write
    again; at least once, this duplicates the acknowledged rows.""")
DELIVERY_MISCOUNTED = errors.DeliveryFailed.define("""DELIVERY_MISCOUNTED
    The number of acknowledged rows differs from the number sent, although no error was reported. Write again, and
    report the error with the transport's log; for librdkafka, set `kafka.debug=msg`, and the logger
    `pyspark_zkafka.librdkafka` to DEBUG.""")

FENCED = errors.TransactionFailed.define("""FENCED
    Another attempt of the same slot began a transaction, or the brokers aborted this one after its timeout. Do nothing
    if Spark replaced the attempt; otherwise raise `kafka.transaction.timeout.ms`, or give each query its own
    checkpoint.""")
TRANSACTION_FAILED = errors.TransactionFailed.define("""TRANSACTION_FAILED
    The brokers refused a step of a transaction, or did not answer in time; the message quotes the cause. Correct the
    cause and restart the query, which writes the micro-batch again without duplicates.""")

ROWS_DIFFER = errors.LedgerError.define("""ROWS_DIFFER
    A repeated micro-batch or job has other rows for a slot that was already written. Restart the query, or run the job
    again, unchanged, and make its plan deterministic; see [Exactly once](exactly-once.md).""")
LAYOUT_CHANGED = errors.LedgerError.define("""LAYOUT_CHANGED
    A repeated micro-batch or job has no task for slots that were already written, or two runs of a job write at the same
    time. Restart the query, or run the job again, with the same number of shuffle partitions and as many cores as slots,
    and run a job once at a time; see [Exactly once](exactly-once.md).""")
CHECKPOINT_ROLLED_BACK = errors.LedgerError.define("""CHECKPOINT_ROLLED_BACK
    The ledger has rows of a later micro-batch, or of a job with a higher `batchId`. Start the query with its latest
    checkpoint, or with a new one (and another `writerName`, if it has one) to write everything again; run numbered jobs in
    order, or under another `writerName`.""")
CHECKPOINT_SHARED = errors.LedgerError.define("""CHECKPOINT_SHARED
    While a query was running, another one wrote micro-batches under the same id or `writerName`: it uses the same
    checkpoint, or a copy. Stop one of them, give the other its own checkpoint and names, and look for duplicates; see
    [Limits](exactly-once-limits.md).""")
UNFINISHED_JOB = errors.LedgerError.define("""UNFINISHED_JOB
    An exactly-once batch job ended before it committed its offsets, and another job follows it. Run the job once with
    the `endingOffsets` and `commitOffsets` in the message; see [Exactly once](exactly-once.md).""")
LEDGER_FORGOTTEN = errors.LedgerError.define("""LEDGER_FORGOTTEN
    Brokers without KIP-890 have repeatedly forgotten the ledger entry of committed rows, because of late requests of
    earlier executors. Stop these executors, restart the brokers one by one, and start the query again.""")
LEDGER_MOVED = errors.LedgerError.define("""LEDGER_MOVED
    `transactionalIdPrefix`, `writerName`, `batchId`, `topic` or `ledgerTopic` changed while a micro-batch or job was
    interrupted, and its rows are recorded under the old names, or another job has the same name and number. Restore the
    options, and change them when the micro-batch or job is complete, or give the other job its own name or number; see
    [Exactly once](exactly-once.md#change-names-and-topics).""")
WRITTEN_TWICE = errors.LedgerError.define("""WRITTEN_TWICE
    Two writes in one `foreachBatch` have the same name, or the function retries a failed write. Let the query fail and
    restart instead of retrying, and give a second write its own `writerName` without renaming the first.""")
UNREADABLE_LEDGER = errors.LedgerError.define("""UNREADABLE_LEDGER
    A ledger entry was written by a later version of the package, or by another program. Use that version, or delete a
    foreign ledger with `zkafka ledger delete QUERY --force`.""")
UNKNOWN_LEDGER = errors.LedgerError.define("""UNKNOWN_LEDGER
    The brokers have no ledger of this name; they delete a ledger `offsets.retention.minutes` after its last write. List
    the ledgers with `zkafka ledger list`, and correct the name.""")
LEDGER_IN_USE = errors.LedgerError.define("""LEDGER_IN_USE
    The query of a ledger may be running: the ledger has entries of the last minute or of unknown age, or changed since
    it was shown. Stop the query and delete its ledger a minute later, or delete the ledger at once with `--force`, which
    is always needed for entries of unknown age.""")

MALFORMED_ZNODE = errors.CodecError.define("""MALFORMED_ZNODE
    A znode has data that Kafka does not write there; the message quotes its path and data. Correct or delete the znode,
    or find the client that wrote it.""")


def report_data_loss(
    condition: errors.Condition[errors.DataLoss],
    text: str,
    *,
    fail: bool,
    remedy: str = "set failOnDataLoss to false to continue",
    otherwise: str = "Continuing",
) -> None:
    """Raise DataLoss with the remedy if `fail` (`failOnDataLoss`) is true, else log a warning with the alternative.

    `text` says what happened and what was found.
    """
    if fail:
        raise condition(f"{text}; {remedy}")
    _log.warning("%s. %s, because failOnDataLoss is false", text, otherwise)
