#include "aborted_transactions.h"

#include <stdlib.h>
#include <string.h>

bool aborted_transactions_set(struct aborted_transactions *all, const int64_t *producers, const int64_t *first_offsets, int64_t count) {
    aborted_transactions_clear(all);
    if (count <= 0) return true;
    size_t size = (size_t)count * sizeof *all->producers;
    all->producers = malloc(size);
    all->first_offsets = malloc(size);
    all->active = malloc(size);
    if (!all->producers || !all->first_offsets || !all->active) return false;
    memcpy(all->producers, producers, size);
    memcpy(all->first_offsets, first_offsets, size);
    all->count = count;
    return true;
}

void aborted_transactions_clear(struct aborted_transactions *all) {
    free(all->producers);
    free(all->first_offsets);
    free(all->active);
    *all = (struct aborted_transactions){0};
}

/* The index of a producer among the active producers, or where to insert it. */
static int64_t place(const struct aborted_transactions *all, int64_t producer) {
    int64_t from = 0, until = all->active_count;
    while (from < until) {
        int64_t middle = from + (until - from) / 2;
        if (all->active[middle] < producer)
            from = middle + 1;
        else
            until = middle;
    }
    return from;
}

bool aborted_transactions_has(const struct aborted_transactions *all, int64_t producer) {
    int64_t at = place(all, producer);
    return at < all->active_count && all->active[at] == producer;
}

void aborted_transactions_begin(struct aborted_transactions *all, int64_t offset) {
    for (; all->begun < all->count && all->first_offsets[all->begun] <= offset; all->begun++) {
        int64_t producer = all->producers[all->begun];
        if (aborted_transactions_has(all, producer)) continue;
        int64_t at = place(all, producer);
        memmove(all->active + at + 1, all->active + at, (size_t)(all->active_count++ - at) * sizeof *all->active);
        all->active[at] = producer;
    }
}

void aborted_transactions_end(struct aborted_transactions *all, int64_t producer) {
    if (!aborted_transactions_has(all, producer)) return;
    int64_t at = place(all, producer);
    memmove(all->active + at, all->active + at + 1, (size_t)(--all->active_count - at) * sizeof *all->active);
}
