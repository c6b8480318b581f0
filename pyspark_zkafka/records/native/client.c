#include "client.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct rk_functions rk;

ZKAFKA_EXPORT int zkafka_interface(void) { return ZKAFKA_INTERFACE; }

static void *find(void *library, const char *name, char *why, size_t why_bytes) {
    void *found = dlsym(library, name);
    if (!found) snprintf(why, why_bytes, "it has no function %s", name);
    return found;
}

ZKAFKA_EXPORT bool zkafka_bind(const char *path, char *why, size_t why_bytes) {
    /* Never closed, as its functions stay in use. dlopen returns the library that is already loaded. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_bytes, "%s", dlerror());
        return false;
    }
    struct rk_functions found;
    /* POSIX allows to cast an object pointer to a function pointer for dlsym. */
#define RK_FIND(result, name, arguments)                                                                               \
    if (!(*(void **)&found.name = find(library, "rd_kafka_" #name, why, why_bytes))) return false;
    RK_FUNCTIONS(RK_FIND)
#undef RK_FIND
    rk = found;
    return true;
}

ZKAFKA_EXPORT const char *zkafka_librdkafka_version(void) { return rk.version_str(); }

static void on_error(rk_handle *handle, int code, const char *reason, void *opaque) {
    char text[sizeof(((struct zkafka_report *)0)->text)];
    bool fatal = code == RK_ERR_FATAL;
    if (fatal) {
        code = rk.fatal_error(handle, text, sizeof text);
        reason = text;
    }
    client_note(opaque, REPORT_ERROR, code, fatal, reason);
}

static void on_log(const rk_handle *handle, int level, const char *facility, const char *text) {
    struct client *client = rk.opaque(handle);
    char line[sizeof(((struct zkafka_report *)0)->text)];
    snprintf(line, sizeof line, "%s [%s] %s", facility, rk.name(handle), text);
    client_note(client, REPORT_LOG, level, false, line);
}

static rk_conf *configure(struct client *client, const char *const *settings, int *code, char *why, size_t why_bytes) {
    rk_conf *conf = rk.conf_new();
    for (; *settings; settings += 2)
        if (rk.conf_set(conf, settings[0], settings[1], why, why_bytes) != 0) {
            *code = RK_ERR_INVALID_ARG;
            rk.conf_destroy(conf);
            return NULL;
        }
    rk.conf_set_opaque(conf, client);
    rk.conf_set_error_cb(conf, on_error);
    rk.conf_set_log_cb(conf, on_log);
    return conf;
}

bool client_open(struct client *client, const char *const *settings, rk_on_delivery *on_delivery, int *code, char *why,
                 size_t why_bytes) {
    rk_conf *conf = configure(client, settings, code, why, why_bytes);
    if (!conf) return false;
    rk.conf_set_dr_msg_cb(conf, on_delivery);
    char reason[512];
    client->handle = rk.new(RK_PRODUCER, conf, reason, sizeof reason);
    if (!client->handle) {
        *code = rk.last_error();
        snprintf(why, why_bytes, "Failed to create producer: %s", reason);
        rk.conf_destroy(conf);
        return false;
    }
    rk.set_log_queue(client->handle, NULL);
    return true;
}

void client_note(struct client *client, int kind, int code, bool fatal, const char *text) {
    int kept_free = kind == REPORT_LOG ? REPORTS_FOR_ERRORS : 0;
    if (client->report_count >= REPORTS_ROOM - kept_free) return;
    int at = (client->first_report + client->report_count++) % REPORTS_ROOM;
    struct zkafka_report *report = &client->reports[at];
    *report = (struct zkafka_report){.kind = kind, .code = code, .fatal = fatal};
    snprintf(report->text, sizeof report->text, "%s", text ? text : rk.err2str(code));
}

bool client_next_report(struct client *client, struct zkafka_report *report) {
    if (client->report_count == 0) return false;
    *report = client->reports[client->first_report];
    client->first_report = (client->first_report + 1) % REPORTS_ROOM;
    client->report_count--;
    return true;
}
