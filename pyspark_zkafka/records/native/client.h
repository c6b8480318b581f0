/* librdkafka: its functions, and a client with its settings and reports. */
#ifndef ZKAFKA_CLIENT_H
#define ZKAFKA_CLIENT_H

#include "rdkafka_abi.h"
#include "zkafka.h"

/* Reports that Python has not read, oldest first. A full queue drops log lines first, then errors. */
enum { REPORTS_ROOM = 256, REPORTS_FOR_ERRORS = 64 };

struct client {
    rk_handle *handle;
    struct zkafka_report reports[REPORTS_ROOM];
    int first_report;
    int report_count;
};

/* Creates the handle of a producer. False, with the reason, if librdkafka refuses. */
bool client_open(struct client *, const char *const *settings, rk_on_delivery *on_delivery, int *code, char *why, size_t why_bytes);
void client_note(struct client *, int kind, int code, bool fatal, const char *text);
bool client_next_report(struct client *, struct zkafka_report *);
/* The client of a producer. */
rk_handle *producer_handle(const zkafka_producer *);

#endif
