// closed.c - a device is closed right after a query, while its dispatcher still asks the driver whether all is done:
// closing ends.
//
// Run by tests/check-stress-gpu with the fake driver.  Asking takes long here, so that closing meets it; one that is
// never done is ended by a signal.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_TIMES = 30, ASK_US = 5000, SECONDS_MOST = 10 };

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
    void (*asking_takes)(int us);
    *(void **)&asking_takes = fake ? dlsym(fake, "fake_cuda_asking_takes") : NULL;
    if (!asking_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    asking_takes(ASK_US);
    for (int i = 0; i < N_TIMES; i++) run_and_close(i * 331 % 5000);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
