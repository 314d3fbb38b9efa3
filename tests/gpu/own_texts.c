// own_texts.c - kernels that a GPU's device has for itself, printed for scripts/cuda-check: they are the same for all
// queries.

#include <stdio.h>

#include "jit/generic.h"

int main(void)
{
    static const u8 widths[] = { 1, 2, 4, 8, 1, 2 };
    Arena          *arena = arena_new(NULL, "texts");
    const char     *name;
    for (int n_keys = 1; n_keys <= 2; n_keys++) fputs(weave_fill_text(arena, n_keys, &name), stdout);
    for (int n_keys = 1; n_keys <= 2; n_keys++) fputs(weave_link_text(arena, n_keys, &name), stdout);
    fputs(weave_order_text(&name), stdout);
    fputs(weave_keep_text(&name), stdout);
    for (int width = 4; width <= 8; width += 4) {
        fputs(weave_digits_text(arena, width, &name), stdout);
        fputs(weave_scatter_text(arena, width, &name), stdout);
    }
    fputs(weave_starts_text(&name), stdout);
    fputs(weave_gather_text(&name), stdout);
    fputs(weave_fold_text(&name), stdout);
    fputs(weave_collect_text(&name), stdout);
    fputs(weave_kinds_text(&name), stdout);
    fputs(weave_who_text(&name), stdout);
    fputs(jit_generic_text(), stdout);
    for (int lane = 1; lane <= 8; lane *= 2)
        fputs(weave_sieve_text(arena, widths, COUNT_OF(widths), lane, &name), stdout);
    arena_free(arena);
    return 0;
}
