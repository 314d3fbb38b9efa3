// fuzz_copy.c - COPY FROM of damaged text, csv and JSON lines: no crash, and the answer does not depend on where blocks
// end or on the number of workers.
//
//     fuzz_copy N SEED
//
// Each input is a few lines of a valid file with bytes changed, dropped and doubled, or random bytes that matter to the
// parsers.  It is read with blocks of the usual size by one worker and with tiny ones by two; status, message, rows and
// rejected rows must be the same.  Run it under the sanitizers (make SAN=1).

#define _GNU_SOURCE                                         // memfd_create

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/copy_int.h"
#include "store/guess.h"
#include "store/store.h"

enum { INPUT_MOST = 600 };

static u64 state;

static u32 draw(u32 below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (u32)((state >> 20) % below);
}

static const char *const seeds[] = {
    "1\tone\t2026-01-01\t1.5\n\\N\t\\N\t\\N\t\\N\n2\ta\\tb\\\\c\\x41\\101\\\nd\t0001-01-01\t-0.25\n\\.\n",
    "1,one,2026-01-01,1.5\n,,,\n\"2\",\"a \"\"b\"\", c\nd\",0001-01-01,-0.25\r\n3,'x',2026-02-28,1e5\n",
    "{\"a\":1,\"b\":\"one\",\"d\":\"2026-01-01\",\"n\":1.5}\n\n{\"b\":\"\\u00e9\\ud83d\\ude00\\n\\\"\",\"a\":null}\n"
    "{\"b\":{\"x\":[1,2,{\"y\":\"}\"}]},\"n\":-2.5e1}\r\n{}\n",
};

static size_t make_input(char *bytes)
{
    static const char telling[] = "\t\n\r\\,\"'{}[]:|.NnxuU01279-e \0\xc3\xa9\xff";
    size_t length = 0;
    if (draw(4) == 0) {
        for (u32 n = draw(120); n > 0; n--) bytes[length++] = telling[draw(sizeof telling - 1)];
        return length;
    }
    for (u32 n = 1 + draw(2); n > 0; n--) {
        const char *seed = seeds[draw(COUNT_OF(seeds))];
        length += (size_t)snprintf(bytes + length, INPUT_MOST - length, "%s", seed);
        length = MIN_OF(length, (size_t)INPUT_MOST - 1);
    }
    for (u32 n = draw(6); n > 0 && length > 0; n--) {
        const size_t at = draw((u32)length);
        switch (draw(3)) {
        case 0: bytes[at] = telling[draw(sizeof telling - 1)]; break;
        case 1: memmove(bytes + at, bytes + at + 1, length - at - 1); length--; break;
        default: length = at; break;
        }
    }
    return length;
}

typedef struct Outcome { weft_status status; char message[512]; CopyFigures figures; } Outcome;

static Store *store;
static Budget budget;

static Outcome read_it(const char *bytes, size_t length, CopyOptions options, size_t block, int n_workers)
{
    Outcome outcome = { 0 };
    Error err;
    Pool *pool = pool_new(n_workers);
    error_clear(&err);
    copy_set_block_bytes(block);
    options.is_std = true;
    options.fd = memfd_create("fuzz", 0);
    if (options.fd < 0 || write(options.fd, bytes, length) != (ssize_t)length) abort();
    lseek(options.fd, 0, SEEK_SET);
    outcome.status = copy_from_file(store, pool, &budget, "t", "input", &options, NULL, NULL, &outcome.figures, &err);
    snprintf(outcome.message, sizeof outcome.message, "%s", err.message);
    close(options.fd);
    pool_free(pool);
    return outcome;
}

static bool is_same(const Outcome *a, const Outcome *b)
{
    return a->status == b->status && strcmp(a->message, b->message) == 0 &&
           (a->status || (a->figures.n_rows == b->figures.n_rows && a->figures.n_rejected == b->figures.n_rejected));
}

static bool try_one(const char *bytes, size_t length, const CopyOptions *options, int form)
{
    const Outcome whole = read_it(bytes, length, *options, 0, 1), cut = read_it(bytes, length, *options, 7, 2);
    if (is_same(&whole, &cut)) return true;
    printf("form %d%s: %d rows %llu rejected %llu \"%s\" and %d rows %llu rejected %llu \"%s\"\n", form,
           options->ignores_errors ? " ignore" : "", whole.status, (unsigned long long)whole.figures.n_rows,
           (unsigned long long)whole.figures.n_rejected, whole.message, cut.status,
           (unsigned long long)cut.figures.n_rows, (unsigned long long)cut.figures.n_rejected, cut.message);
    fwrite(bytes, 1, length, stdout);
    printf("\n----\n");
    return false;
}

int main(int argc, char **argv)
{
    const long n = argc > 1 ? atol(argv[1]) : 1000;
    const ColumnDef columns[] = {
        { "a", TYPE(INTEGER), false }, { "b", TYPE(TEXT), false }, { "d", TYPE(DATE), false },
        { "n", { .kind = TYPE_DECIMAL, .precision = 9, .scale = 2 }, false },
    };
    const CopyOptions forms[] = {
        { .delimiter = '\t', .null_text = "\\N", .quote = '"', .escape = '"' },
        { .delimiter = ',', .csv = true, .null_text = "", .quote = '"', .escape = '"' },
        { .delimiter = ',', .csv = true, .null_text = "", .quote = '"', .escape = '\\', .header = true },
        { .delimiter = '\t', .json = true, .null_text = "\\N", .quote = '"', .escape = '"' },
    };
    Error err;
    long n_failed = 0;
    error_clear(&err);
    state = 0x9E3779B97F4A7C15u * (u64)(argc > 2 ? atoll(argv[2]) + 1 : 1);
    if (store_open(NULL, &budget, &store, &err) || store_create_table(store, "t", columns, 4, &err)) return 2;
    for (long i = 0; i < n && n_failed < 5; i++) {
        char bytes[INPUT_MOST];
        const size_t length = make_input(bytes);
        CopyOptions options = forms[i % COUNT_OF(forms)];
        options.ignores_errors = draw(2);
        n_failed += !try_one(bytes, length, &options, (int)(i % COUNT_OF(forms)));
        if (i % 64 == 0 && store_truncate_table(store, "t", NULL, &err)) return 2;
    }
    store_close(store);
    printf("fuzz_copy: %ld inputs, %ld of them read differently\n", n, n_failed);
    return n_failed > 0;
}
