/* Drives the C code with the fake librdkafka at random, by a seed: driver <seed> <messages> [leak]. To be built with the
 * sanitizers, which watch it; prints how many messages were written. */
#include "any_arrays.h"

int64_t fake_live(void);
void fake_refuse_above(int bytes);

/* --- Writing ------------------------------------------------------------------------------------------------------- */

static void add_rows(zkafka_producer *producer, int64_t rows, bool is_good) {
    struct ArrowArray value = {0}, key = {0}, times = {0}, headers = {0};
    int partition_count = 5, is_large = below(2), key_is_large = below(2);
    bool with_key = !one_in(3), with_times = one_in(3), with_headers = one_in(3);
    int32_t *partitions = malloc((size_t)rows * sizeof *partitions + 1);
    for (int64_t i = 0; i < rows; i++) partitions[i] = below(partition_count);
    if (!is_good) partitions[below((int)rows)] = one_in(2) ? -1 : partition_count;
    any_strings(&value, rows, below(20), is_large, one_in(2));
    if (with_key) any_strings(&key, rows, below(20), key_is_large, one_in(2));
    if (with_times) any_times(&times, rows, below(20));
    if (with_headers) any_headers(&headers, rows, below(20));
    if (with_key) {
        uint32_t *hashes = malloc((size_t)rows * sizeof *hashes + 1);
        zkafka_hash(below(4), &key, key_is_large, hashes);
        free(hashes);
    }
    uint64_t sums[2] = {0};
    bool is_hashed = zkafka_hash_rows("orders", &value, is_large, with_key ? &key : NULL, key_is_large, NULL, with_times ? &times : NULL,
                                      with_headers ? &headers : NULL, sums);
    if (!is_hashed || (rows && !sums[0])) fail("rows without a hash");
    bool added = zkafka_producer_add(producer, one_in(2) ? "orders" : "others", partitions, partition_count, &value, is_large,
                                     with_key ? &key : NULL, key_is_large, with_times ? &times : NULL, with_headers ? &headers : NULL);
    if (added != is_good) fail("rows taken or refused wrongly");
    if (value.release || key.release || times.release || headers.release) fail("arrays that were not taken over");
    free(partitions);
}

static int64_t batch_bytes;

static void look_at_counts(zkafka_producer *producer) {
    struct zkafka_counts counts;
    int64_t by_partition[5] = {0}, sum = 0;
    zkafka_producer_counts(producer, &counts);
    const char *names[] = {"orders", "others", "never"};
    for (int name = 0; name < 3; name++) {
        int32_t count = zkafka_producer_acknowledged(producer, names[name], by_partition, 5);
        for (int32_t i = 0; i < count; i++) sum += by_partition[i];
    }
    if (sum != counts.acknowledged) fail("partitions that do not add up");
    /* Of ten partitions, one at least has a full batch. */
    if (counts.queued_bytes >= 10 * batch_bytes && counts.moving_partitions == 0) fail("full batches that do not move");
    if (counts.moving_partitions < 0 || (counts.queued_bytes == 0 && counts.moving_partitions)) fail("what moves without being there");
    if (counts.handed_over - counts.acknowledged - counts.failed != zkafka_producer_queued(producer)) fail("records unaccounted for");
}

static int64_t begun;

/* Lets the producer count anew, once nothing is queued; false: not yet. */
static bool begin_anew(zkafka_producer *producer) {
    struct zkafka_counts counts;
    zkafka_producer_counts(producer, &counts);
    if (counts.failed || !zkafka_producer_send(producer, 1)) return false;
    zkafka_producer_flush(producer, 1);
    zkafka_producer_counts(producer, &counts);
    if (counts.failed || zkafka_producer_queued(producer)) return false;
    zkafka_producer_begin(producer);
    zkafka_producer_counts(producer, &counts);
    if (counts.handed_over || counts.acknowledged) fail("counts that went on");
    look_at_counts(producer);
    return true;
}

/* Takes some step of a transaction, which may fail. */
static void transact(zkafka_producer *producer) {
    struct zkafka_error error = {0};
    bool done = true;
    char metadata[300] = "";
    switch (below(5)) {
    case 0:
        done = zkafka_transaction_init(producer, 1, &error);
        break;
    case 1:
        done = zkafka_transaction_begin(producer, &error);
        break;
    case 2:
        memset(metadata, 'm', (size_t)below((int)sizeof metadata));
        done = zkafka_transaction_commit_offset(producer, "group", "orders", 3, below(1000), metadata, 1, &error);
        break;
    case 3:
        done = zkafka_transaction_commit(producer, 1, &error);
        break;
    default:
        done = zkafka_transaction_abort(producer, 1, &error);
    }
    if (done != (error.code == 0)) fail("an error that is not one, or none that is");
    look(error.text, strlen(error.text));
}

static int64_t write_some(int64_t most) {
    const char *settings[] = {"good", "1", NULL};
    char why[512];
    int code;
    batch_bytes = 1 + below(20000);
    zkafka_producer *producer = zkafka_producer_new(settings, 1 + below(5000), 1 + below(200000), batch_bytes, &code, why, sizeof why);
    struct zkafka_counts counts = {0};
    struct zkafka_failure failure = {0};
    int64_t added = 0, before = 0;
    bool refusing = one_in(4);
    fake_refuse_above(refusing ? 38 : 1 << 30);
    while (counts.handed_over < most && !failure.code) {
        int rows = one_in(10) ? 1 + below(6000) : below(300);
        add_rows(producer, rows, true);
        added += rows;
        if (one_in(20)) add_rows(producer, 1 + below(50), false);
        for (int tries = below(4); tries > 0 && !zkafka_producer_send(producer, below(2)); tries--) zkafka_producer_poll(producer, 0);
        if (one_in(20)) zkafka_producer_purge(producer, one_in(2));
        if (one_in(10)) zkafka_producer_flush(producer, 1);
        if (one_in(20)) transact(producer);
        look_at_counts(producer);
        zkafka_producer_failure(producer, &failure);
        zkafka_producer_counts(producer, &counts);
        if (one_in(10) && !failure.code && begin_anew(producer)) {
            before += added;
            added = counts.handed_over = 0;
            begun++;
        }
        if (before > most) break;
    }
    while (one_in(2) && !refusing && !failure.code && !zkafka_producer_send(producer, 1)) zkafka_producer_failure(producer, &failure);
    if (!refusing && !failure.code && zkafka_producer_send(producer, 1)) {
        zkafka_producer_counts(producer, &counts);
        if (counts.handed_over != added) fail("rows that were never sent");
    }
    int32_t leaders[1];
    if (zkafka_producer_leaders(producer, "orders", 1, leaders, 1, &code) != 2 || leaders[0] != -1) fail("wrong leaders");
    zkafka_producer_close(producer); /* some of it is still queued */
    return before + counts.handed_over;
}

static int64_t write_all(int64_t messages) {
    int64_t written = 0;
    while (written < messages) written += write_some(below(20000)) + 1;
    if (messages > 100000 && begun == 0) fail("no producer was used again");
    return written;
}

static void refuse_settings(void) {
    const char *settings[] = {"bad", "1", NULL};
    char why[20];
    int code = 0;
    if (zkafka_producer_new(settings, 1, 1, 1, &code, why, sizeof why) || code != -186) fail("bad settings taken");
}

/* Loses some memory: the sanitizer must say so. */
static void leak(void) {
    uint8_t *volatile lost = malloc(10);
    lost[0] = 1;
    lost = NULL;
}

int main(int count, char **arguments) {
    char why[512] = "";
    state = strtoull(arguments[1], NULL, 10);
    int messages = atoi(arguments[2]);
    if (!zkafka_bind(NULL, why, sizeof why)) fail(why);
    refuse_settings();
    int64_t written = write_all(messages);
    if (fake_live() != 0) fail("something was not given back to librdkafka");
    if (count > 3) leak();
    printf("%ld written\n", (long)written);
    return 0;
}
