// process.c - run a program, but not for ever.
//
// The program is its own process group, so that killing it kills what it started too.  It reads /dev/null, inherits
// no file of ours, and writes output and errors into one pipe, of which the beginning is kept.  We wait for three
// things at once:
//
//     end of the program | timeout | stop_fd readable (the jit is being freed)
//
// The group is killed in all three cases, for a program may leave others behind.  Its leader stays a zombie until then
// (WNOWAIT), so the number of the group cannot have been reused.  Then we read the pipe to its end: when no process
// holds it any more, no process writes to the work directory either.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                                         // pipe2, posix_spawn_file_actions_addclosefrom_np
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jit/jit_int.h"

extern char **environ;

enum { NICE_STEP = 10, TICK_MS = 20, DRAIN_MS = 1000 };

// ---- starting ------------------------------------------------------------------------------------------------------

static bool is_variable(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

// Ours, but for TMPDIR (so that even a killed compiler's files are found and removed) and for English messages.
// The result and its first entry are from malloc.
static char **make_environment(const char *temp_dir)
{
    size_t n = 0, n_out = 0;
    while (environ && environ[n])
        n++;
    char **out = calloc(n + 3, sizeof(*out));
    char *entry = malloc(sizeof("TMPDIR=") + strlen(temp_dir));
    if (!out || !entry)
        return free(out), free(entry), NULL;
    strcat(strcpy(entry, "TMPDIR="), temp_dir);
    out[n_out++] = entry;
    out[n_out++] = (char *)(uintptr_t) "LC_ALL=C";
    for (size_t i = 0; i < n; i++)
        if (!is_variable(environ[i], "TMPDIR") && !is_variable(environ[i], "LC_ALL"))
            out[n_out++] = environ[i];
    return out;
}

static int set_up_files(posix_spawn_file_actions_t *files, int output_fd)
{
    int failed = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(files, output_fd, STDOUT_FILENO);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(files, output_fd, STDERR_FILENO);
    return failed ? failed : posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1);
}

static int set_up_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int failed =
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    failed = failed ? failed : posix_spawnattr_setpgroup(attributes, 0);
    failed = failed ? failed : posix_spawnattr_setsigdefault(attributes, &all);
    return failed ? failed : posix_spawnattr_setsigmask(attributes, &none);
}

// posix_spawn and not fork: it does not copy the page tables of a process that may hold a whole database.
static int spawn(const char *path, char *const arguments[], char **environment, int output_fd, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = set_up_files(&files, output_fd);
        failed = failed ? failed : set_up_signals(&attributes);
        failed = failed ? failed : posix_spawn(pid, path, &files, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

// From outside, at once after the start: the compiler proper is started by its driver some milliseconds later.
static void lower_priority(pid_t group)
{
    errno = 0;
    int ours = getpriority(PRIO_PROCESS, 0);
    if (errno == 0)
        setpriority(PRIO_PGRP, (id_t)group, MIN_OF(ours + NICE_STEP, 19));
}

static weft_status start(const char *path, char *const arguments[], const ProcessOptions *options, pid_t *pid,
                         int *output, Error *err)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return fail_errno(err, "make a pipe", NULL);
    char **environment = make_environment(options->temp_dir);
    int failed = environment ? spawn(path, arguments, environment, pipe_fds[1], pid) : ENOMEM;
    if (environment)
        free(environment[0]);
    free(environment);
    close(pipe_fds[1]);
    if (failed) {
        close(pipe_fds[0]);
        bool is_our_fault = failed == EAGAIN || failed == ENOMEM || failed == EMFILE || failed == ENFILE;
        return fail(err, is_our_fault ? WEFT_OUT_OF_MEMORY : WEFT_KERNEL_BUILD, -1, "could not start %.200s: %s", path,
                    strerror(failed));
    }
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    if (options->is_background)
        lower_priority(*pid);
    *output = pipe_fds[0];
    return WEFT_OK;
}

// ---- waiting -------------------------------------------------------------------------------------------------------

// Reads what there is; false at the end of the pipe.
static bool take_output(int fd, ProcessResult *result)
{
    for (;;) {
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        for (ssize_t i = 0; i < n && result->n_output < PROCESS_OUTPUT_MAX; i++) {
            unsigned char c = (unsigned char)bytes[i];
            result->output[result->n_output++] = c == '\n' || (c >= ' ' && c <= '~') ? (char)c : '?';
        }
        if ((size_t)n < sizeof(bytes))  // the poll says when there is more, and sees the time between
            return true;
    }
}

// Leaves the program a zombie.  LOST: another thread of this process waits for all children, or SIGCHLD is ignored.
static bool has_ended(pid_t pid, ProcessResult *result)
{
    siginfo_t info = { 0 };
    int failed;
    while ((failed = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT)) != 0 && errno == EINTR)
        continue;
    if (failed) {
        result->end = PROCESS_LOST;
        return true;
    }
    if (info.si_pid != pid)
        return false;
    result->end = info.si_code == CLD_EXITED ? PROCESS_EXITED : PROCESS_SIGNALED;
    result->code = info.si_status;
    return true;
}

static void follow(pid_t pid, int output, const ProcessOptions *options, ProcessResult *result)
{
    double deadline = time_now_ms() + options->timeout_ms;
    bool is_open = true;
    while (!has_ended(pid, result)) {
        if (time_now_ms() >= deadline) {
            result->end = PROCESS_TIMED_OUT;
            return;
        }
        // Once the pipe is closed the end is near, and nothing wakes us for it: look every millisecond.
        struct pollfd polls[] = { { is_open ? output : -1, POLLIN, 0 }, { options->stop_fd, POLLIN, 0 } };
        poll(polls, 2, is_open ? TICK_MS : 1);
        if (polls[1].revents) {
            result->end = PROCESS_STOPPED;
            return;
        }
        if (polls[0].revents)
            is_open = take_output(output, result);
    }
}

static void drain(int output, ProcessResult *result)
{
    double deadline = time_now_ms() + DRAIN_MS;
    while (take_output(output, result) && time_now_ms() < deadline) {
        struct pollfd one = { output, POLLIN, 0 };
        poll(&one, 1, TICK_MS);
    }
}

weft_status process_run(const char *path, char *const arguments[], const ProcessOptions *options, ProcessResult *result,
                        Error *err)
{
    pid_t pid = 0;
    int output = -1;
    ASSERT(options->temp_dir && options->timeout_ms > 0);
    ASSERT(path && arguments[0]);
    *result = (ProcessResult){ 0 };
    TRY(start(path, arguments, options, &pid, &output, err));
    follow(pid, output, options, result);
    if (result->end != PROCESS_LOST) {
        kill(-pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    drain(output, result);
    close(output);
    ASSERT(result->n_output < sizeof(result->output));
    while (result->n_output && result->output[result->n_output - 1] == '\n')
        result->output[--result->n_output] = '\0';
    return WEFT_OK;
}
