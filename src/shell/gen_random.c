// gen_random.c - the seeds of TPC-H's random numbers, and how to enter a stream at any row.
//
// Seeds and draws per row are those of TPC's generator (dbgen 2.14): with them, and only them, the rows are the ones
// that everybody has.

#include "shell/gen_tpch_int.h"

static const struct { u32 seed; int n_draws; } stream_rules[STREAM_N] = {     // draws of a row
    [STREAM_P_NAME] = { 709314158, 92 },
    [STREAM_P_MFGR] = { 1, 1 },
    [STREAM_P_BRAND] = { 46831694, 1 },
    [STREAM_P_TYPE] = { 1841581359, 1 },
    [STREAM_P_SIZE] = { 1193163244, 1 },
    [STREAM_P_CONTAINER] = { 727633698, 1 },
    [STREAM_P_COMMENT] = { 804159733, 2 },
    [STREAM_PS_QUANTITY] = { 1671059989, TPCH_SUPPLIERS },
    [STREAM_PS_COST] = { 1051288424, TPCH_SUPPLIERS },
    [STREAM_PS_COMMENT] = { 1961692154, TPCH_SUPPLIERS * 2 },
    [STREAM_S_ADDRESS] = { 706178559, 9 },
    [STREAM_S_NATION] = { 110356601, 1 },
    [STREAM_S_PHONE] = { 884434366, 3 },
    [STREAM_S_BALANCE] = { 962338209, 1 },
    [STREAM_S_COMMENT] = { 1341315363, 2 },
    [STREAM_S_PRESS] = { 202794285, 1 },
    [STREAM_S_PRESS_KIND] = { 753643799, 1 },
    [STREAM_S_PRESS_GAP] = { 263032577, 1 },
    [STREAM_S_PRESS_PLACE] = { 715851524, 1 },
    [STREAM_C_ADDRESS] = { 881155353, 9 },
    [STREAM_C_NATION] = { 1489529863, 1 },
    [STREAM_C_PHONE] = { 1521138112, 3 },
    [STREAM_C_BALANCE] = { 298370230, 1 },
    [STREAM_C_SEGMENT] = { 1140279430, 1 },
    [STREAM_C_COMMENT] = { 1335826707, 2 },
    [STREAM_O_CUSTOMER] = { 851767375, 1 },
    [STREAM_O_PRIORITY] = { 591449447, 1 },
    [STREAM_O_CLERK] = { 1171034773, 1 },
    [STREAM_O_COMMENT] = { 276090261, 2 },
    [STREAM_O_DATE] = { 1066728069, 1 },
    [STREAM_O_LINES] = { 1434868289, 1 },
    [STREAM_L_QUANTITY] = { 209208115, TPCH_LINES_MAX },
    [STREAM_L_DISCOUNT] = { 554590007, TPCH_LINES_MAX },
    [STREAM_L_TAX] = { 721958466, TPCH_LINES_MAX },
    [STREAM_L_PART] = { 1808217256, TPCH_LINES_MAX },
    [STREAM_L_SHIP_DATE] = { 1769349045, TPCH_LINES_MAX },
    [STREAM_L_SUPPLIER] = { 2095021727, TPCH_LINES_MAX },
    [STREAM_L_COMMIT_DATE] = { 904914315, TPCH_LINES_MAX },
    [STREAM_L_RECEIPT_DATE] = { 373135028, TPCH_LINES_MAX },
    [STREAM_L_RETURN_FLAG] = { 717419739, TPCH_LINES_MAX },
    [STREAM_L_INSTRUCTION] = { 1371272478, TPCH_LINES_MAX },
    [STREAM_L_MODE] = { 675466456, TPCH_LINES_MAX },
    [STREAM_L_COMMENT] = { 1095462486, TPCH_LINES_MAX * 2 },
    [STREAM_N_COMMENT] = { 606179079, 2 },
    [STREAM_R_COMMENT] = { 1500869201, 2 },
    [STREAM_TEXT] = { 933588178, 1 },
};

// BASE to the power of EXPONENT, by squaring.
static u32 stream_power(u32 base, u64 exponent)
{
    u32 result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = stream_times(result, base);
        base = stream_times(base, base);
    }
    return result;
}

void streams_enter(RandomStream *streams, StreamName first, StreamName last, u64 row)
{
    for (int i = first; i <= (int)last; i++) {
        u32 factor = stream_power(STREAM_FACTOR, (u64)stream_rules[i].n_draws);
        u32 value = stream_times(stream_rules[i].seed, stream_power(factor, row));
        streams[i] = (RandomStream){ .value = value, .row_value = value, .row_factor = factor };
    }
}
