#include "zkafka.h"

#include <stdatomic.h>
#include <stdlib.h>

struct zkafka_loans {
    atomic_llong lent;  /* batches that are not released */
    atomic_llong users; /* the lent batches, and the reader */
};

struct loan {
    struct ArrowArray array;
    struct zkafka_loans *loans;
};

static void leave(struct zkafka_loans *loans) {
    if (atomic_fetch_sub(&loans->users, 1) == 1) free(loans);
}

/* Runs in whichever thread of the engine drops the batch last. */
static void give_back(struct ArrowArray *array) {
    struct loan *loan = array->private_data;
    struct zkafka_loans *loans = loan->loans;
    array->release = NULL;
    arrow_release(&loan->array);
    free(loan);
    atomic_fetch_sub(&loans->lent, 1);
    leave(loans);
}

zkafka_loans *zkafka_loans_new(void) {
    struct zkafka_loans *loans = malloc(sizeof *loans);
    if (!loans) return NULL;
    atomic_init(&loans->lent, 0);
    atomic_init(&loans->users, 1);
    return loans;
}

void zkafka_loans_close(zkafka_loans *loans) { leave(loans); }

int64_t zkafka_loans_count(zkafka_loans *loans) { return atomic_load(&loans->lent); }

bool zkafka_lend(zkafka_loans *loans, struct ArrowArray *array) {
    struct loan *loan = malloc(sizeof *loan);
    if (!loan) return false;
    loan->array = *array;
    loan->loans = loans;
    array->private_data = loan;
    array->release = give_back;
    atomic_fetch_add(&loans->lent, 1);
    atomic_fetch_add(&loans->users, 1);
    return true;
}
