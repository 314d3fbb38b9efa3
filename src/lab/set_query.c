// set_query.c - see set_query.h.

#include "lab/set_query.h"

const SetQueryColumn set_query_columns[SET_QUERY_COLUMNS] = {
    { "kseq", 0 },    { "k500k", 500000 }, { "k250k", 250000 }, { "k100k", 100000 }, { "k40k", 40000 },
    { "k10k", 10000 }, { "k1k", 1000 },    { "k100", 100 },     { "k25", 25 },       { "k10", 10 },
    { "k5", 5 },      { "k4", 4 },         { "k2", 2 },
};

int set_query_column(const char *name)
{
    for (int i = 0; i < SET_QUERY_COLUMNS; i++)
        if (!strcmp(set_query_columns[i].name, name))
            return i;
    return -1;
}

// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
static u64 mix(u64 x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

i32 set_query_value(u64 seed, u64 row, int column)
{
    const u32 n_values = set_query_columns[column].n_values;
    if (!n_values)
        return (i32)row + 1;
    const u64 key = mix(seed * 0x9E3779B97F4A7C15u + row);
    return 1 + (i32)((mix(key + (u64)(column + 1) * 0x9E3779B97F4A7C15u) >> 32) * n_values >> 32);
}

extern const char set_query_q1_text[], set_query_q2a_text[], set_query_q2b_text[], set_query_q3a_text[],
    set_query_q3b_text[], set_query_q4a_text[], set_query_q4b_text[];

const SetQuerySql set_query_sqls[SET_QUERY_SQLS] = {
    { "Q1", set_query_q1_text },     { "Q2-A", set_query_q2a_text }, { "Q2-B", set_query_q2b_text },
    { "Q3-A", set_query_q3a_text },  { "Q3-B", set_query_q3b_text }, { "Q4-A", set_query_q4a_text },
    { "Q4-B", set_query_q4b_text },
};
