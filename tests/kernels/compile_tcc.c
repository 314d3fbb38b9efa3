// compile_tcc.c - compiles C files in memory with libtcc, as src/jit does.  Any complaint, a warning too, is a failure.

#include <libtcc.h>
#include <stdio.h>
#include <stdlib.h>

static int n_messages;

static void show_message(void *context, const char *message)
{
    fprintf(stderr, "%s: %s\n", (const char *)context, message);
    n_messages++;
}

static int compile(char *path)
{
    TCCState *tcc = tcc_new();
    if (!tcc) return 1;
    n_messages = 0;
    tcc_set_error_func(tcc, path, show_message);
    tcc_set_options(tcc, "-nostdlib -nostdinc -Wall");
    tcc_set_output_type(tcc, TCC_OUTPUT_MEMORY);
    const int failed = tcc_add_file(tcc, path) != 0;
    tcc_delete(tcc);
    return failed || n_messages > 0;
}

int main(int n_args, char **args)
{
    int failed = 0;
    for (int i = 1; i < n_args; i++) failed |= compile(args[i]);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
