// island_note.h - islands kept with the dictionary of their column (inside src/weave only).

#ifndef WEFT_WEAVE_ISLAND_NOTE_H
#define WEFT_WEAVE_ISLAND_NOTE_H

#include "weave/weave_int.h"

const char *island_form_name(IslandForm form);                      // the type of its values in kernels
size_t      island_width(IslandForm form);                          // bytes of a value

// The rest of an island that has its expression and n_codes, if DICT has a note of it.  It lives as long as the arena.
bool island_note_find(Arena *arena, Dictionary *dict, Island *island);
void island_note_keep(Dictionary *dict, const Island *island);      // copied, when it is worth keeping

#endif
