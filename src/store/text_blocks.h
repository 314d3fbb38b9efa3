// text_blocks.h - the texts of a dictionary's file, read in place (inside src/store only).

#ifndef WEFT_STORE_TEXT_BLOCKS_H
#define WEFT_STORE_TEXT_BLOCKS_H

#include "store/store_int.h"

bool text_blocks_are_in(const Mapping *mapping);            // the file is of this format

// Reads the directories of the file, whose texts FILE counts (at least one).  The mapping stays the caller's, and must
// stay until text_blocks_free.  CORRUPT, OUT_OF_MEMORY.
weft_status text_blocks_open(const char *path, const DictFile *file, const Mapping *mapping, Budget *budget,
                             TextBlocks **texts, Error *err);
void        text_blocks_free(TextBlocks *texts);            // NULL is fine
// The rest may be called by any thread.  A text of a damaged block is empty, and from then on text_blocks_status says
// CORRUPT.
weft_text   text_blocks_get(TextBlocks *texts, u32 code);
bool        text_blocks_run(TextBlocks *texts, u32 code, TextRun *run);        // the block of CODE; false: damaged
bool        text_blocks_find(TextBlocks *texts, const char *bytes, size_t length, u32 *code);  // looks at all of them
weft_status text_blocks_status(const TextBlocks *texts, Error *err);
weft_status text_blocks_check(TextBlocks *texts, Error *err);                   // of all blocks

typedef struct TextSource { TextOf text_of; const void *context; } TextSource;     // texts with NULs behind them

// Writes the texts from old->count up to COUNT behind old->length, where FILE is open for append, and syncs.
weft_status text_blocks_write(File *file, const DictFile *old, const TextSource *source, u32 count, DictFile *changed,
                              Error *err);

#endif
