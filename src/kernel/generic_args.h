// generic_args.h - a kernel as a list of operations: what jit/generic.c writes and the generic kernel (generic.h)
// reads.
//
// There is one value at hand for each row, the result of the operation before.  An operation has at most one operand
// besides.  Other values wait in registers.

#ifndef WEFT_KERNEL_GENERIC_ARGS_H
#define WEFT_KERNEL_GENERIC_ARGS_H

enum {
    OPS_MOST = 192,                    // of a program, its ends counted in
    REGISTERS_MOST = 16,
    TOTALS_MOST = 24,                  // state slots of totals
    NOTES_MOST = 12,                   // output columns of which something is noted
    NO_REGISTER = 0xffff,
    GENERIC_ITEMS = 4,                 // rows of a thread
    GENERIC_THREADS = 1024             // of a block, at most: so a thread has 64 registers
};

enum {                                 // the operand
    FROM_NOTHING,
    FROM_NUMBER,                       // KernelOp.x
    FROM_PARAM,
    FROM_REGISTER,
    FROM_STORED,                       // of a column, as it is stored: without its base
    FROM_VALUE,                        // with it
    FROM_F32,                          // of a column of 4 bytes, as a double
    FROM_NULL                          // of a column: 1 where it is NULL
};

enum { ELEMENT_BIT, ELEMENT_U8, ELEMENT_U16, ELEMENT_U32, ELEMENT_I32, ELEMENT_U64 };       // of a table

enum {                                 // VALUE: what is at hand
    DO_LOAD,                           // the operand becomes the value
    DO_ADD, DO_SUB, DO_SUB_FROM,       // 64 bits, and wraps; from: operand - value
    DO_MUL, DO_AND, DO_OR, DO_SHL, DO_SHR,
    DO_SIGN_32,                        // to 32 bits with a sign
    DO_EQ, DO_NE, DO_LT, DO_LE, DO_GT, DO_GE,
    DO_LT_U64, DO_LE_U64, DO_GT_U64, DO_GE_U64,
    DO_SELECT,                         // the operand, where the guard is 0
    DO_TO_F64, DO_TO_F32,              // from an integer; rounded to 4 bytes
    DO_ADD_F64, DO_SUB_F64, DO_SUB_FROM_F64, DO_MUL_F64, DO_DIV_F64,
    DO_EQ_F64, DO_NE_F64, DO_LT_F64, DO_LE_F64, DO_GT_F64, DO_GE_F64,
    DO_SAME_F64, DO_LESS_F64, DO_MORE_F64, DO_FINITE, DO_KEY_F64,
    DO_PART,                           // the value is what is left; TO gets what is left then, the operand is the radix
    // Tables: y.  The value is the place, or the key.
    DO_TABLE,                          // x: ELEMENT_...
    DO_FIND,                           // the operand is the mask
    DO_ONE_OF,                         // the operand: how many
    // Checks: y.
    DO_ADD_CHECKED, DO_SUB_CHECKED, DO_MUL_CHECKED, DO_DIV_CHECKED, DO_MOD_CHECKED, DO_DIV_F64_CHECKED, DO_CHECK,
    DO_ROUND_DIV,
    // Rows
    DO_KEEP,                           // where the value is not 0
    DO_BETWEEN,                        // where the operand is: x, y: parameters low and span; guard: bits of the type
    DO_PROBE,                          // where the operand + parameter x has an entry in table y; guard: ELEMENT_...;
                                       // TO gets the entry less 1
    DO_STEP,                           // y: count
    // Of a CPU's programs only: the next y operations are tests that a sieve's rows have passed; what DO_PROBE gives
    // TO, by itself, of rows that all tests have left.
    DO_UNSURE, DO_PAYLOAD,
    // Sinks: y is the state slot.  Of groups, TO is the register with the group's number.
    DO_GROUP,                          // of a hash table: the value is the key, and becomes the group
    DO_SUM, DO_SUM_WIDE, DO_LEAST, DO_MOST, DO_LEAST_F64, DO_MOST_F64, DO_SEEN,
    DO_TOTAL, DO_TOTAL_WIDE, DO_TOTAL_LEAST, DO_TOTAL_MOST, DO_TOTAL_LEAST_F64, DO_TOTAL_MOST_F64, DO_TOTAL_ROWS,
    DO_ROOM, DO_PUT, DO_PUT_FLAG,
    DO_NOTE, DO_NOTE_NULL, DO_MARK     // y: output
};

typedef struct KernelOp {
    u8  code, from;                    // DO_..., FROM_...
    u16 at;                            // parameter, register or column of the operand
    u16 to;                            // register that gets the result, too
    u16 guard;                         // register: rows in which it is 0 look nothing up, fail nothing, add nothing
    i32 x, y;
} KernelOp;

typedef struct KernelProgram {         // operations follow: n_ops for each tile, then n_ends for the end of a block
    u32 n_ops, n_ends;
    u32 puts_rows;                     // it ends in rows
    u32 spare;
} KernelProgram;

#endif
