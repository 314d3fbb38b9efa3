// The generic kernel: it reads its work from a program (generic_args.h) instead of being compiled for it.
//
// For a shape that comes for the first time, so that no query waits for a compiler.  Written in the words of both
// dialects; what has no word is a macro here.  It is the body of a kernel, since a dialect's functions are not to be
// had for both.  All threads are at the same operation, so there is no divergence but that of rows.

#ifdef __CUDACC__
#define EVERY_                     _Pragma("unroll") for (u32 i = 0; i < ITEMS; i++)
#define ALL_ROWS_(live)
#define BITS_(f)                   __double_as_longlong(f)
#define F64_(bits)                 __longlong_as_double(bits)
#define REGISTERS_(name)           i64 name[REGISTERS_MOST][ITEMS];
// Operations are 16 bytes, read at once.
#define LOCAL_                     __shared__ uint4 ops_[OPS_MOST];                                                    \
    _Pragma("unroll 1") for (u32 o_ = threadIdx.x; o_ < n_ops + n_ends; o_ += blockDim.x)                              \
        ops_[o_] = __ldg((const uint4 *)all_ops + o_);                                                                 \
    __syncthreads();
#define OP_(op, o)                 const uint4 w_ = ops_[o];                                                           \
    const KernelOp op = { (u8)w_.x, (u8)(w_.x >> 8), (u16)(w_.x >> 16), (u16)w_.y, (u16)(w_.y >> 16), (i32)w_.z,       \
                          (i32)w_.w };
#define NONE_LEFT_(live)           (!__any_sync(WARP_, live))
#define STORED_(type, to, column, plus, live)                                                                          \
    { Values_<type> v_; LOAD_COLUMN_(v_, global_<type>((column).data), false, live)                                    \
      EVERY_ to[i] = (i64)((u64)v_[i] + (u64)(plus)); }
#define STORED_F32_(to, column, live)                                                                                  \
    { Values_<f32> v_; LOAD_COLUMN_(v_, global_<f32>((column).data), false, live) EVERY_ to[i] = BITS_((f64)v_[i]); }
#define NULLS_(to, column, live)                                                                                       \
    { const u32 v_ = LOAD_VALID_((const u8 *)(column).valid, live); EVERY_ to[i] = !(v_ & ITEM_(i)); }
#define ELEMENT_AT_(type, y, at)   ((i64)__ldg(global_<type>(A->tables[y]) + (u64)(at)))
#define BIT_AT_(y, at)             ((i64)(__ldg(global_<u8>(A->tables[y]) + ((u64)(at) >> 3)) >> ((u64)(at) & 7) & 1))
#define SLOTS_(y)                  global_<KernelSlot>(A->tables[y])
// A thread has totals of its own, until the end of its block.
#define TOTALS_(n)                 i64 totals_[TOTALS_MOST]; Note_ notes_[NOTES_MOST];                                 \
    _Pragma("unroll 1") for (u32 e_ = 0; e_ < n; e_++) { OP_(op, n_ops + e_)                                           \
        switch (op.code) {                                                                                             \
            case DO_TOTAL_WIDE: totals_[op.y] = totals_[op.y + 1] = 0; break;                                          \
            case DO_TOTAL_LEAST: totals_[op.y] = least_::start((i64)0); break;                                         \
            case DO_TOTAL_MOST: totals_[op.y] = most_::start((i64)0); break;                                           \
            case DO_TOTAL_LEAST_F64: totals_[op.y] = BITS_(least_::start((f64)0)); break;                              \
            case DO_TOTAL_MOST_F64: totals_[op.y] = BITS_(most_::start((f64)0)); break;                                \
            case DO_NOTE: notes_[op.y] = { 0x7fffffffffffffffll, -0x7fffffffffffffffll - 1, 0 }; break;                \
            default: totals_[op.y] = 0; break; } }
#define TOTALS_END_(n)                                                                                                 \
    _Pragma("unroll 1") for (u32 e_ = 0; e_ < n; e_++) { OP_(op, n_ops + e_)                                           \
        i64 *const cell_ = op.code == DO_NOTE ? 0 : (i64 *)A->state[op.y];                                             \
        switch (op.code) {                                                                                             \
            case DO_TOTAL_WIDE: total_wide_end_({ (u64)totals_[op.y], totals_[op.y + 1] }, cell_,                      \
                                                (i64 *)A->state[op.y + 1]); break;                                     \
            case DO_TOTAL_LEAST: total_end_<least_>(totals_[op.y], cell_); break;                                      \
            case DO_TOTAL_MOST: total_end_<most_>(totals_[op.y], cell_); break;                                        \
            case DO_TOTAL_LEAST_F64: total_end_<least_>(F64_(totals_[op.y]), (f64 *)cell_); break;                     \
            case DO_TOTAL_MOST_F64: total_end_<most_>(F64_(totals_[op.y]), (f64 *)cell_); break;                       \
            case DO_NOTE: notes_end_(A->common->notes, (u32)op.y, notes_[op.y]); break;                                \
            default: total_end_<sum_>(totals_[op.y], cell_); break; } }
#define TOTAL_CELL_(type, name, k) type name = totals_[k];
#define TOTAL_CELL_END_(name, k)   totals_[k] = name;
#define TOTAL_F64_(name, k)        f64 name = F64_(totals_[k]);
#define TOTAL_F64_END_(name, k)    totals_[k] = BITS_(name);
#define ROOM_LATER_                u32 before_ = 0, put_live_ = 0; u64 out_ = 0;
#define ROOM_NOW_(live)            out_ = take_room_<false>(A, ROW_(0), live, before_); put_live_ = live;
#define NOTE_(k, value)            note_(notes_[k], value);
#define NOTE_NULL_(k)              notes_[k].n_nulls++;
#else
#define EVERY_                     for (u32 i = 0; i < live_rows; i++)
#define ALL_ROWS_(live)            for (u32 w_ = 0; w_ < live##_rows; w_++) live[w_] = (u16)w_;
#define BITS_(number)              (((union { f64 f; i64 i; }){ .f = (number) }).i)
#define F64_(bits)                 (((union { i64 i; f64 f; }){ .i = (bits) }).f)
#define REGISTERS_(name)           i64 name[REGISTERS_MOST][TILE];
#define LOCAL_
#define OP_(op, o)                 const KernelOp op = all_ops[o];
#define NONE_LEFT_(live)           (live##_n == 0)
// Of a list of picked rows, or of all.
#define PLACE_(i)                  (A->picked ? A->row_base + A->picked[t_ + (i)] : t_ + (i))
#define STORED_(type, to, column, plus, live)                                                                          \
    { const type *const v_ = (const type *)(column).data;                                                              \
      EACH(live) to[i] = (i64)((u64)v_[PLACE_(i)] + (u64)(plus)); }
#define STORED_F32_(to, column, live)                                                                                  \
    { const f32 *const v_ = (const f32 *)(column).data; EACH(live) to[i] = BITS_((f64)v_[PLACE_(i)]); }
#define NULLS_(to, column, live)                                                                                       \
    { const u64 *const v_ = (column).valid;                                                                            \
      EACH(live) to[i] = v_ && !(v_[PLACE_(i) >> 6] >> (PLACE_(i) & 63) & 1); }
#define ELEMENT_AT_(type, y, at)   ((i64)((const type *)A->tables[y])[(u64)(at)])
#define BIT_AT_(y, at)             ((i64)(((const u8 *)A->tables[y])[(u64)(at) >> 3] >> ((u64)(at) & 7) & 1))
#define SLOTS_(y)                  ((const KernelSlot *)A->tables[y])
#define TOTALS_(n)
#define TOTALS_END_(n)
#define TOTAL_CELL_(type, name, k) type name = *(type *)A->state[k];
#define TOTAL_CELL_END_(name, k)   *(i64 *)A->state[k] = name;
#define TOTAL_F64_(name, k)        f64 name = *(f64 *)A->state[k];
#define TOTAL_F64_END_(name, k)    *(f64 *)A->state[k] = name;
#define ROOM_LATER_                u64 out_ = 0;
#define ROOM_NOW_(live)            out_ = A->room(A, live##_n);
#define NOTE_(k, value)            NOTE(k, value)
#define NOTE_NULL_(k)              NOTE_NULL(k)
#endif
#define IS_MEANT_                  (op.guard == NO_REGISTER || regs[op.guard][i])
#define VALUE_(expression)         EVERY_ value[i] = (i64)(expression); break;
// Arithmetic that can fail: for rows that are left, and only they.
#define CHECKED_(word)             EACH(live) if (IS_MEANT_) { word(r_, value[i], x[i], op.y) value[i] = r_; } break;
#define CELLS_(word, type, from)   { SUMS(type, cells, op.y)                                                           \
                                     EACH(live) if (IS_MEANT_) { word(cells[(u64)regs[op.to][i]], from) } } break;
#define TOTALS_OF_(word)           { TOTAL_CELL_(i64, total, op.y) EACH(live) if (IS_MEANT_) { word(total, value[i]) } \
                                     TOTAL_CELL_END_(total, op.y) } break;
#define TOTALS_OF_F64_(word)       { TOTAL_F64_(total, op.y)                                                           \
                                     EACH(live) if (IS_MEANT_) { word(total, F64_(value[i])) }                         \
                                     TOTAL_F64_END_(total, op.y) } break;
#define ELEMENTS_(found)           EACH(live) value[i] = IS_MEANT_ ? (found) : 0; break;
#define PROBE_(found)              EACH(live) value[i] = found; break;
#define FLOATS_(operator)          EVERY_ value[i] = BITS_(F64_(value[i]) operator F64_(x[i])); break;
#define COMPARE_F64_(operator)     VALUE_(F64_(value[i]) operator F64_(x[i]))

    const KernelProgram *const program = (const KernelProgram *)A->common->program;
    const KernelOp *const      all_ops = (const KernelOp *)(program + 1);
    const u32                  n_ops = program->n_ops, n_ends = program->n_ends, puts_rows = program->puts_rows;
    LOCAL_
    TOTALS_(n_ends)
    TILES {
        ROWS(live)
        ALL_ROWS_(live)
        CARRY(i64, value)
        CARRY(i64, x)
        REGISTERS_(regs)
        ROOM_LATER_
        for (u32 o = 0; o < n_ops; o++) {
            OP_(op, o)
            switch (op.from) {
                case FROM_NUMBER: EVERY_ x[i] = op.x; break;
                case FROM_PARAM: { const i64 param = A->params[op.at]; EVERY_ x[i] = param; } break;
                case FROM_REGISTER: EVERY_ x[i] = regs[op.at][i]; break;
                case FROM_STORED:
                case FROM_VALUE: {
                    const KernelColumn column = A->columns[op.at];
                    const i64          plus = op.from == FROM_VALUE ? column.base : 0;
                    switch (column.width) {
                        case 1: STORED_(u8, x, column, plus, live) break;
                        case 2: STORED_(u16, x, column, plus, live) break;
                        case 4: STORED_(u32, x, column, plus, live) break;
                        default: STORED_(u64, x, column, plus, live) break;
                    }
                } break;
                case FROM_F32: { const KernelColumn column = A->columns[op.at]; STORED_F32_(x, column, live) } break;
                case FROM_NULL: { const KernelColumn column = A->columns[op.at]; NULLS_(x, column, live) } break;
                default: break;
            }
            switch (op.code) {
                case DO_LOAD: VALUE_(x[i])
                case DO_ADD: VALUE_((u64)value[i] + (u64)x[i])
                case DO_SUB: VALUE_((u64)value[i] - (u64)x[i])
                case DO_SUB_FROM: VALUE_((u64)x[i] - (u64)value[i])
                case DO_MUL: VALUE_((u64)value[i] * (u64)x[i])
                case DO_AND: VALUE_(value[i] & x[i])
                case DO_OR: VALUE_(value[i] | x[i])
                case DO_SHL: VALUE_((u64)value[i] << (x[i] & 63))
                case DO_SHR: VALUE_((u64)value[i] >> (x[i] & 63))
                case DO_SIGN_32: VALUE_((i32)value[i])
                case DO_EQ: VALUE_(value[i] == x[i])
                case DO_NE: VALUE_(value[i] != x[i])
                case DO_LT: VALUE_(value[i] < x[i])
                case DO_LE: VALUE_(value[i] <= x[i])
                case DO_GT: VALUE_(value[i] > x[i])
                case DO_GE: VALUE_(value[i] >= x[i])
                case DO_LT_U64: VALUE_((u64)value[i] < (u64)x[i])
                case DO_LE_U64: VALUE_((u64)value[i] <= (u64)x[i])
                case DO_GT_U64: VALUE_((u64)value[i] > (u64)x[i])
                case DO_GE_U64: VALUE_((u64)value[i] >= (u64)x[i])
                case DO_SELECT: VALUE_(regs[op.guard][i] ? value[i] : x[i])
                case DO_TO_F64: VALUE_(BITS_((f64)value[i]))
                case DO_TO_F32: VALUE_(BITS_((f64)(f32)F64_(value[i])))
                case DO_ADD_F64: FLOATS_(+)
                case DO_SUB_F64: FLOATS_(-)
                case DO_SUB_FROM_F64: EVERY_ value[i] = BITS_(F64_(x[i]) - F64_(value[i])); break;
                case DO_MUL_F64: FLOATS_(*)
                case DO_DIV_F64: FLOATS_(/)
                case DO_EQ_F64: COMPARE_F64_(==)
                case DO_NE_F64: COMPARE_F64_(!=)
                case DO_LT_F64: COMPARE_F64_(<)
                case DO_LE_F64: COMPARE_F64_(<=)
                case DO_GT_F64: COMPARE_F64_(>)
                case DO_GE_F64: COMPARE_F64_(>=)
                case DO_SAME_F64: VALUE_(SAME_F64(F64_(value[i]), F64_(x[i])))
                case DO_LESS_F64: VALUE_(LESS_F64(F64_(value[i]), F64_(x[i])))
                case DO_MORE_F64: VALUE_(LESS_F64(F64_(x[i]), F64_(value[i])))
                case DO_FINITE: VALUE_(FINITE(F64_(value[i])))
                case DO_KEY_F64: EVERY_ { F64_BITS(key, F64_(value[i])) value[i] = (i64)key; } break;
                case DO_PART:
                    EVERY_ {
                        f64       rest = F64_(value[i]);
                        const f64 radix = F64_(x[i]);
                        PART(part, rest, radix)
                        regs[op.to][i] = BITS_(rest), value[i] = part;
                    }
                    break;
                case DO_TABLE:
                    switch (op.x) {
                        case ELEMENT_BIT: ELEMENTS_(BIT_AT_(op.y, value[i]))
                        case ELEMENT_U8: ELEMENTS_(ELEMENT_AT_(u8, op.y, value[i]))
                        case ELEMENT_U16: ELEMENTS_(ELEMENT_AT_(u16, op.y, value[i]))
                        case ELEMENT_U32: ELEMENTS_(ELEMENT_AT_(u32, op.y, value[i]))
                        case ELEMENT_I32: ELEMENTS_(ELEMENT_AT_(i32, op.y, value[i]))
                        default: ELEMENTS_(ELEMENT_AT_(u64, op.y, value[i]))
                    }
                    break;
                case DO_FIND:
                    EACH(live) {
                        u32       row = 0;
                        const u64 key = (u64)value[i], mask = (u64)x[i];
                        if (IS_MEANT_) FIND(row, SLOTS_(op.y), mask, key, 1)
                        value[i] = row;
                    }
                    break;
                case DO_ONE_OF:
                    EACH(live) if (IS_MEANT_) {
                        const i64 *const constants = (const i64 *)A->tables[op.y];
                        ONE_OF(is_one, value[i], constants, x[i])
                        value[i] = is_one;
                    }
                    break;
                case DO_ADD_CHECKED: CHECKED_(ADD_CHECKED)
                case DO_SUB_CHECKED: CHECKED_(SUB_CHECKED)
                case DO_MUL_CHECKED: CHECKED_(MUL_CHECKED)
                case DO_DIV_CHECKED: CHECKED_(DIV_CHECKED)
                case DO_MOD_CHECKED: CHECKED_(MOD_CHECKED)
                case DO_DIV_F64_CHECKED:
                    EACH(live) if (IS_MEANT_) {
                        DIV_F64_CHECKED(quotient, F64_(value[i]), F64_(x[i]), op.y)
                        value[i] = BITS_(quotient);
                    }
                    break;
                case DO_CHECK: EACH(live) if (IS_MEANT_) CHECK(value[i], op.y) break;
                case DO_ROUND_DIV: EACH(live) { ROUND_DIV(r_, value[i], x[i]) value[i] = r_; } break;
                case DO_KEEP: FILTER(live) { KEEP(live, value[i]); } break;
                case DO_BETWEEN: {
                    const u64 all = ~0ull >> (64 - op.guard), low = (u64)A->params[op.x],
                              span = (u64)A->params[op.y] & all;
                    FILTER(live) { KEEP(live, (((u64)x[i] - low) & all) <= span); }
                } break;
                case DO_PROBE: {
                    const i64 from = A->params[op.x];
                    EVERY_ x[i] = (i64)((u64)x[i] + (u64)from);
                    switch (op.guard) {
                        case ELEMENT_BIT: PROBE_(BIT_AT_(op.y, x[i]))
                        case ELEMENT_U8: PROBE_(ELEMENT_AT_(u8, op.y, x[i]))
                        case ELEMENT_U16: PROBE_(ELEMENT_AT_(u16, op.y, x[i]))
                        case ELEMENT_U32: PROBE_(ELEMENT_AT_(u32, op.y, x[i]))
                        default: PROBE_(ELEMENT_AT_(u64, op.y, x[i]))
                    }
                    FILTER(live) { KEEP(live, value[i]); }
                    EVERY_ value[i]--;
                } break;
                case DO_STEP: STEP(op.y, live) break;
                case DO_GROUP:
                    EACH(live) {
                        u32       group = 0;
                        const u64 key = (u64)value[i];
                        GROUP(group, key, 0, 1)
                        value[i] = group;
                    }
                    break;
                case DO_SUM: CELLS_(ADD, i64, value[i])
                case DO_SUM_WIDE: {
                    SUMS(i64, low, op.y)
                    SUMS(i64, high, op.y + 1)
                    EACH(live) if (IS_MEANT_) {
                        const u64 group = (u64)regs[op.to][i];
                        ADD_WIDE(low[group], high[group], value[i])
                    }
                } break;
                case DO_LEAST: CELLS_(LEAST, i64, value[i])
                case DO_MOST: CELLS_(MOST, i64, value[i])
                case DO_LEAST_F64: CELLS_(LEAST_F64, f64, F64_(value[i]))
                case DO_MOST_F64: CELLS_(MOST_F64, f64, F64_(value[i]))
                case DO_SEEN: { SUMS(u8, cells, op.y) EACH(live) { SEEN(cells[(u64)regs[op.to][i]]) } } break;
                case DO_TOTAL: TOTALS_OF_(ADD)
                case DO_TOTAL_WIDE: {
                    TOTAL_CELL_(i64, low, op.y)
                    TOTAL_CELL_(i64, high, op.y + 1)
                    EACH(live) if (IS_MEANT_) { ADD_WIDE(low, high, value[i]) }
                    TOTAL_CELL_END_(low, op.y)
                    TOTAL_CELL_END_(high, op.y + 1)
                } break;
                case DO_TOTAL_LEAST: TOTALS_OF_(LEAST)
                case DO_TOTAL_MOST: TOTALS_OF_(MOST)
                case DO_TOTAL_LEAST_F64: TOTALS_OF_F64_(LEAST_F64)
                case DO_TOTAL_MOST_F64: TOTALS_OF_F64_(MOST_F64)
                case DO_TOTAL_ROWS: {
                    TOTAL_CELL_(i64, total, op.y)
                    TOTAL_ROWS(total, live)
                    TOTAL_CELL_END_(total, op.y)
                } break;
                case DO_ROOM: ROOM_NOW_(live) break;
                case DO_PUT: { OUT(i64, to, op.y) EACH(live) { PUT(to, value[i]) } } break;
                case DO_PUT_FLAG: { OUT(u8, to, op.y) EACH(live) { PUT(to, (u8)value[i]) } } break;
                case DO_NOTE: EACH(live) if (IS_MEANT_) { NOTE_(op.y, value[i]) } break;
                case DO_NOTE_NULL: EACH(live) if (IS_MEANT_) { NOTE_NULL_(op.y) } break;
                case DO_MARK: EACH(live) if (IS_MEANT_) { MARK(op.y, value[i]) } break;
                default: break;
            }
            if (op.to != NO_REGISTER && op.code < DO_KEEP && op.code != DO_PART) EVERY_ regs[op.to][i] = value[i];
            if (op.to != NO_REGISTER && (op.code == DO_PROBE || op.code == DO_GROUP))
                EVERY_ regs[op.to][i] = value[i];
            // Of rows a block takes room together, so all its warps go on.
            if (op.code >= DO_KEEP && op.code <= DO_PROBE && !puts_rows && NONE_LEFT_(live)) break;
        }
    }
    TOTALS_END_(n_ends)
