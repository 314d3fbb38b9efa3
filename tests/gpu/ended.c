// ended.c - a program ends while code is compiled, without having closed its database: it ends as it wanted to.
//
// Run by tests/check-gpu with the fake driver, whose compiler is taken down by exit as NVRTC is: what it does after
// that ends the process.

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "help.h"

enum { COMPILE_MS = 600, ENDS_WITH = 7, SECONDS_MOST = 60 };

static void (*compiling_takes)(int ms);                        // of the fake compiler

static weft_session *open_device(void)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    must(session, "set device = cuda");
    return session;
}

static void end_after(int ms)
{
    open_device();                     // begins to compile, in the background
    usleep((useconds_t)ms * 1000);
    exit(ENDS_WITH);
}

// The child of a fork has none of the threads that compile, and waits for none.
static void fork_and_end(int ms)
{
    int status;
    open_device();
    usleep((useconds_t)ms * 1000);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MOST / 2);
        exit(ENDS_WITH);
    }
    _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void *end_now(void *nothing)
{
    exit(ENDS_WITH);
    return nothing;
}

static void end_by_another_thread(int ms)
{
    pthread_t thread;
    open_device();
    usleep((useconds_t)ms * 1000);
    pthread_create(&thread, NULL, end_now, NULL);
    pthread_join(thread, NULL);
}

// The first compile is done; the CPU runs the second query while its code is made.
static void end_later(int ms)
{
    weft_session *session = open_device();
    must(session, "create table t (a integer)");
    must(session, "insert into t values (1), (2)");
    free(answer(session, "select sum(a) from t"));
    must(session, "set gpu_wait = off");
    compiling_takes(COMPILE_MS);
    free(answer(session, "select max(a) from t where a > 1"));
    usleep((useconds_t)ms * 1000);
    exit(ENDS_WITH);
}

static void check_end(const char *what, void (*end)(int ms), int ms)
{
    int  status = 0;
    char got[64];
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MOST);
        end(ms);
    }
    waitpid(child, &status, 0);
    snprintf(got, sizeof got, "after %d ms, status %x", ms, (unsigned)status);
    check(WIFEXITED(status) && WEXITSTATUS(status) == ENDS_WITH, what, got);
}

int main(void)
{
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&compiling_takes = fake ? dlsym(fake, "fake_nvrtc_takes") : NULL;
    if (!compiling_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    compiling_takes(COMPILE_MS);
    check_end("at once", end_after, 0);
    check_end("in the first half of the first compile", end_after, COMPILE_MS / 6);
    check_end("in the second half of the first compile", end_after, COMPILE_MS * 5 / 6);
    check_end("after the first compile", end_after, COMPILE_MS * 5 / 4);
    check_end("by another thread, in the second half of the first compile", end_by_another_thread, COMPILE_MS * 5 / 6);
    check_end("a fork, in the first compile", fork_and_end, COMPILE_MS * 5 / 6);
    compiling_takes(COMPILE_MS / 6);
    check_end("in the first half of a later compile", end_later, 10);
    check_end("in the second half of a later compile", end_later, COMPILE_MS * 5 / 6);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
