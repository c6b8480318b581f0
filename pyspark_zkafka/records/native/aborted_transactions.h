/* Aborted transactions of a fetch response, applied like Kafka's CompletedFetch (3.9.1). */
#ifndef ZKAFKA_ABORTED_TRANSACTIONS_H
#define ZKAFKA_ABORTED_TRANSACTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct aborted_transactions {
    int64_t *producers, *first_offsets; /* in the order of first offsets */
    int64_t count, begun;
    int64_t *active; /* producers in an open transaction, ascending */
    int64_t active_count;
};

/* Replaces the transactions by copies of the given transactions. False: out of memory. */
bool aborted_transactions_set(struct aborted_transactions *, const int64_t *producers, const int64_t *first_offsets, int64_t count);
void aborted_transactions_clear(struct aborted_transactions *);
/* Opens the transactions with a first offset up to `offset`. */
void aborted_transactions_begin(struct aborted_transactions *, int64_t offset);
/* Ends the transaction of a producer, at its marker. */
void aborted_transactions_end(struct aborted_transactions *, int64_t producer);
/* True if a transaction of the producer is open. */
bool aborted_transactions_has(const struct aborted_transactions *, int64_t producer);

#endif
