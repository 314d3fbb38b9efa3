// repeat.h - recursion: the rows of all rounds, and those that the last one added (repeat.c).
//
//     repeat_begin(run);                       // once, when the plan is cut
//     TRY(repeat_add(run, number, &finished)); // the rows of a pipeline that is FIRST or LAST of a repeat (plan.h)
//     while (repeat_has_more(rows) && !is_enough)  // a round: the pipelines run again, over what was added last
//         TRY(repeat_hand_on(run, rows)), ...
//     TRY(repeat_end(run, rows));              // readers of LAST get all rows from now on
//
// Rows are kept in memory that is counted, and live as long as the query.

#ifndef WEFT_ENGINE_REPEAT_H
#define WEFT_ENGINE_REPEAT_H

#include "engine/engine.h"

typedef struct RepeatRows RepeatRows;          // opened up only in repeat.c

void          repeat_begin(QueryRun *run);
RepeatRows   *repeat_of(const QueryRun *run, int pipeline);            // NULL: it is neither FIRST nor LAST of any
const Repeat *repeat_of_last(const QueryRun *run, int pipeline, RepeatRows **rows);    // NULL: it is not LAST
weft_status   repeat_add(QueryRun *run, int number, const Finished *finished);         // what pipeline NUMBER left
weft_status   repeat_hand_on(QueryRun *run, RepeatRows *rows);         // the rows added last become those of FIRST
bool          repeat_has_more(const RepeatRows *rows);                 // the last call of repeat_add found new rows
// The only reader of the rows has a LIMIT, and enough of them: no further round is needed.
weft_status   repeat_is_enough(QueryRun *run, RepeatRows *rows, bool *is_enough);
weft_status   repeat_end(QueryRun *run, RepeatRows *rows);
u64           repeat_count(const RepeatRows *rows);                    // rows so far

#endif
