"""Every condition in which the package raises an error: its class, its name, its cause and its remedy.

``raise NO_LEADER("...")`` raises the condition's class; the message says what was found. A text's first sentence is the
cause, its second one the remedy; docs/errors.md is made from both. `testing.conditions` has the local cluster's conditions.
"""

from __future__ import annotations

import logging

from pyspark_zkafka.errors import (
    BrokersUnavailable,
    CheckpointError,
    ChrootMissing,
    ClusterStateError,
    CodecError,
    Condition,
    ConsumerIdTaken,
    DataLoss,
    DeliveryFailed,
    GroupContended,
    GroupError,
    InvalidRow,
    LedgerError,
    NoLeader,
    OptionError,
    PartitionLost,
    PartitionOwned,
    TransactionFailed,
    UnknownTopic,
    UnreadableRecord,
    ZKafkaError,
    ZooKeeperError,
    ZooKeeperMisused,
    ZooKeeperRefused,
)

_log = logging.getLogger(__name__)

DEMO_FAILED = ZKafkaError.define("""DEMO_FAILED
    A check of `zkafka demo` failed. Report it with the output of the demo.""")
MATPLOTLIB_MISSING = ZKafkaError.define("""MATPLOTLIB_MISSING
    `pyspark_zkafka.plot` draws with matplotlib, which is not installed. Run `pip install 'pyspark-zkafka[plot]'`.""")

INVALID_OPTIONS = OptionError.define("""INVALID_OPTIONS
    Options are unknown, malformed or contradictory; the message lists every problem. Correct the listed options as
    described in [Options](options.md).""")
INVALID_OPTION = OptionError.define("""INVALID_OPTION
    The value of an option is malformed, or another option that it requires is missing. Use the form shown in the
    message, or set the missing option.""")
UNNAMED_WRITE = OptionError.define("""UNNAMED_WRITE
    A batch write asks for exactly-once, and nothing says which micro-batch or which run of a job it is: under Spark
    Connect, in a thread that `foreachBatch` starts, or in a batch job. Set `writerName` and `batchId` when no
    micro-batch is interrupted; see [Exactly once](exactly-once.md#batch-jobs).""")
INVALID_SCHEMA = OptionError.define("""INVALID_SCHEMA
    A column is unknown, missing or of the wrong type. Select, rename or cast the columns listed in the message.""")
INVALID_OFFSETS_FILE = OptionError.define("""INVALID_OFFSETS_FILE
    A file of offsets has lines that are malformed or contradict each other; the message lists them. Correct the file;
    nothing was changed.""")
INVALID_GROUP = OptionError.define("""INVALID_GROUP
    The name of a group is empty, `.` or `..`, or contains a slash or a control character, as no znode's name can.
    Choose a `group.id` of letters, digits, `.`, `_` and `-`.""")
INVALID_NAME = OptionError.define("""INVALID_NAME
    The name of a topic or of a consumer is empty, `.` or `..`, or contains a slash or a control character, as no
    znode's name can. Correct the name.""")
INVALID_OFFSET = OptionError.define("""INVALID_OFFSET
    An offset to commit is negative or exceeds 64 bits. Commit the offset of the next record to read, not -1 (latest) or
    -2 (earliest).""")
OFFSETS_DO_NOT_MATCH = OptionError.define("""OFFSETS_DO_NOT_MATCH
    Offsets in JSON name partitions that are not read, or omit some that are. Name exactly the partitions that are read,
    or their topics, or set `auto.offset.reset` for the other starts.""")
START_AFTER_END = OptionError.define("""START_AFTER_END
    A partition's start is after its end. Choose a start that is not after the end.""")
INVALID_REASSIGNMENT = OptionError.define("""INVALID_REASSIGNMENT
    Partitions cannot be reassigned as requested; the message lists all reasons. Correct the replicas, or wait until the
    deletion or reassignment that is under way is done.""")
INVALID_TOPIC_CONFIG = OptionError.define("""INVALID_TOPIC_CONFIG
    The name or the value of a topic's setting is wrong. Correct it; the message quotes the broker's reason or the
    expected form.""")
UNKNOWN_ASSIGNOR = OptionError.define("""UNKNOWN_ASSIGNOR
    No assignor has the given name. Choose one of the names in the message.""")
UNKNOWN_PARTITIONER = OptionError.define("""UNKNOWN_PARTITIONER
    No partitioner has the given name. Choose one of the names in the message.""")
BAD_KEY_TYPE = OptionError.define("""BAD_KEY_TYPE
    The column `key` has a type that cannot be hashed. Cast the column to binary or string.""")
SAVE_MODE = OptionError.define("""SAVE_MODE
    A frame is written in a mode other than append. Write with `.mode("append")`.""")
OUTPUT_MODE = OptionError.define("""OUTPUT_MODE
    A stream is written in the output mode complete. Use append, or write the changes with `foreachBatch`; see
    [Writing](writing.md#a-stream).""")
NO_NATIVE_PATH = OptionError.define("""NO_NATIVE_PATH
    `transport` requires compiled code, which was not built or cannot use confluent-kafka. Install a C compiler and
    reinstall the package on the driver and every executor, or set the option to auto.""")
UNUSABLE_KAFKA_PROPERTY = OptionError.define("""UNUSABLE_KAFKA_PROPERTY
    librdkafka rejected a property in `kafka.*`, or cannot load a file or key that it names. Correct the property; the
    driver and every executor need the same librdkafka and the same files.""")
UNUSABLE_TLS_FILE = OptionError.define("""UNUSABLE_TLS_FILE
    A file named by `zookeeper.ssl.*` is missing, unreadable or not the expected PEM file. Place a PEM file at that
    path, on the driver and every executor.""")
TRANSACTION_TIMEOUT = OptionError.define("""TRANSACTION_TIMEOUT
    `kafka.transaction.timeout.ms` is greater than `transaction.max.timeout.ms` of the brokers. Lower it, or raise the
    brokers' setting.""")
SASL_MISSING = OptionError.define("""SASL_MISSING
    `zookeeper.auth` requests SASL, but the package pure-sasl is not installed. Run `pip install
    'pyspark-zkafka[sasl]'`.""")

ZOOKEEPER_UNREACHABLE = ZooKeeperError.define("""ZOOKEEPER_UNREACHABLE
    No server in `zookeeper.connect` granted a session within the connection timeout. Check hosts, ports, network, TLS
    and that the servers run, or raise `zookeeper.connection.timeout.ms`.""")
ZOOKEEPER_TIMEOUT = ZooKeeperError.define("""ZOOKEEPER_TIMEOUT
    ZooKeeper did not answer a request within the connection timeout. Check that the ensemble has a quorum, or raise
    `zookeeper.connection.timeout.ms`.""")
ZOOKEEPER_CONNECTION_LOST = ZooKeeperError.define("""ZOOKEEPER_CONNECTION_LOST
    The connection or session was lost during a request. Try again; if it recurs, see the servers' logs.""")
ZOOKEEPER_ERROR = ZooKeeperError.define("""ZOOKEEPER_ERROR
    ZooKeeper answered with an error that has no condition of its own. See the servers' logs.""")
NO_SESSION = ZooKeeperError.define("""NO_SESSION
    A member lost its ZooKeeper session, and its partitions with it. Plan again when ZooKeeper can be reached; a stream
    does so by itself.""")

NO_CHROOT = ChrootMissing.define("""NO_CHROOT
    The path after the hosts in `zookeeper.connect` does not exist. Correct the path; the message lists those with a
    Kafka cluster.""")

ZOOKEEPER_REFUSED = ZooKeeperRefused.define("""ZOOKEEPER_REFUSED
    ZooKeeper rejected the credentials, an ACL or a quota forbids the request, or the server is read-only. Correct
    `zookeeper.auth`, have the ACL or quota changed, or wait until a read-only server has a quorum.""")
REQUEST_TOO_LARGE = ZooKeeperRefused.define("""REQUEST_TOO_LARGE
    A request, such as the registration of many topics, exceeds the servers' `jute.maxbuffer` (1 MiB by default).
    Subscribe to fewer topics or by a pattern, or raise that limit on all servers.""")

ZOOKEEPER_NOT_OPEN = ZooKeeperMisused.define("""ZOOKEEPER_NOT_OPEN
    A ZooKeeper client was used outside its `with` block. Use it inside the block.""")
ZOOKEEPER_ALREADY_OPEN = ZooKeeperMisused.define("""ZOOKEEPER_ALREADY_OPEN
    A ZooKeeper client was opened twice. Create another client.""")
ZOOKEEPER_MISUSED = ZooKeeperMisused.define("""ZOOKEEPER_MISUSED
    The servers do not know a request, as those before ZooKeeper 3.4. Check the servers' version, and report it if they
    are newer.""")

MIGRATED_TO_KRAFT = ClusterStateError.define("""MIGRATED_TO_KRAFT
    The cluster was migrated to KRaft: no broker is registered in ZooKeeper any more, whose state is out of date. Set
    `kafka.bootstrap.servers`; a stream with `group.id` continues with `groupMembership=kafka`, see
    migrate-to-kafka-4.md.""")
NO_BROKERS = ClusterStateError.define("""NO_BROKERS
    No broker is registered under `/brokers/ids`. Start a broker, or correct the chroot in `zookeeper.connect`.""")
NO_KAFKA_CLUSTER = ClusterStateError.define("""NO_KAFKA_CLUSTER
    The chroot in `zookeeper.connect` has no `/brokers/ids`. Correct the chroot, or set `kafka.bootstrap.servers` for a
    cluster without ZooKeeper (KRaft).""")
NO_ZOOKEEPER_CONTROLLER = ClusterStateError.define("""NO_ZOOKEEPER_CONTROLLER
    No controller acts on znodes of administration: there is none, or the cluster is migrated to KRaft. Start a broker,
    or use Kafka's own tools with `--bootstrap-server`.""")
ADMIN_UNDER_WAY = ClusterStateError.define("""ADMIN_UNDER_WAY
    Another reassignment, election or deletion of the kind is under way. Wait until it is done; see `zkafka admin show`.""")
ADMIN_CONFLICT = ClusterStateError.define("""ADMIN_CONFLICT
    Another client changed the znode of a request for administration meanwhile; nothing was changed. Try again.""")
ADMIN_UNFINISHED = ClusterStateError.define("""ADMIN_UNFINISHED
    A reassignment, election or deletion was not done in the time that the command waits; it goes on. See `zkafka admin
    show`, and check that all brokers of the partitions run.""")
DELETION_DISABLED = ClusterStateError.define("""DELETION_DISABLED
    A topic is to be deleted, and `delete.topic.enable` is false at the controller. Set it to true on all brokers, and
    restart them.""")
NO_COORDINATORS = ClusterStateError.define("""NO_COORDINATORS
    A stream is to join a group that Kafka coordinates, and brokers are older than 0.9. Set `groupMembership=zookeeper`.""")
NO_LISTENER = ClusterStateError.define("""NO_LISTENER
    No broker has the requested listener; the message lists the registered ones. Set `listener.name` or
    `kafka.security.protocol` to one of them.""")
WRONG_SECURITY_PROTOCOL = ClusterStateError.define("""WRONG_SECURITY_PROTOCOL
    The listener in `listener.name` has a security protocol other than `kafka.security.protocol`. Set the listener's
    protocol, or `kafka.bootstrap.servers` where a proxy converts it.""")
NO_COMMITTED_OFFSET = ClusterStateError.define("""NO_COMMITTED_OFFSET
    The group has no offset for a partition, and `auto.offset.reset` is error. Commit one, name the partition in
    `startingOffsets`, or set `auto.offset.reset` to earliest or latest.""")
NO_OFFSET_FOR_TIMESTAMP = ClusterStateError.define("""NO_OFFSET_FOR_TIMESTAMP
    A partition has no record at or after the starting timestamp. Choose an earlier timestamp, or set
    `startingOffsetsByTimestampStrategy` to latest.""")
TRANSACTION_OPEN = ClusterStateError.define("""TRANSACTION_OPEN
    With `kafka.isolation.level=read_committed`, a batch ends inside a transaction that stayed open for too long. Read
    again when the transaction has ended, or raise `kafkaConsumer.pollTimeoutMs`.""")
OFFSETS_OUT_OF_ORDER = ClusterStateError.define("""OFFSETS_OUT_OF_ORDER
    librdkafka returned records whose offsets are not ascending. Report it with librdkafka's log (`kafka.debug=fetch`).""")
REFUSED_BY_BROKER = ClusterStateError.define("""REFUSED_BY_BROKER
    A broker rejected the credentials, the certificate or the operation. Check `kafka.security.protocol`,
    `kafka.sasl.*`, `kafka.ssl.*` and the ACLs; see [Security](security.md).""")
KAFKA_ERROR = ClusterStateError.define("""KAFKA_ERROR
    librdkafka reported an error that has no condition of its own. Look up the name in the message in librdkafka's
    documentation.""")

UNKNOWN_TOPIC = UnknownTopic.define("""UNKNOWN_TOPIC
    A topic or partition does not exist, or was deleted. Correct the name (the message suggests the nearest one), create
    the topic, or let a stream wait for it with `missingTopics=wait`.""")
NO_TOPIC_MATCHES = UnknownTopic.define("""NO_TOPIC_MATCHES
    `subscribePattern` matches no topic, or `subscribeExceptPattern` excludes every topic. Correct the pattern, which
    must match the whole name of a topic, or set `missingTopics=wait`.""")
TOPIC_WITHOUT_PARTITIONS = UnknownTopic.define("""TOPIC_WITHOUT_PARTITIONS
    A topic to write to has no partitions. Create the topic, or correct its name.""")

NO_LEADER = NoLeader.define("""NO_LEADER
    A partition is offline, or its leader is changing. Start a broker of its ISR, or read the other partitions with
    `offlinePartitions=skip`.""")

BROKERS_UNAVAILABLE = BrokersUnavailable.define("""BROKERS_UNAVAILABLE
    No broker, or no leader of the requested partitions, answered in time. Check that the brokers run, and that driver
    and executors can reach the addresses that they register.""")

NOT_A_MEMBER = GroupError.define("""NOT_A_MEMBER
    A `ConsumerGroup` was used outside its `with` block, or a member has left its group. Use it inside the block.""")
NO_GROUP_OFFSETS = GroupError.define("""NO_GROUP_OFFSETS
    A batch starts at a group's offsets (`startingOffsets=committed`), and the group has none in the topics read.
    Correct `group.id`, or say where to start: `startingOffsets=earliest`, or `auto.offset.reset` for partitions without
    an offset.""")
ASSIGN_IN_GROUP = GroupError.define("""ASSIGN_IN_GROUP
    A member of a group is to read fixed partitions (`assign`). Subscribe to topics instead.""")
NOT_STICKY = GroupError.define("""NOT_STICKY
    `partition.assignment.strategy` is sticky, but other members of the group have another strategy. Set one strategy
    for all members: range or roundrobin beside JVM consumers.""")
BAD_FILTER = GroupError.define("""BAD_FILTER
    A member has registered a topic filter that is malformed, or unbounded in its matching time. Correct the filter of
    that member.""")
GROUP_ACTIVE = GroupError.define("""GROUP_ACTIVE
    Consumers of the group are active, in ZooKeeper or in Kafka, so that others must not change its offsets. Stop the
    group's consumers, wait until the session of one that died expires, and try again.""")
UNKNOWN_GROUP = GroupError.define("""UNKNOWN_GROUP
    There is no group of that name, or it has no offsets. Correct the name, or the chroot in `zookeeper.connect`.""")
OFFSETS_REFUSED = GroupError.define("""OFFSETS_REFUSED
    The brokers refused offsets of a group, of which others are written, as the message says. Remove the cause, and
    write these offsets again.""")
MEMBERS_IN_ZOOKEEPER = GroupError.define("""MEMBERS_IN_ZOOKEEPER
    A member is to join a group in Kafka, and the group has members that ZooKeeper coordinates. Stop these members
    first; one that died is gone when its session expires.""")
INCONSISTENT_GROUP_PROTOCOL = GroupError.define("""INCONSISTENT_GROUP_PROTOCOL
    The other members of a group in Kafka have another assignment strategy, or another protocol. Set
    `partition.assignment.strategy` and `group.protocol` to theirs.""")
GROUP_PROTOCOL_UNSUPPORTED = GroupError.define("""GROUP_PROTOCOL_UNSUPPORTED
    `group.protocol` is consumer, which the brokers do not know, or which is switched off. Set `group.protocol=classic`,
    or raise the feature `group.version` of brokers from 4.0 on.""")
INSTANCE_ID_TAKEN = GroupError.define("""INSTANCE_ID_TAKEN
    Another member of a group in Kafka has the same `group.instance.id`. Give each member its own, or wait until the
    session of one that died has expired.""")
COMMIT_BY_MEMBER = GroupError.define("""COMMIT_BY_MEMBER
    A write was to commit the batch of a group in Kafka, whose offsets only the member itself can commit. Write without
    `commit_options`, and call `batch.commit()` afterwards.""")
NO_MEMBERS = GroupError.define("""NO_MEMBERS
    The group has no members whose assignment could be planned. Start its consumers first.""")

PARTITION_OWNED = PartitionOwned.define("""PARTITION_OWNED
    A live consumer of the group owns a partition whose offset was to be committed. Stop that consumer, join the group
    with `ConsumerGroup`, or use another `group.id`.""")

PARTITION_LOST = PartitionLost.define("""PARTITION_LOST
    The member no longer owned a partition when it committed the partition's offset. Plan again, or raise
    `rebalance.hold.ms`.""")

ENDS_NOT_REACHED = GroupContended.define("""ENDS_NOT_REACHED
    A query with `trigger(availableNow=True)` ended before its end: no member of its group owns some partitions. Check
    that all members subscribe to the same topics with one strategy, and start the query again.""")
COMMIT_CONTENDED = GroupContended.define("""COMMIT_CONTENDED
    Other clients kept changing the group's offsets during a commit. Try again, as a stream does by itself; if it
    recurs, find the other client that commits.""")
OFFSETS_CHANGED = GroupContended.define("""OFFSETS_CHANGED
    Other clients changed the group's offsets between the time when a command read and wrote them. Find the client that
    commits for the group, and run the command again.""")
CLAIMS_CONTENDED = GroupContended.define("""CLAIMS_CONTENDED
    Other clients kept changing the group's claims while they were read. Try again, as a stream does by itself; if it
    recurs, find the client that recreates the owners.""")
REGISTRATION_CONTENDED = GroupContended.define("""REGISTRATION_CONTENDED
    Other clients kept creating and deleting the group's znodes while a member registered. Try again; if it recurs, find
    the client that recreates the znodes.""")
GROUP_CONTENDED = GroupContended.define("""GROUP_CONTENDED
    Other clients kept creating and deleting the parents of the group's znodes while these were created. Try again.""")
GROUP_REBALANCES = GroupContended.define("""GROUP_REBALANCES
    A group that Kafka coordinates rebalanced, or its coordinator moved, whenever its start was to be committed. Try
    again.""")

CONSUMER_ID_TAKEN = ConsumerIdTaken.define("""CONSUMER_ID_TAKEN
    Another session is registered under the member's `consumer.id`. Stop the other consumer, wait for its session to
    expire if it died, or set another `consumer.id`.""")

UNKNOWN_CHECKPOINT = CheckpointError.define("""UNKNOWN_CHECKPOINT
    This version of the package cannot read an offset in the checkpoint. Use the version that wrote it, or a new
    `checkpointLocation`.""")

DATA_LOSS = DataLoss.define("""DATA_LOSS
    Records of the planned range were deleted, expired or truncated. Set `failOnDataLoss` to false to go on without
    them; see [Reading](reading.md#what-a-task-proves).""")
OFFSET_OUT_OF_RANGE = DataLoss.define("""OFFSET_OUT_OF_RANGE
    A starting or ending offset is outside the log. Correct the offsets, or set `failOnDataLoss` to false to read what
    there is.""")
OFFSET_WENT_BACK = DataLoss.define("""OFFSET_WENT_BACK
    A log ends, or was truncated, before the position of a stream. Find the cause (an unclean election or a manual
    deletion), then set `failOnDataLoss` to false.""")
PARTITIONS_GONE = DataLoss.define("""PARTITIONS_GONE
    Partitions that a stream was reading no longer exist. Set `failOnDataLoss` to false to go on without them.""")
TOPIC_REPLACED = DataLoss.define("""TOPIC_REPLACED
    A topic was deleted, and perhaps recreated, after a read was planned or between two micro-batches. Plan the batch
    again, or set `failOnDataLoss` to false to go on with the new topic.""")

MALFORMED_UTF8 = UnreadableRecord.define("""MALFORMED_UTF8
    A key or value read as a string, or the name of a header, is not UTF-8. Read the column as binary, which is the
    default, or leave out the column `headers`.""")
MALFORMED_TIMESTAMP = UnreadableRecord.define("""MALFORMED_TIMESTAMP
    A record's timestamp is outside the range of Spark's timestamps. Leave the column `timestamp` out of the schema.""")

NULL_TOPIC = InvalidRow.define("""NULL_TOPIC
    The column `topic` is null in a row. Fill the column, or set the option `topic`.""")
INVALID_TOPIC = InvalidRow.define("""INVALID_TOPIC
    A topic in a row has a name that Kafka does not allow. Correct the name in that row.""")
PARTITION_OUT_OF_RANGE = InvalidRow.define("""PARTITION_OUT_OF_RANGE
    The topic has no partition with the number in the column `partition`. Correct the number, or leave it null for the
    partitioner to choose.""")
INVALID_TIMESTAMP = InvalidRow.define("""INVALID_TIMESTAMP
    The column `timestamp` has a time before 1970-01-01T00:00:00.001Z. Leave it null for the producer to set the time.""")
INVALID_HEADERS = InvalidRow.define("""INVALID_HEADERS
    The key of a header is null, not UTF-8, or contains a zero byte. Set the key to UTF-8 text without zero bytes.""")

DELIVERY_FAILED = DeliveryFailed.define("""DELIVERY_FAILED
    The brokers did not acknowledge all rows of a task; the message quotes the first cause. Correct the cause and write
    again; the acknowledged rows will be duplicated.""")
DELIVERY_MISCOUNTED = DeliveryFailed.define("""DELIVERY_MISCOUNTED
    The number of acknowledged rows differs from the number sent, though no error was reported. Write again, and report
    it with librdkafka's log (`kafka.debug=msg`).""")

FENCED = TransactionFailed.define("""FENCED
    Another attempt of the same slot began a transaction, or the brokers ended this one after its timeout. None for an
    attempt that Spark has replaced; otherwise raise `kafka.transaction.timeout.ms`, or give each query its own
    checkpoint.""")
TRANSACTION_FAILED = TransactionFailed.define("""TRANSACTION_FAILED
    The brokers refused a step of a transaction, or did not answer in time; the message quotes the cause. Correct the
    cause; the micro-batch is written again when the query is restarted, and no row twice.""")

ROWS_DIFFER = LedgerError.define("""ROWS_DIFFER
    A micro-batch is repeated, and a slot that was written before has other rows now. Restart the query as it ran
    before, and let its plan repeat itself; see [Exactly once](exactly-once.md).""")
LAYOUT_CHANGED = LedgerError.define("""LAYOUT_CHANGED
    A micro-batch is repeated, and slots that were written before are not repeated by any task. Restart the query with
    the same number of shuffle partitions, and as many cores as slots; see [Exactly once](exactly-once.md).""")
CHECKPOINT_ROLLED_BACK = LedgerError.define("""CHECKPOINT_ROLLED_BACK
    The ledger has rows of a later micro-batch, or of a job with a higher `batchId`, than the one to be written. Start
    the query with its latest checkpoint, or with a new one to write everything again; run numbered jobs in order, or
    under another `writerName`.""")
UNFINISHED_JOB = LedgerError.define("""UNFINISHED_JOB
    A batch job wrote rows exactly once, and ended before it committed its offsets; another job follows it. Run the job
    once with the `endingOffsets` and `commitOffsets` that the error names; see [Exactly once](exactly-once.md).""")
LEDGER_MOVED = LedgerError.define("""LEDGER_MOVED
    `transactionalIdPrefix`, `writerName`, `topic` or `ledgerTopic` has changed since a micro-batch or job was
    interrupted, so that its rows are recorded elsewhere. Restore the options, and change them when the micro-batch or
    job is complete; see [Exactly once](exactly-once.md#change-names-and-topics).""")
WRITTEN_TWICE = LedgerError.define("""WRITTEN_TWICE
    Two writes in one `foreachBatch` have the same name, or the function tries a failed write again. Let the query fail
    and restart instead of trying again; give a second write a `writerName` of its own, and leave the first one's as it
    is.""")
UNREADABLE_LEDGER = LedgerError.define("""UNREADABLE_LEDGER
    An entry of the ledger was written by a later version of the package, or by another program. Use that version, or
    delete the ledger if it is foreign: `zkafka ledger delete QUERY --force`.""")
UNKNOWN_LEDGER = LedgerError.define("""UNKNOWN_LEDGER
    The brokers have no ledger of a query, or none any more: they forget it `offsets.retention.minutes` after its last
    write. List the ledgers with `zkafka ledger list`, and correct the name.""")
LEDGER_IN_USE = LedgerError.define("""LEDGER_IN_USE
    A ledger to be deleted has entries of the last minute or of unknown age, or has changed since it was shown: its
    query may be running. Stop the query, and delete its ledger a minute later; with `--force`, it is deleted at once.""")

MALFORMED_ZNODE = CodecError.define("""MALFORMED_ZNODE
    A znode has data that Kafka does not write there; the message quotes its path and data. Correct or delete the znode,
    or find the client that wrote it.""")


def report_data_loss(
    condition: Condition[DataLoss],
    text: str,
    *,
    fail: bool,
    remedy: str = "set failOnDataLoss to false to go on",
    otherwise: str = "continuing",
) -> None:
    """Raise DataLoss with the remedy, or log a warning with what is done otherwise.

    `text` says what happened and what was found; `fail` is `failOnDataLoss`.
    """
    if fail:
        raise condition(f"{text}; {remedy}")
    _log.warning("%s; %s, as failOnDataLoss is false", text, otherwise)
