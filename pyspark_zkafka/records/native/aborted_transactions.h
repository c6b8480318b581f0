/* Aborted transactions of a fetch response, as Kafka's CompletedFetch (3.9.1) applies them. */
#ifndef ZKAFKA_ABORTED_TRANSACTIONS_H
#define ZKAFKA_ABORTED_TRANSACTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct aborted_transactions {
    int64_t *producers, *first_offsets; /* of each, in the order of their first offsets */
    int64_t count, begun;
    int64_t *active; /* producers whose transactions have begun and not ended, ascending */
    int64_t active_count;
};

/* Copies the transactions in place of those before. False: out of memory. */
bool aborted_transactions_set(struct aborted_transactions *, const int64_t *producers, const int64_t *first_offsets, int64_t count);
void aborted_transactions_clear(struct aborted_transactions *);
/* Begins those with a first offset up to `offset`. */
void aborted_transactions_begin(struct aborted_transactions *, int64_t offset);
/* Ends that of a producer, by its marker. */
void aborted_transactions_end(struct aborted_transactions *, int64_t producer);
/* True if a transaction of the producer has begun and not ended. */
bool aborted_transactions_has(const struct aborted_transactions *, int64_t producer);

#endif
