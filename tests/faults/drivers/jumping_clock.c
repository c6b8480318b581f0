/*
 * A preloaded library that shifts the wall clock of a process, and of no other, by the seconds in the file that JUMPING_CLOCK
 * names: a 64-bit integer, which may change at any time. Monotonic clocks are left as they are, as by a real jump.
 *
 * A wait until a time of day is shifted back for the kernel. Whether a condition variable waits by the wall clock is not
 * told here, but seconds since the boot are few.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define LEAST_TIME_OF_DAY 1000000000

static int64_t nothing;
static volatile int64_t *shift_s = &nothing;

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("JUMPING_CLOCK");
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *shift_s, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shift_s = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0) return -1;
    if (now != NULL) *now = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

static struct timespec unshifted(const struct timespec *until) {
    struct timespec found = *until;
    if (found.tv_sec > LEAST_TIME_OF_DAY) found.tv_sec -= *shift_s;
    return found;
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    typedef int wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    static wait *real;
    /* Where there are two versions, the one without a name to ask for is that of Linux 2.4. */
    if (real == NULL) real = (wait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (real == NULL) real = (wait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const struct timespec then = unshifted(until);
    return real(condition, mutex, &then);
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    typedef int wait(cnd_t *, mtx_t *, const struct timespec *);
    static wait *real;
    if (real == NULL) real = (wait *)dlsym(RTLD_NEXT, "cnd_timedwait");
    const struct timespec then = unshifted(until);
    return real(condition, mutex, &then);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    typedef int wait(sem_t *, const struct timespec *);
    static wait *real;
    if (real == NULL) real = (wait *)dlsym(RTLD_NEXT, "sem_timedwait");
    const struct timespec then = unshifted(until);
    return real(semaphore, &then);
}
