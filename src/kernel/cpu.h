// cpu.h - the words of tile C on the CPU.  Put before every kernel text, after args.h.
//
// A tile is TILE rows.  Its live rows are a mask of bytes while nearly all are live (TEST: loops that vectorise), and a
// selection of row numbers once some are gone (FILTER, EACH).  PICK goes from the first to the second.  In every row
// block `i` is the row within the tile.  A loaded column is a pointer into the chunk, so a late load costs nothing
// until used; where few rows are left, it asks for theirs.  Written for gcc, clang and tcc: tcc inlines no function, so
// words are macros.

#define KERNEL(name) void name(KernelArgs *A)

// ---- parameters, tables, columns: declared once, before TILES ------------------------------------------------------
#define PARAM(type, name, k)       const type name = (type)A->params[k];
#define PARAM_F64(name, k)         union { i64 bits; f64 value; } name##_u; name##_u.bits = A->params[k];              \
                                   const f64 name = name##_u.value;
#define TABLE(type, name, k)       const type *const name = (const type *)A->tables[k];
#define COLUMN(type, name, k)      const type *const name##_all = (const type *)A->columns[k].data;                    \
                                   const i64 name##_base = A->columns[k].base;
#define COLUMN_ANY(name, k)        const KernelColumn *const name##_col = &A->columns[k];
#define NULLS(name, k)             const u64 *const name##_valid_all = A->columns[k].valid;

// Several queries in one kernel: A names the one whose lines follow (see weave/fuse.c).
#define MEMBER(name, k)            KernelArgs *const name = A->members[k];

// ---- tiles and their rows -------------------------------------------------------------------------------------------
#define TILES                      for (u32 t_ = A->row_first; t_ < A->row_end; t_ += TILE)
#define ROWS(live)                 u32 live##_rows = A->row_end - t_ < TILE ? A->row_end - t_ : TILE,                  \
                                   live##_n = live##_rows, live##_in;                                                  \
                                   u16 live[TILE + 8]; (void)live##_in; (void)live; (void)live##_n;
#define MASK(live)                 u8 live##_mask[TILE + 8];
// The selection once more, under another name: it is narrowed for one of several queries.
#define COPY_ROWS(live, own)       u32 own##_rows = live##_rows, own##_n = live##_n, own##_in; u16 own[TILE + 8];      \
                                   (void)own##_in; (void)own##_rows;                                                   \
                                   for (u32 w_ = 0; w_ < own##_n; w_++) own[w_] = live[w_];

// A GPU goes through a chunk for several queries although one of them does not want it.
#define MEMBER_ROWS(live)

// Where few rows are left, each is a miss of the caches, and a row's steps wait for it: so all of them are asked for at
// once, before the first is needed.
#ifdef __TINYC__
#define FETCH_(type, name, live)   if (live##_n * FETCH_LINE < live##_rows * sizeof(type))                             \
                                       A->words->fetch(name, sizeof(type), live, live##_n);
#else
#define FETCH_(type, name, live)   if (live##_n * FETCH_LINE < live##_rows * sizeof(type))                             \
                                       for (u32 w_ = 0; w_ < live##_n; w_++) __builtin_prefetch(name + live[w_]);
#endif
#define LOAD(type, name, live)     const type *const name = name##_all + t_; FETCH_(type, name, live)
// The same in a kernel that can be handed a list of rows (several queries have sieved the chunk together): they are
// gathered.
#ifdef __TINYC__
#define GATHER_(type, name, live)  A->words->gather[sizeof(type)](name##_picked, name##_all + A->row_base,             \
                                   A->picked + t_, live##_rows);
#else
#define GATHER_(type, name, live)  for (u32 w_ = 0; w_ < live##_rows; w_++)                                            \
                                       name##_picked[w_] = name##_all[A->row_base + A->picked[t_ + w_]];
#endif
#define LOAD_ROWS(type, name, live) type name##_picked[TILE]; const type *name = name##_all + t_;                      \
                                    if (A->picked) { GATHER_(type, name, live) name = name##_picked; }                 \
                                    else { FETCH_(type, name, live) }
// A column that only such tests look at: not gathered when they are skipped.
#define LOAD_TEST(type, name, live) type name##_picked[TILE]; const type *name = name##_all + t_;                      \
                                    if (A->picked && !A->sure) { GATHER_(type, name, live) name = name##_picked; }     \
                                    else if (!A->picked) { FETCH_(type, name, live) }
#define UNSURE                     if (!A->sure)
#define PICK_UNSURE(live)          if (A->sure) { for (u32 w_ = 0; w_ < live##_rows; w_++) live[w_] = (u16)w_;         \
                                   live##_n = live##_rows; } else PICK(live)
#define LOAD_NULLS(name, live)     const u64 *const name##_valid = name##_valid_all ? name##_valid_all + (t_ >> 6) : 0;
#define IS_NULL(name)              (name##_valid && !(name##_valid[i >> 6] >> (i & 63) & 1))
#define VALUE(name)                (name##_base + (i64)name[i])
// Where chunks store a column in different widths, the tile is widened first.
#define WIDEN_(type, name)         for (u32 w_ = 0; w_ < name##_rows_; w_++)                                           \
                                       name[w_] = name##_col->base + (i64)((const type *)name##_col->data)[t_ + w_];
#define LOAD_ANY(name, live)       i64 name[TILE]; { const u32 name##_rows_ = live##_rows;                             \
                                   switch (name##_col->width) {                                                        \
                                       case 1: WIDEN_(u8, name) break; case 2: WIDEN_(u16, name) break;                \
                                       case 4: WIDEN_(u32, name) break; default: WIDEN_(u64, name) break; } }

#define EACH_ROW(live)             for (u32 k_ = 0, i = 0; i < live##_rows; i = ++k_)
#define EACH(live)                 for (u32 k_ = 0, i = live[0]; k_ < live##_n; i = live[++k_])

// Dense tests: TEST(live) { PASS(live, condition); }   the first one sets the mask, later ones (PASS_ALSO) narrow it.
#ifdef __TINYC__
#define UNROLL_
#elif defined(__clang__)
#define UNROLL_                    _Pragma("clang loop unroll_count(8)")
#else
#define UNROLL_                    _Pragma("GCC unroll 8")
#endif
#define TEST(live)                 UNROLL_ for (u32 i = 0; i < live##_rows; i++)
#define PASS(live, condition)      live##_mask[i] = (u8)((condition) != 0)
#define PASS_ALSO(live, condition) live##_mask[i] &= (u8)((condition) != 0)
#define BETWEEN(type, stored, low, span) ((type)((stored) - (low)) <= (span))

// From mask to selection, eight rows at a time: their mask is one byte, which finds the numbers of the live ones in a
// table.
#ifndef __TINYC__
typedef u16 eight_rows_ __attribute__((vector_size(16), aligned(2), may_alias));
#endif
#define PICK_(live, n, mask, n_rows, picks)                                                                            \
    { u32 m_ = 0; for (u32 b_ = (n_rows); b_ & 7; b_++) (mask)[b_] = 0;                                                \
      for (u32 b_ = 0; b_ < (n_rows); b_ += 8) {                                                                       \
          u64 eight_; __builtin_memcpy(&eight_, (mask) + b_, 8);                                                       \
          const u64 which_ = (eight_ * 0x0102040810204080ull) >> 56;                                                   \
          *(eight_rows_ *)((live) + m_) = *(const eight_rows_ *)((picks) + 8 * which_) + (u16)b_;                      \
          m_ += (u32)((eight_ * 0x0101010101010101ull) >> 56);                                                         \
      } n = m_; }

// The common tests on one stored column, as words of their own: readable, and for tcc a call of code compiled
// beforehand.
//   BETWEEN_       low <= stored <= low + span           FLAG_ BIT_       the key's byte or bit in a table is set
//   LOOKUP_        the key's payload in a table is not 0; it is carried, less 1
// TEST goes over all rows into the mask; FILTER narrows the selection.
#define BETWEEN_LOOP_(mask, type, column, low, span, n_rows, assign)                                                   \
    UNROLL_ for (u32 i = 0; i < (n_rows); i++) (mask)[i] assign BETWEEN(type, (column)[i], low, span);
#define TEST_LOOP_(mask, n_rows, hit)  UNROLL_ for (u32 i = 0; i < (n_rows); i++) (mask)[i] = (u8)(hit);
#define FILTER_LOOP_(live, n, hit)                                                                                     \
    { const u32 in_ = n; n = 0; for (u32 k_ = 0; k_ < in_; k_++) { const u32 i = (live)[k_]; (live)[n] = (u16)i;       \
      n += (hit); } }
#define TEST_LOOKUP_LOOP_(mask, carried, ptype, column, from, table, n_rows)                                           \
    UNROLL_ for (u32 i = 0; i < (n_rows); i++) { const ptype f_ = (table)[(column)[i] + (from)];                       \
    (carried)[i] = (ptype)(f_ - 1); (mask)[i] = f_ != 0; }
#define FILTER_LOOKUP_LOOP_(live, n, carried, ptype, column, from, table)                                              \
    { const u32 in_ = n; n = 0; for (u32 k_ = 0; k_ < in_; k_++) { const u32 i = (live)[k_];                           \
      const ptype f_ = (table)[(column)[i] + (from)];                                                                  \
                                     (carried)[i] = (ptype)(f_ - 1); (live)[n] = (u16)i; n += f_ != 0; } }
#define BETWEEN_FILTER(live, type, column, low, span)                                                                  \
    FILTER_LOOP_(live, live##_n, BETWEEN(type, (column)[i], low, span))
#ifdef __TINYC__
#define PICK(live)                                                                                                     \
    { live##_n = A->words->pick(live, live##_mask, live##_rows, A->picks); }
#define BETWEEN_TEST(live, type, column, low, span)                                                                    \
    A->words->between[sizeof(type)](live##_mask, column, low, span, live##_rows, 0);
#define BETWEEN_TEST_ALSO(live, type, column, low, span)                                                               \
    A->words->between[sizeof(type)](live##_mask, column, low, span, live##_rows, 1);
#define FLAG_TEST(live, type, column, from, table)                                                                     \
    A->words->test_flag[sizeof(type)](live##_mask, column, from, table, live##_rows);
#define FLAG_FILTER(live, type, column, from, table)                                                                   \
    live##_n = A->words->filter_flag[sizeof(type)](live, live##_n, column, from, table);
#define BIT_TEST(live, type, column, from, table)                                                                      \
    A->words->test_bit[sizeof(type)](live##_mask, column, from, table, live##_rows);
#define BIT_FILTER(live, type, column, from, table)                                                                    \
    live##_n = A->words->filter_bit[sizeof(type)](live, live##_n, column, from, table);
#define LOOKUP_TEST(live, type, column, from, ptype, table, carried)                                                   \
    A->words->test_lookup[sizeof(type)][sizeof(ptype)](live##_mask, carried, column, from, table, live##_rows);
#define LOOKUP_FILTER(live, type, column, from, ptype, table, carried)                                                 \
    live##_n = A->words->filter_lookup[sizeof(type)][sizeof(ptype)](live, live##_n, carried, column, from, table);
#else
#define PICK(live)                                       PICK_(live, live##_n, live##_mask, live##_rows, A->picks)
#define BETWEEN_TEST(live, type, column, low, span)                                                                    \
    BETWEEN_LOOP_(live##_mask, type, column, low, span, live##_rows, =)
#define BETWEEN_TEST_ALSO(live, type, column, low, span)                                                               \
    BETWEEN_LOOP_(live##_mask, type, column, low, span, live##_rows, &=)
#define FLAG_TEST(live, type, column, from, table)                                                                     \
    TEST_LOOP_(live##_mask, live##_rows, FLAG(table, (column)[i] + (from)))
#define FLAG_FILTER(live, type, column, from, table)     FILTER_LOOP_(live, live##_n, FLAG(table, (column)[i] + (from)))
#define BIT_TEST(live, type, column, from, table)                                                                      \
    TEST_LOOP_(live##_mask, live##_rows, BIT(table, (column)[i] + (from)))
#define BIT_FILTER(live, type, column, from, table)      FILTER_LOOP_(live, live##_n, BIT(table, (column)[i] + (from)))
#define LOOKUP_TEST(live, type, column, from, ptype, table, carried)                                                   \
    TEST_LOOKUP_LOOP_(live##_mask, carried, ptype, column, from, table, live##_rows)
#define LOOKUP_FILTER(live, type, column, from, ptype, table, carried)                                                 \
    FILTER_LOOKUP_LOOP_(live, live##_n, carried, ptype, column, from, table)
#endif

// Sparse tests: FILTER(live) { ...; KEEP(live, condition); } keeps the rows that pass.
#define FILTER(live)               live##_in = live##_n; live##_n = 0;                                                 \
                                   for (u32 k_ = 0, i = live[0]; k_ < live##_in; i = live[++k_])
#define KEEP(live, condition)      { live[live##_n] = (u16)i; live##_n += (condition) != 0; }
#define STATE_FILTER(live, at, table, carried)                                                                         \
    FILTER(live) { const u32 e_ = (table)[at]; (carried)[i] = (u16)(e_ - 1); KEEP(live, e_ != 0) }

// Which queries want a row: WHO has a bit for each, in a SET of them.  SIEVE: rows are looked up in a table by value of
// column K, with a LANE of bits for each.  Its parameters are where the table begins, how many values it has, and the
// queries that test it; rows that none of these still wants are not looked up, and where nobody tests it this time the
// column is not even there.  SORT_OUT: for each of N queries a bit per row, in its state slot.
#define SIEVE(live, k, type, lane, set, who)                                                                           \
    { const type *const c_ = (const type *)A->columns[k].data;                                                         \
      const lane *const in_table_ = (const lane *)A->tables[k];                                                        \
      const i64 *const p_ = A->params + SIEVED_COLUMN + 3 * (k); const u32 in_ = live##_n; live##_n = 0;               \
      for (u32 k_ = 0; k_ < in_; k_++) { const u32 i = live[k_];                                                       \
          if ((who)[i] & (set)p_[2]) { const u64 at_ = (u64)c_[t_ + i] + (u64)p_[0];                                   \
          if (INSIDE(at_, p_[1])) (who)[i] &= (set)in_table_[at_]; }                                                   \
          live[live##_n] = (u16)i; live##_n += (who)[i] != 0; } }
#define SORT_OUT(live, lane, set, who, n)                                                                              \
    for (u32 m_ = 0; m_ < (u32)(n); m_++) for (u32 b_ = 0; b_ < live##_rows; b_ += 8) {                                \
        u32 bits_ = 0;                                                                                                 \
        for (u32 i = b_; i < b_ + 8 && i < live##_rows; i++) bits_ |= (u32)((who)[i] >> m_ & 1) << (i - b_);           \
        ((u8 *)A->state[m_])[(t_ + b_) >> 3] = (u8)bits_; }
#define ROW_NUMBER                 (t_ + i)

#define STEP(k, live)              A->counts[k] += live##_n;     // EXPLAIN ANALYZE: rows that left step k
#define STOPPED                    (*(const volatile u32 *)A->cancel || A->failed)

// ---- values that a later step needs: one per row of the tile --------------------------------------------------------
#define CARRY(type, name)          type name[TILE];

// ---- joins ----------------------------------------------------------------------------------------------------------
#define BIT(table, at)             ((table)[(u64)(at) >> 3] >> ((u64)(at) & 7) & 1)
#define FLAG(table, at)            ((table)[at])
#define INSIDE(at, size)           ((u64)(at) < (u64)(size))
// found = row + 1 of the build side whose key is KEY_, or 0.  CONFIRM compares further key words of candidate row c_.
#define FIND(found, slots, mask, key_, confirm)                                                                        \
    { u64 s_ = HASH_SLOT(key_) & (mask); for (;;) { const u32 c_ = (slots)[s_].row; if (!c_) { found = 0; break; }     \
        if ((slots)[s_].key == (key_) && (confirm)) { found = c_; break; } s_ = (s_ + 1) & (mask); } }
// A row with several matches goes through the rest of the kernel once per match: every pass takes the next match of
// each row.
#define MATCHES(live, inner)       for (; live##_n && !STOPPED; ) { u32 inner##_n = live##_n, inner##_in,              \
                                   inner##_rows = live##_rows; u16 inner[TILE + 8];                                    \
                                       (void)inner##_in; (void)inner##_rows;                                           \
                                       for (u32 k_ = 0; k_ < inner##_n; k_++) inner[k_] = live[k_];
#define MATCHES_END(live, row, next) { u32 m_ = 0; for (u32 k_ = 0; k_ < live##_n; k_++) { const u32 i = live[k_];     \
                                       const u32 n_ = (next)[row[i] - 1];                                              \
                                       row[i] = n_; live[m_] = (u16)i; m_ += n_ != 0; } live##_n = m_; } }
// The same where rows without a match go on, too: a pass without a built row (row 0) for those whose chain ends while
// HIT is 0.
#define MATCHES_LEFT_END(live, row, next, hit) { u32 m_ = 0; for (u32 k_ = 0; k_ < live##_n; k_++) { \
                                       const u32 i = live[k_], r_ = row[i], n_ = r_ ? (next)[r_ - 1] : 0; \
                                       row[i] = n_; live[m_] = (u16)i; m_ += n_ || (r_ && !(hit)); } live##_n = m_; } }
// Along the chain of one row, within its block, while MORE.
#define WALK(row, more)            while ((row) && (more) && !STOPPED)

// ---- sinks ----------------------------------------------------------------------------------------------------------
// One accumulator, in a register during the kernel.
#define TOTAL(how, type, name, k)     type name = *(type *)A->state[k];
#define TOTAL_END(how, type, name, k) *(type *)A->state[k] = name;
// 128 bits: two words, two slots.
#define TOTAL_WIDE(low, high, k)      i64 low = *(i64 *)A->state[k], high = *(i64 *)A->state[(k) + 1];
#define TOTAL_WIDE_END(low, high, k)  *(i64 *)A->state[k] = low; *(i64 *)A->state[(k) + 1] = high;
#define SUMS(type, name, k)        type *const name = (type *)A->state[k];             // one accumulator per group
#define ADD(cell, value)           cell += (value);
#define ADD_WIDE(low, high, value) { const i64 v_ = (value); const u64 l_ = (u64)(low) + (u64)v_;                      \
                                     high += (l_ < (u64)v_) - (v_ < 0); low = (i64)l_; }
// Exact sums of floats: a float is cut into integers that are added apart (sink.c says why none overflows).  PART: an
// integer next to REST, which may have 51 bits; what is left becomes REST, in units that are RADIX times smaller.
// Adding 1.5 * 2^52 leaves no bit for a fraction, so the sum's last bits are that integer: vector code everywhere.  tcc
// has none, and casts.
#ifdef __TINYC__
#define PART(part, rest, radix)    const i64 part = (i64)(rest); rest = ((rest) - (f64)part) * (radix);
#else
#define PART(part, rest, radix)    i64 part; { union { f64 f; i64 i; } t_; t_.f = (rest) + 6755399441055744.0;         \
                                   part = t_.i - 0x4338000000000000ll;                                                 \
                                       rest = ((rest) - (t_.f - 6755399441055744.0)) * (radix); }
#endif
// SPREAD: VALUE, in multiples of 2^UNIT, as digits of 2^LOG bits, each added to its own of the N slots from K on.
#define SPREAD_(state, group, value, unit, log, n)                                                                     \
    { union { f64 f; u64 u; } v_; v_.f = (value); u64 d_ = v_.u & 0xfffffffffffffull;                                  \
      i64 at_ = (i64)(v_.u >> 52 & 2047);                                                                              \
      if (at_) d_ |= 0x10000000000000ull; else at_ = 1;                                                                \
      at_ -= 1075 + (unit); if (at_ < 0) { d_ = at_ > -64 ? d_ >> -at_ : 0; at_ = 0; }                                 \
      const u64 bits_ = 1ull << (log), up_ = (u64)at_ & (bits_ - 1), all_ = (1ull << bits_) - 1;                       \
      u64 s_ = (u64)at_ >> (log), digit_ = d_ << up_ & all_;                                                           \
      for (d_ >>= bits_ - up_; s_ < (u64)(n); digit_ = d_ & all_, d_ >>= bits_, s_++) {                                \
          i64 *const cell_ = (i64 *)(state)[s_] + (group);        *cell_ += v_.u >> 63 ? -(i64)digit_ : (i64)digit_;   \
          if (!d_) break; } }
#ifdef __TINYC__
#define SPREAD(k, group, value, unit, log, n)                                                                          \
    A->words->spread(A->state + (k), group, value, unit, (u32)(log), (u32)(n));
#else
#define SPREAD(k, group, value, unit, log, n) SPREAD_(A->state + (k), group, value, unit, log, n)
#endif
#define LEAST(cell, value)         { const i64 v_ = (value); if (v_ < cell) cell = v_; }
#define MOST(cell, value)          { const i64 v_ = (value); if (v_ > cell) cell = v_; }
// Of 128 bits: both words of a cell change together.
#define LEAST_WIDE(cell_high, cell_low, high, low) { const i64 h_ = (high), v_ = (low);                                \
    if (WIDE_LESS(h_, v_, cell_high, cell_low)) { cell_high = h_; cell_low = v_; } }
#define MOST_WIDE(cell_high, cell_low, high, low) { const i64 h_ = (high), v_ = (low);                                 \
    if (WIDE_LESS(cell_high, cell_low, h_, v_)) { cell_high = h_; cell_low = v_; } }
// NaN is the largest number, as in PostgreSQL.
#define LEAST_F64(cell, value)     { const f64 v_ = (value); if (v_ < cell || cell != cell) cell = v_; }
#define MOST_F64(cell, value)      { const f64 v_ = (value); if (v_ > cell || v_ != v_) cell = v_; }
#define TOTAL_ROWS(cell, live)     cell += live##_n;
#define SEEN(cell)                 cell = 1;
// group = number of the group with this key; a new one is made by the host, which may grow the table.
#define GROUP(group, key_, words_, confirm)                                                                            \
    { u64 s_ = HASH_SLOT(key_) & A->groups_mask; for (;;) { const u32 c_ = A->groups[s_].row; if (!c_) {               \
      group = A->insert(A, key_, words_); break; }                                                                     \
        if (A->groups[s_].key == (key_) && (confirm)) { group = c_ - 1; break; } s_ = (s_ + 1) & A->groups_mask; } }

#define ROOM(live)                 const u64 out_ = A->room(A, live##_n);
#define OUT(type, name, k)         type *const name = (type *)A->state[k] + out_;
#define PUT(name, value)           name[k_] = (value);

// ---- join tables made where the rows are: by a GPU ------------------------------------------------------------------
// While rows are put out, the range of a column is noted, its NULLs are counted, and the values that occur are marked.
// The host of a CPU has the rows and looks for itself.
#define NOTES(k)
#define NOTE(k, value)
#define NOTE_NULL(k)
#define MARK(k, value)
#define NOTES_END(k)
// Rows to places (weave/tables.c).  PLACE: WIDTH bytes at this place become CODE.  FRESH: a bit becomes 1; r: it was 0.
#define PLACES(name, k)            u8 *const name = (u8 *)A->state[k];
#define PLACE(name, width, at, code)                                                                                   \
    { const u64 at_ = (at), code_ = (code); switch (width) {                                                           \
        case 1: (name)[at_] = (u8)code_; break; case 2: ((u16 *)(name))[at_] = (u16)code_; break;                      \
        case 4: ((u32 *)(name))[at_] = (u32)code_; break; default: ((u64 *)(name))[at_] = code_; break; } }
#define FRESH(r, name, at)         i64 r; { const u64 at_ = (at); r = !((name)[at_ >> 3] >> (at_ & 7) & 1);            \
                                   (name)[at_ >> 3] |= (u8)(1u << (at_ & 7)); }
// Rows of equal key to a chain.  CHAIN: from a head by key.  CHAIN_HASHED: the first row of a key takes a slot, others
// are chained from its spare word; CONFIRM tells whether row c_ - 1 has the same key.
#define CHAIN(heads, next, at, row_) { const u64 at_ = (at); ((u32 *)(next))[row_] = ((u32 *)(heads))[at_];            \
                                       ((u32 *)(heads))[at_] = (u32)(row_) + 1; }
#define CHAIN_HASHED(table, mask, key_, next, row_, confirm)                                                           \
    { KernelSlot *const slots_ = (KernelSlot *)(table); u64 s_ = HASH_SLOT(key_) & (mask); for (;;) {                  \
      const u32 c_ = slots_[s_].row;                                                                                   \
        if (!c_) { slots_[s_].row = (u32)(row_) + 1; slots_[s_].key = (key_); break; }                                 \
        if (confirm) { ((u32 *)(next))[row_] = slots_[s_].spare; slots_[s_].spare = (u32)(row_) + 1; break; }          \
        s_ = (s_ + 1) & (mask); } }
// PLACE_OF: where the row of this number is from; segments lie in the order of the rows.
#define PLACE_OF(r, segments, n, row_)                                                                                 \
    u64 r; { u64 from_ = 0, last_ = (n) - 1; while (from_ < last_) { const u64 middle_ = (from_ + last_ + 1) / 2;      \
        if ((segments)[middle_].first <= (row_)) from_ = middle_; else last_ = middle_ - 1; }                          \
        r = (segments)[from_].place; }

// ---- a radix sort, a pass at a time (weave/sorting.c) ---------------------------------------------------------------
// A digit is 8 bits of a key.  Each part of a launch has neighbouring rows: it counts their digits, RUN_UP adds up what
// the parts before it have of a digit, and SCATTER puts the rows of a tile, in their order, behind those of their digit
// that came before.  All but DIGIT are words at tile level.
#define DIGIT(key, shift)          ((u32)((key) >> (shift)) & 255u)
#define DIGIT_COUNTS(name)         u32 name[256]; for (u32 d_ = 0; d_ < 256; d_++) name[d_] = 0;
#define COUNT_DIGITS(type, key, shift, name)                                                                           \
    for (u32 r_ = t_; r_ < t_ + TILE && r_ < A->row_end; r_++) name[DIGIT(key##_all[r_], shift)]++;
// To the counts of all parts, those of a digit side by side.
#define DIGIT_COUNTS_END(name, to, n_parts)                                                                            \
    for (u32 d_ = 0; d_ < 256; d_++) ((u32 *)(to))[d_ * (n_parts) + A->place] = name[d_];
// Each of a row of numbers becomes the sum of those before it; TOTAL grows by all.
#define RUN_UP(total, numbers)                                                                                         \
    for (u32 r_ = t_; r_ < t_ + TILE && r_ < A->row_end; r_++) { const u32 number_ = (numbers)[r_];                    \
        (numbers)[r_] = total; total += number_; }
// Where the rows of this part go that have a digit: behind all with a smaller one, and those of the parts before.
#define DIGIT_STARTS(name, counts, totals, n_parts)                                                                    \
    u32 name[256]; for (u32 d_ = 0, before_ = 0; d_ < 256; d_++) {                                                     \
        name[d_] = before_ + ((const u32 *)(counts))[d_ * (n_parts) + A->place];                                       \
        before_ += ((const u32 *)(totals))[d_]; }
// ROW: the column of row numbers; without one (!HAS_ROWS) rows are numbered as they lie.
#define SCATTER(type, key, row, shift, starts, keys, rows, has_rows, has_keys)                                         \
    for (u32 r_ = t_; r_ < t_ + TILE && r_ < A->row_end; r_++) {                                                       \
        const type key_ = key##_all[r_]; const u32 to_ = starts[DIGIT(key_, shift)]++;                                 \
        if (has_keys) ((type *)(keys))[to_] = key_;                                                                    \
        ((u32 *)(rows))[to_] = (has_rows) ? row##_all[r_] : r_; }

// ---- arithmetic that can fail: the check's number tells the host what to say, and where -----------------------------
#define FAIL(check)                { if (!A->failed) A->failed = (check) + 1; }
#define CHECK(condition, check)    if (!(condition)) FAIL(check)
#define ADD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ + (u64)b_);               \
                                    if (((a_ ^ r) & (b_ ^ r)) < 0) FAIL(check) }
#define SUB_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ - (u64)b_);               \
                                    if (((a_ ^ b_) & (a_ ^ r)) < 0) FAIL(check) }
#ifdef __TINYC__
#define MUL_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ * (u64)b_);               \
    if (a_ != 0 && ((a_ == -1 && r == b_ && b_ != 0) || (a_ != -1 && r / a_ != b_))) FAIL(check) }
#else
#define MUL_CHECKED(r, a, b, check) i64 r; { if (__builtin_mul_overflow((i64)(a), (i64)(b), &r)) FAIL(check) }
#endif
#define DIV_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; }         \
                                    else r = b_ == -1 ? (i64)(0 - (u64)a_) : a_ / b_; }
#define MOD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; }         \
                                    else r = b_ == -1 ? 0 : a_ % b_; }
#define DIV_F64_CHECKED(r, a, b, check)                                                                                \
    f64 r; { const f64 b_ = (b); if (b_ == 0) { FAIL(check) r = 0; } else r = (a) / b_; }
// Decimal to a smaller scale: half away from zero.
#define ROUND_DIV(r, a, b)         i64 r; { const i64 a_ = (a), b_ = (b), q_ = a_ / b_, m_ = a_ % b_;                  \
                                   const i64 h_ = m_ < 0 ? -m_ : m_;                                                   \
                                   r = q_ + (h_ >= b_ - h_ ? (a_ < 0 ? -1 : 1) : 0); }
// Double to an integer, half to even, within [low, high] or the check fails; NaN fails.
#define ROUND_F64(r, a, low, high, check) i64 r = 0; { const f64 a_ = (a); if (a_ >= (low) && a_ <= (high)) {          \
    r = (i64)a_; const f64 d_ = a_ - (f64)r; if (d_ > 0.5 || (d_ == 0.5 && (r & 1))) r++;                              \
    else if (d_ < -0.5 || (d_ == -0.5 && (r & 1))) r--; } else FAIL(check) }
// The bits of a double as a key: one pattern for both zeros, one for all NaNs.
#define F64_BITS(r, v)             u64 r; { union { f64 f; u64 u; } u_; u_.f = (v); if (u_.f == 0) u_.f = 0;           \
                                   if (u_.f != u_.f) u_.u = 0x7ff8000000000000ull; r = u_.u; }
#define FINITE(x)                  ((x) - (x) == 0)
#define SAME_F64(a, b)             ((a) == (b) || ((a) != (a) && (b) != (b)))
#define LESS_F64(a, b)             ((a) < (b) || ((b) != (b) && (a) == (a)))
// Whether VALUE is one of N constants in order, one at least: halves until one is left, the last that is not larger.
#define ONE_OF(r, value, constants, n) u8 r; { const i64 v_ = (value); u64 at_ = 0;                                    \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1; if ((constants)[at_ + half_] <= v_) at_ += half_;    \
    n_ -= half_; }                                                                                                     \
    r = (constants)[at_] == v_; }
#define ONE_OF_F64(r, value, constants, n) u8 r; { const f64 v_ = (value); u64 at_ = 0;                                \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1;                                                      \
    if (!LESS_F64(v_, (constants)[at_ + half_])) at_ += half_; n_ -= half_; }                                          \
    r = SAME_F64(v_, (constants)[at_]); }

// ---- numbers of 128 bits: two words, where ranges do not prove that one will do ------------------------------------
// A number is its high and its low word, two's complement; what is made is r_high and r.  Where a check fails both
// become 0, which is in the range that the text after it rests on.  Numbers have 38 digits at most.
#define WIDE_HIGH(low)             (-(i64)((i64)(low) < 0))                             // of a number of one word
#define WIDE_FITS(high, low)       ((high) == WIDE_HIGH(low))
#define WIDE_SAME(ah, al, bh, bl)  (((i64)(ah) == (i64)(bh)) & ((u64)(al) == (u64)(bl)))
#define WIDE_LESS(ah, al, bh, bl)  (((i64)(ah) < (i64)(bh)) | (((i64)(ah) == (i64)(bh)) & ((u64)(al) < (u64)(bl))))
#define WIDE_DIGITS(high, low)     (WIDE_LESS(high, low, 0x4b3b4ca85a86c47all, 0x098a224000000000ull) &                \
                                    WIDE_LESS(-0x4b3b4ca85a86c47bll, 0xf675ddc000000000ull, high, low))
#define WIDE_CHECK(r, condition, check) if (!(condition)) { FAIL(check) r = 0; r##_high = 0; }
#define WIDE_ADD(r, ah, al, bh, bl, check)                                                                             \
    i64 r, r##_high; { const i64 ah_ = (ah), bh_ = (bh); const u64 al_ = (u64)(al), l_ = al_ + (u64)(bl);              \
    r = (i64)l_; r##_high = (i64)((u64)ah_ + (u64)bh_ + (l_ < al_));                                                   \
    WIDE_CHECK(r, ((ah_ ^ r##_high) & (bh_ ^ r##_high)) >= 0, check) }
#define WIDE_SUB(r, ah, al, bh, bl, check)                                                                             \
    i64 r, r##_high; { const i64 ah_ = (ah), bh_ = (bh); const u64 al_ = (u64)(al), bl_ = (u64)(bl);                   \
    r = (i64)(al_ - bl_); r##_high = (i64)((u64)ah_ - (u64)bh_ - (al_ < bl_));                                         \
    WIDE_CHECK(r, ((ah_ ^ bh_) & (ah_ ^ r##_high)) >= 0, check) }
// To one word.
#define NARROW_CHECKED(r, high, low, check) i64 r = (low); if (!WIDE_FITS(high, r)) { FAIL(check) r = 0; }
// Whether a number is one of N constants in order, one at least: high, low, high, low, ...
#define WIDE_ONE_OF(r, high, low, constants, n) u8 r; { const i64 h_ = (high), v_ = (low); u64 at_ = 0;                \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1, c_ = 2 * (at_ + half_);                              \
    if (!WIDE_LESS(h_, v_, (constants)[c_], (constants)[c_ + 1])) at_ += half_; n_ -= half_; }                         \
    r = WIDE_SAME(h_, v_, (constants)[2 * at_], (constants)[2 * at_ + 1]); }
// These take functions (base/wide_text.h), which are put before a kernel that has one of the words.
#ifdef __TINYC__
#define WIDE_MULTIPLY_             A->words->wide_multiply
#define WIDE_DIVIDE_               A->words->wide_divide
#define WIDE_FROM_                 A->words->wide_from_f64
#define WIDE_QUOTIENT_             A->words->wide_quotient
#define WIDE_PRODUCT_              A->words->wide_rounded_product
#define WIDE_F64(high, low)        A->words->wide_to_f64(high, low)
#define WIDE_DECIMAL_F64(high, low, scale) A->words->wide_decimal_to_f64(high, low, scale)
#else
#define WIDE_MULTIPLY_             wide_multiply_
#define WIDE_DIVIDE_               wide_divide_
#define WIDE_FROM_                 wide_from_f64_
#define WIDE_QUOTIENT_             wide_quotient_
#define WIDE_PRODUCT_              wide_rounded_product_
#define WIDE_F64(high, low)        wide_to_f64_(high, low)
#define WIDE_DECIMAL_F64(high, low, scale) wide_decimal_to_f64_(high, low, scale)
#endif
#define WIDE_MUL(r, ah, al, bh, bl, check) i64 r, r##_high;                                                            \
    WIDE_CHECK(r, WIDE_MULTIPLY_(ah, al, bh, bl, &r##_high, &r), check)
// To a smaller scale: half away from zero.
#define WIDE_ROUND(r, ah, al, bh, bl) i64 r, r##_high; WIDE_DIVIDE_(ah, al, bh, bl, 0, &r##_high, &r);
// A double to a decimal by its first N digits: base/wide_text.h.
#define WIDE_FROM_F64(r, a, n, scale, check) i64 r, r##_high;                                                          \
    WIDE_CHECK(r, WIDE_FROM_(a, n, scale, &r##_high, &r), check)
#define WIDE_MOD(r, ah, al, bh, bl, check) i64 r = 0, r##_high = 0; { const i64 bh_ = (bh), bl_ = (bl);                \
    if (bh_ | bl_) WIDE_DIVIDE_(ah, al, bh_, bl_, 1, &r##_high, &r); else FAIL(check) }
// A quotient of decimals, and a product with fewer digits: base/wide_text.h.
#define WIDE_DIV(r, ah, al, as, an, bh, bl, bs, bn, scale, zero, check) i64 r = 0, r##_high = 0;                       \
    { const i64 bh_ = (bh), bl_ = (bl); int n_; if (!(bh_ | bl_)) { FAIL(zero) } else                                  \
    WIDE_CHECK(r, WIDE_QUOTIENT_(ah, al, as, an, bh_, bl_, bs, bn, scale, &r##_high, &r, &n_), check) }
#define WIDE_MUL_ROUND(r, ah, al, bh, bl, down, check) i64 r, r##_high;                                                \
    WIDE_CHECK(r, WIDE_PRODUCT_(ah, al, bh, bl, down, &r##_high, &r), check)

// ---- functions of doubles: the same bits everywhere -----------------------------------------------------------------
// Their text (base/math_text.h) is put before a kernel that has one of these words.
// tcc's code calls them: compiled with the library they are several times quicker, and tcc has nothing to compile.
#ifdef __TINYC__
#define SQRT_F64(x)                A->words->sqrt(x)
#define EXP_F64(x)                 A->words->exp(x)
#define LN_F64(x)                  A->words->ln(x)
#define LOG10_F64(x)               A->words->log10(x)
#define LOG2_F64(x)                A->words->log2(x)
#define POWER_F64(x, y)            A->words->power(x, y)
#define FLOOR_F64(x)               A->words->floor(x)
#define CEIL_F64(x)                A->words->ceil(x)
#define NEAREST_F64(x)             A->words->round(x)                // half away from zero
#define TRUNC_F64(x)               A->words->trunc(x)
#else
#define SQRT_F64(x)                math_sqrt_(x)
#define EXP_F64(x)                 math_exp_(x)
#define LN_F64(x)                  math_ln_(x)
#define LOG10_F64(x)               math_log10_(x)
#define LOG2_F64(x)                math_log2_(x)
#define POWER_F64(x, y)            math_power_(x, y)
#define FLOOR_F64(x)               math_floor_(x)
#define CEIL_F64(x)                math_ceil_(x)
#define NEAREST_F64(x)             math_round_(x)                // half away from zero
#define TRUNC_F64(x)               math_trunc_(x)
#endif

// ---- dates: days since 1970-01-01 to the fields of the proleptic Gregorian calendar ---------------------------------
#define DATE_PARTS(p, days)        i64 p##_year, p##_month, p##_day; { const i64 z_ = (days) + 719468;                 \
                                   const i64 era_ = (z_ >= 0 ? z_ : z_ - 146096) / 146097;                             \
    const i64 doe_ = z_ - era_ * 146097, yoe_ = (doe_ - doe_ / 1460 + doe_ / 36524 - doe_ / 146096) / 365,             \
              doy_ = doe_ - (365 * yoe_ + yoe_ / 4 - yoe_ / 100), mp_ = (5 * doy_ + 2) / 153;                          \
    p##_day = doy_ - (153 * mp_ + 2) / 5 + 1; p##_month = mp_ < 10 ? mp_ + 3 : mp_ - 9;                                \
    p##_year = yoe_ + era_ * 400 + (p##_month <= 2); }
#define LEAP(year)                 (((year) % 4 == 0 && (year) % 100 != 0) || (year) % 400 == 0)
#define DAY_OF_YEAR(p)             ((153 * (p##_month > 2 ? p##_month - 3 : p##_month + 9) + 2) / 5 + p##_day +        \
                                   (p##_month > 2 ? 59 + LEAP(p##_year) : -306))
#define WEEKDAY(days)              ((((days) + 4) % 7 + 7) % 7)                         // 0: Sunday
#define DAY_OF_CIVIL(to, y, m, d)  { const i64 f_ = (y) - ((m) <= 2), e_ = (f_ >= 0 ? f_ : f_ - 399) / 400,            \
    o_ = f_ - e_ * 400; to = e_ * 146097 + o_ * 365 + o_ / 4 - o_ / 100 +                                              \
    (153 * ((m) > 2 ? (m) - 3 : (m) + 9) + 2) / 5 + (d) - 1 - 719468; }
#define MONTH_DAYS(y, m)           ((m) == 2 ? 28 + LEAP(y) : 30 + (((m) + ((m) >> 3)) & 1))
// p_later: the same day of another month, or its last.
#define SHIFT_MONTHS(p, days, months) i64 p##_later; { DATE_PARTS(q_, days)                                            \
    const i64 a_ = q__year * 12 + q__month - 1 + (months), y_ = (a_ >= 0 ? a_ : a_ - 11) / 12, m_ = a_ - y_ * 12 + 1,  \
              n_ = MONTH_DAYS(y_, m_), d_ = q__day < n_ ? q__day : n_; DAY_OF_CIVIL(p##_later, y_, m_, d_) }
