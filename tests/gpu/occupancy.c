// occupancy.c - the model's concurrent blocks are the driver's, for every kernel that Weft has compiled, at every block
// size from 32 to 1024 threads.
//
// Run by tests/check-gpu with the fake driver, which counts by NVIDIA's documented rules for several capabilities, and
// by scripts/gpu-test on a GPU, where the driver itself is asked.

#include "device/cuda.h"
#include "engine/engine.h"

#include "help.h"

enum { N_ROWS = 70000, KERNELS_LEAST = 12 };

// Kernels of every kind: few and many registers, groups in shared memory and in hash tables, join tables, rows.
static const char *const queries[] = {
    "select count(*) from t",
    "select sum(a), min(b), max(c), avg(d) from t where b < 700 and d > 3",
    "select d, count(*), sum(a) from t group by d",
    "select b, sum(a), max(c), min(d), count(c) from t group by b",
    "select a::double precision, sum(b) from t group by 1",
    "select a, b, c, d from t where b = 17",
    "select k.size, sum(t.a) from t, k where t.d = k.id group by k.size",
    "select k.size, l.size, sum(t.a) from t, k, k l where t.d = k.id and t.b = l.id group by k.size, l.size",
    "select sum(a + 1), sum(a + 2), sum(a + 3), sum(a + 4), sum(a + 5), sum(a + 6), sum(a + 7), sum(a + 8) from t",
    "select sum(a * b), sum(b * c), sum(c * d), sum(a * c), sum(b * d), count(*) from t where a % 7 < 5",
};

static void fill(weft_session *session)
{
    fill_table(session, "t", N_ROWS);
    must(session, "create table k (id integer, size integer)");
    for (int i = 0; i < 90; i++) {
        char sql[80];
        snprintf(sql, sizeof sql, "insert into k values (%d, %d)", i, i % 11);
        must(session, sql);
    }
}

static void run_all(weft_session *session)
{
    for (int q = 0; q < COUNT_OF(queries); q++) must(session, queries[q]);
    must(session, "set weave = off");
    for (int q = 0; q < COUNT_OF(queries); q++) must(session, queries[q]);
}

int main(void)
{
    weft_db       *db;
    weft_session  *session;
    weft_error     error;
    Device        *device;
    Error          err = { 0 };
    OccupancyCheck found = { 0 };
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) return 1;
    if (!getenv("WEFT_DEVICE")) must(session, "set device = cuda");
    must(session, "set gpu_wait = on");
    fill(session);
    run_all(session);
    if (gpus_get(db->gpus, session->settings.gpu, &device, &err)) return printf("failed: %s\n", err.message), 1;
    check(cuda_check_occupancy(device, &found), "the model knows the card", "it does not");
    printf("%d kernels, %d shapes\n", found.n_kernels, found.n_shapes);
    check(found.n_kernels >= KERNELS_LEAST, "there are kernels", "too few");
    check(found.n_wrong == 0, "the model and the driver agree", found.first_wrong);
    weft_disconnect(session);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
