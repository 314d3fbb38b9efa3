// progress.c - what goes on while a statement runs: Ctrl-C, and a bar for the patient.
//
// The signal handler only sets a flag.  A thread of our own looks at it twenty times a second while a statement runs,
// and calls weft_cancel like any other thread may; so nothing but a store happens in the handler, and a cancelled
// statement ends as an ordinary error.  The same thread draws the bar, once a second has gone by.
//
//     watch_begin  -> wakes the thread only when it sleeps; between short statements it still waits for its next tick
//     watch_end    -> takes the lock, so the bar is never drawn over output
//
// Without a statement running, Ctrl-C ends a script at once (the default action), and at the prompt drops the line.

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shell/shell.h"

#define TICK_MS        50
#define FIRST_DRAW_MS  1000.0
#define BAR_CELLS      30

static struct Watch {
    pthread_t       thread;
    bool            has_thread;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    const Shell    *shell;
    bool            is_sleeping;                           // the thread waits for a statement
    bool            is_running;                            // a statement runs
    bool            is_stopping;
    bool            was_cancelled;                         // this statement has been told
    bool            has_drawn;                             // the bar is on the screen
    struct timespec start;                                 // of the statement
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic bool interrupts;                            // Ctrl-C since watch_forget
static _Atomic bool dies_at_once;                          // nothing to cancel and no prompt
static _Atomic bool is_script;                             // no prompt

static void on_interrupt(int number)
{
    if (dies_at_once || (interrupts && is_script)) {       // a second Ctrl-C does not wait for the first
        signal(number, SIG_DFL);
        raise(number);
    }
    interrupts = true;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void draw(const Shell *shell, double share, double elapsed)
{
    int filled = (int)(share * BAR_CELLS);
    const char *full = shell->has_unicode ? "\u2588" : "#", *empty = shell->has_unicode ? "\u2591" : ".";
    fprintf(stderr, "\r%3d%% ", (int)(share * 100));
    for (int i = 0; i < BAR_CELLS; i++)
        fputs(i < filled ? full : empty, stderr);
    fprintf(stderr, " %.1f s", elapsed);
    if (share > 0.05)
        fprintf(stderr, ", %.0f s left", elapsed / share - elapsed);
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void erase(void)
{
    if (watch.has_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    watch.has_drawn = false;
}

// With the lock held and a statement running.
static void tick(void)
{
    if (interrupts && !watch.was_cancelled) {
        weft_cancel(watch.shell->session);
        watch.was_cancelled = true;
    }
    double elapsed = seconds_since(&watch.start), share = weft_progress(watch.shell->session);
    if (!watch.shell->err_is_terminal || !watch.shell->has_escapes || elapsed * 1e3 < FIRST_DRAW_MS)
        return;
    if (share < 0) {
        erase();
        return;
    }
    draw(watch.shell, share > 1 ? 1 : share, elapsed);
    watch.has_drawn = true;
}

static void wait_a_tick(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&watch.wake, &watch.lock, &until);
}

static void *watch_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    while (!watch.is_stopping) {
        if (watch.is_running) {
            wait_a_tick();
            if (watch.is_running)
                tick();
        } else {
            watch.is_sleeping = true;
            pthread_cond_wait(&watch.wake, &watch.lock);
            watch.is_sleeping = false;
        }
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void watch_start(const Shell *shell)
{
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
    sigset_t all, before;

    watch.shell = shell;
    dies_at_once = is_script = !shell->is_interactive;
    sigaction(SIGINT, &action, NULL);
    pthread_cond_init(&watch.wake, NULL);

    sigfillset(&all);                                      // signals are for the main thread, which reads the terminal
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch.has_thread = pthread_create(&watch.thread, NULL, watch_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!watch.has_thread) {                               // then Ctrl-C ends the program
        report_problem(shell, "no thread to watch for Ctrl-C");
        signal(SIGINT, SIG_DFL);
    }
}

void watch_stop(void)
{
    if (!watch.has_thread)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.is_stopping = true;
    pthread_cond_signal(&watch.wake);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.wake);
    watch.has_thread = false;
}

void watch_begin(void)
{
    pthread_mutex_lock(&watch.lock);
    watch.is_running = true;
    watch.was_cancelled = false;
    clock_gettime(CLOCK_MONOTONIC, &watch.start);
    if (watch.is_sleeping)
        pthread_cond_signal(&watch.wake);
    pthread_mutex_unlock(&watch.lock);
    dies_at_once = !watch.has_thread;
}

void watch_end(void)
{
    dies_at_once = is_script;
    pthread_mutex_lock(&watch.lock);
    watch.is_running = false;
    erase();
    pthread_mutex_unlock(&watch.lock);
}

bool watch_interrupted(void)
{
    return interrupts;
}

void watch_forget(void)
{
    interrupts = false;
}
