// closed.c - a device is closed right after a query: closing ends, while its dispatcher still asks the driver whether
// all is done, and where the device was lost before its dispatcher had a context.
//
// Run by tests/check-stress-gpu with the fake driver.  Asking takes long here, so that closing meets it; one that is
// never done is ended by a signal.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_TIMES = 30, ASK_US = 5000, SECONDS_MOST = 60, ENTER_MS = 500, STAYS = 700 };

static void (*asking_takes)(int us), (*entering_takes)(int ms);
static void (*fail_at)(const char *call, int nth, int result);

static void run_and_close(int pause_us)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    must(session, "set device = cuda");
    must(session, "create table t (a integer)");
    must(session, "insert into t values (1), (2)");
    char *sum = answer(session, "select sum(a) from t");
    check(strcmp(sum, "3|") == 0, "a query before the device is closed", sum);
    free(sum);
    usleep((useconds_t)pause_us);
    alarm(SECONDS_MOST);
    weft_disconnect(session);
    weft_close(db);
    alarm(0);
}

int main(void)
{
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&asking_takes = fake ? dlsym(fake, "fake_cuda_asking_takes") : NULL;
    *(void **)&entering_takes = fake ? dlsym(fake, "fake_cuda_entering_takes") : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (!asking_takes || !entering_takes || !fail_at)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    asking_takes(ASK_US);
    for (int i = 0; i < N_TIMES; i++) run_and_close(i * 331 % 5000);
    // The dispatcher is the first new thread; the launch that takes the device along leaves it a run to wait for.
    entering_takes(ENTER_MS);
    fail_at("cuLaunchKernel", 1, STAYS);
    run_and_close(0);
    fail_at("", 0, 0);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
