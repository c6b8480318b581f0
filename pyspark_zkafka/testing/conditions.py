"""The conditions in which the local cluster raises an error; see `pyspark_zkafka.conditions` for their form."""

from __future__ import annotations

from pyspark_zkafka.errors import LocalClusterError

BAD_CLUSTER = LocalClusterError.define("""BAD_CLUSTER
    The settings of a cluster are impossible or contradict each other, or its name is not allowed. Correct the settings
    in the message.""")
BAD_KAFKA_VERSION = LocalClusterError.define("""BAD_KAFKA_VERSION
    The version of Kafka is malformed. Write a version such as `3.9.1`.""")
NO_JAVA = LocalClusterError.define("""NO_JAVA
    No Java was found in `JAVA_HOME` or on `PATH`. Install Java 17 or newer, or correct `JAVA_HOME`.""")
JAVA_TOO_OLD = LocalClusterError.define("""JAVA_TOO_OLD
    The Java found is older than 17. Install Java 17, and set `JAVA_HOME` to it.""")
NO_KEYTOOL = LocalClusterError.define("""NO_KEYTOOL
    Java's `keytool`, which makes the certificate of a secure cluster, is missing or failed. Install a complete Java 17, or
    start the cluster without `secure`.""")
NO_IVY = LocalClusterError.define("""NO_IVY
    Spark's Ivy, which fetches Kafka's jars, is missing, or `ZKAFKA_IVY_SETTINGS` names no file. Install the full
    pyspark, or correct the variable.""")
BAD_COORDINATES = LocalClusterError.define("""BAD_COORDINATES
    The coordinates of a jar are not `group:artifact:version`. Use that form.""")
JARS_NOT_FETCHED = LocalClusterError.define("""JARS_NOT_FETCHED
    Ivy could not fetch Kafka's jars. Check the repository, name a mirror in `ZKAFKA_IVY_SETTINGS`, or name a filled
    cache in `ZKAFKA_CACHE`.""")
NO_FREE_PORT = LocalClusterError.define("""NO_FREE_PORT
    No free port was found for a server. Stop other servers on the machine.""")
SERVER_NOT_STARTED = LocalClusterError.define("""SERVER_NOT_STARTED
    The operating system did not start a server. Correct the cause in the message.""")
SERVER_DIED = LocalClusterError.define("""SERVER_DIED
    A server ended unexpectedly; the message quotes its log. Correct the setting or resource that the log names.""")
NOT_READY = LocalClusterError.define("""NOT_READY
    Servers did not become ready in time; the message quotes a log. Raise `startup_timeout_s` on a slow or busy machine.""")
SERVER_DID_NOT_END = LocalClusterError.define("""SERVER_DID_NOT_END
    A server did not end in time after a signal. Use `kill()` if a server cannot shut down by itself.""")
SERVER_NOT_RUNNING = LocalClusterError.define("""SERVER_NOT_RUNNING
    An operation needs a server that is stopped. Start the server with `restart()`.""")
NO_SUCH_SERVER = LocalClusterError.define("""NO_SUCH_SERVER
    The cluster has no server with that id. Choose one of the servers in the message.""")
NO_ZOOKEEPER = LocalClusterError.define("""NO_ZOOKEEPER
    A local cluster in KRaft mode has no ZooKeeper. Use `bootstrap_servers`, or start a cluster of Kafka 3.9.1.""")
STORAGE_NOT_FORMATTED = LocalClusterError.define("""STORAGE_NOT_FORMATTED
    Kafka's tool did not format a node's storage; the message quotes its output. Correct the setting that the output
    names.""")
BROKERS_SILENT = LocalClusterError.define("""BROKERS_SILENT
    No broker of the local cluster answers. Check whether the brokers are stopped or paused.""")
SUPERVISOR_GONE = LocalClusterError.define("""SUPERVISOR_GONE
    The servers' parent process ended, and the servers with it. Start the cluster again, and check whether memory ran
    out.""")
CLUSTER_NOT_RUNNING = LocalClusterError.define("""CLUSTER_NOT_RUNNING
    A `LocalCluster` was used before its start, after its end, or in a child process. Use the cluster inside its `with`
    block.""")
ZOOKEEPER_SILENT = LocalClusterError.define("""ZOOKEEPER_SILENT
    The cluster's ZooKeeper did not answer in time. Check whether ZooKeeper is stopped or paused.""")
CLUSTER_ALREADY_UP = LocalClusterError.define("""CLUSTER_ALREADY_UP
    A local cluster of that name is running or starting. Run `zkafka cluster down` first, or choose another name.""")
CLUSTER_NOT_UP = LocalClusterError.define("""CLUSTER_NOT_UP
    The daemon of a local cluster ended before the cluster was ready. Correct the cause in the message.""")
CLUSTER_NOT_DOWN = LocalClusterError.define("""CLUSTER_NOT_DOWN
    The daemon of a local cluster did not end in time. Kill the process in the message; the servers end with it.""")
ATTACHED_CLUSTER = LocalClusterError.define("""ATTACHED_CLUSTER
    A test stops or starts a server of a cluster that another process owns. Start a `LocalCluster` in the test itself.""")
NO_CLUSTER_UP = LocalClusterError.define("""NO_CLUSTER_UP
    No local cluster of that name is running. Run `zkafka cluster up`.""")
NO_SUCH_TOPIC = LocalClusterError.define("""NO_SUCH_TOPIC
    The local cluster has no topic of that name. Create the topic with `create_topic`.""")
BAD_REPLICATION = LocalClusterError.define("""BAD_REPLICATION
    More replicas are requested than the cluster has running brokers. Request fewer replicas, or restart brokers.""")
NO_MOCK_BROKERS = LocalClusterError.define("""NO_MOCK_BROKERS
    librdkafka, as confluent-kafka has it, lacks functions of mock brokers. Install a newer confluent-kafka from its
    wheel.""")
NOT_IN_THIS_VERSION = LocalClusterError.define("""NOT_IN_THIS_VERSION
    A broker older than Kafka 0.11 cannot delete records. Start a newer Kafka.""")
REFUSED_BY_CLUSTER = LocalClusterError.define("""REFUSED_BY_CLUSTER
    The local cluster refused to create, change or delete a topic. Correct the cause in the message.""")
NOT_SETTLED = LocalClusterError.define("""NOT_SETTLED
    The local cluster did not reach the requested state in time; the message says what is missing. Check that all
    brokers run.""")
BAD_RECORD = LocalClusterError.define("""BAD_RECORD
    A record to produce has unknown fields. Use a dict, or a tuple in the order shown in the message.""")
NOT_DELIVERED = LocalClusterError.define("""NOT_DELIVERED
    The local cluster did not acknowledge all records; the message quotes the first reason. Check that all leaders run.""")
NOT_COMPILED = LocalClusterError.define("""NOT_COMPILED
    A Java program for tests could not be compiled. Correct the program, or set `JAVA_HOME` to another Java.""")
TOOL_FAILED = LocalClusterError.define("""TOOL_FAILED
    A command-line tool of Kafka failed; the message quotes its output. Correct what the output names.""")
TOOL_TIMED_OUT = LocalClusterError.define("""TOOL_TIMED_OUT
    A command-line tool of Kafka did not end in time; the message quotes its output. Check that the cluster answers.""")
BAD_CONSUMER = LocalClusterError.define("""BAD_CONSUMER
    An `OldConsumer` needs exactly one of `topics`, `white_list` and `black_list`. Set one of them.""")
CONSUMER_RUNNING = LocalClusterError.define("""CONSUMER_RUNNING
    An `OldConsumer` was started twice. Call `stop()` or `kill()` first.""")
CONSUMER_NOT_RUNNING = LocalClusterError.define("""CONSUMER_NOT_RUNNING
    An operation needs a running `OldConsumer`. Call `start()`, or check the consumer's `log`.""")
CONSUMER_NOT_READY = LocalClusterError.define("""CONSUMER_NOT_READY
    An `OldConsumer` got no streams in time; the message quotes its log. Check that ZooKeeper and the brokers answer.""")
CONSUMER_DIED = LocalClusterError.define("""CONSUMER_DIED
    An `OldConsumer` ended before it was ready; the message quotes its log. Correct the property that the log names.""")
CONSUMER_DID_NOT_END = LocalClusterError.define("""CONSUMER_DID_NOT_END
    An `OldConsumer` did not end in time after SIGTERM. Use `kill()` if the consumer cannot shut down, for example
    without ZooKeeper.""")
NOT_COMMITTED = LocalClusterError.define("""NOT_COMMITTED
    An `OldConsumer` did not commit; the message quotes its log. Correct the cause that the log names.""")
