// shapes.c - many queries of one shape that group: over the fact table alone, and by columns of tables that they join.

#define _GNU_SOURCE
#include "gpu.h"

#include <math.h>
#include <stdlib.h>

// Number N of a family; no two are the same.  All are sorted, as their answers are compared row by row.
typedef char *ShapeQuery(int n);

#define YEARS       "lo_orderdate between %d0101 and %d1231"
#define RANGES      "where " YEARS " and lo_quantity between %d and %d group by lo_discount order by lo_discount"
#define RANGES_OF(n) 1992 + (n) % 7, 1992 + (n) % 7 + (n) % 2, 1 + 2 * (n), 15 + 2 * (n)

static char *groups_query(int n)
{
    char *sql;
    if (asprintf(&sql, "select lo_discount, count(*), sum(lo_extendedprice) from lineorder " RANGES, RANGES_OF(n)) < 0)
        die("query", "out of memory");
    return sql;
}

static char *extremes_query(int n)
{
    char *sql;
    if (asprintf(
            &sql,
            "select lo_discount, count(*), sum(lo_extendedprice), min(lo_revenue), max(lo_revenue) "
             "from lineorder " RANGES,
            RANGES_OF(n)) < 0)
        die("query", "out of memory");
    return sql;
}

static char *joined_query(int n)
{
    char *sql;
    if (asprintf(
            &sql,
            "select d_year, count(*), sum(lo_revenue) from lineorder, date where lo_orderdate = d_datekey and "
            "lo_discount between %d and %d and "
            "lo_quantity between %d and %d group by d_year order by d_year",
            n % 7, n % 7 + 2, 1 + 2 * n, 15 + 2 * n) < 0)
        die("query", "out of memory");
    return sql;
}

// Q2.1 for another category and region.
static char *join_query(int n)
{
    static const char *const REGIONS[] = { "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST" };
    char *sql;
    if (asprintf(
            &sql,
            "select sum(lo_revenue), d_year, p_brand1 from lineorder, date, part, supplier where lo_orderdate = "
            "d_datekey and lo_partkey = p_partkey "
            "and lo_suppkey = s_suppkey and p_category = 'MFGR#%d%d' and s_region = '%s' group by d_year, p_brand1 "
            "order by d_year, p_brand1",
            1 + n / 5, 1 + n % 5, REGIONS[n % COUNT(REGIONS)]) < 0)
        die("query", "out of memory");
    return sql;
}

static const struct { const char *what; ShapeQuery *query; } SHAPES[] = {
    { "count and sum by lo_discount, two ranges", groups_query },
    { "the same with min and max", extremes_query },
    { "count and sum by d_year, a join and two ranges", joined_query },
    { "Q2.1 with other categories and regions", join_query },
};

static void time_shape(GpuBench *gpu, const char *what, ShapeQuery *query)
{
    Bench *bench = &gpu->bench;
    Crowd crowd = { .n = 0 };
    double whole_ms = 0, kernels_ms = 0;
    say(bench, "### %s\n\n", what);
    for (int i = 0; i < N_SHAPE; i++) {
        char *sql = query(i);
        Single single = time_single(gpu, sql);
        if (i == 0)
            say(bench, "- the first: `%s`\n- each alone, ms:", sql);
        say(bench, " %.3f", single.whole_ms);
        whole_ms += single.whole_ms;
        kernels_ms += single.kernels_ms;
        crowd_join(gpu, &crowd, gpu->weft, sql);
        free(sql);
    }
    const AtOnce best = best_at_once(gpu, &crowd, gpu->weft);
    say(bench, "\n- sum of each alone: %.3f ms from SQL to result; of their kernels and tables: %.3f ms\n", whole_ms,
        kernels_ms);
    say(bench, "- at once: %.3f ms, %.1f %% of the sum from SQL to result\n", best.ms, 100 * best.ms / whole_ms);
    say_launches(gpu, best.counts.kernels, best.ms);
    say_woven(gpu, &best.counts);
    say(bench, "\n");
    crowd_free(&crowd);
}

void part_shapes(GpuBench *gpu)
{
    say(&gpu->bench, "## Resident, %d queries of one shape that group; best of %d alone, of %d at once\n\n", N_SHAPE,
        gpu->bench.options.repeats, ONCE_ROUNDS * gpu->bench.options.repeats);
    for (int s = 0; s < COUNT(SHAPES); s++)
        time_shape(gpu, SHAPES[s].what, SHAPES[s].query);
}
