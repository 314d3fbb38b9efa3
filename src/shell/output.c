// output.c - where results go: standard output, the file of \o, or a pager.
//
// A pager is used where a person looks: at the prompt, for a table with more lines than the terminal.  $PAGER names it;
// without one it is `less`, told to leave when all fits, to keep colours, and to cut long lines instead of wrapping
// them.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"

static const char *pager_command(void)
{
    const char *named = getenv("WEFT_PAGER");
    if (!named)
        named = getenv("PAGER");
    return named ? named : "less -FRSX";
}

static bool wants_pager(const Shell *shell, const weft_result *result)
{
    int rows = terminal_rows(stdout);
    size_t lines = weft_result_rows(result) * (shell->is_expanded ? (size_t)weft_result_columns(result) + 1 : 1);
    return shell->is_interactive && shell->has_pager && !shell->out && rows > 0 && weft_result_columns(result) > 0 &&
           lines + 4 > (size_t)rows && *pager_command();
}

// Ctrl-C in the pager is the pager's, and a pager that is left early ends our writing, not the shell.
static bool print_to_pager(Shell *shell, const weft_result *result)
{
    fflush(stdout);
    FILE *pager = popen(pager_command(), "w");
    if (!pager)
        return false;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    print_result(shell, result, pager);
    fflush(pager);
    int status = pclose(pager);
    signal(SIGPIPE, before);
    watch_forget();
    return status != 127 << 8;                             // the shell found no such command
}

void show_result(Shell *shell, const weft_result *result)
{
    if (shell->out) {
        print_result(shell, result, shell->out);
        if (fflush(shell->out))
            report_problem(shell, "could not write the output: %s", strerror(errno));
        return;
    }
    if (!wants_pager(shell, result) || !print_to_pager(shell, result))
        print_result(shell, result, stdout);
    fflush(stdout);
}

bool output_to(Shell *shell, const char *path)
{
    FILE *file = NULL;
    if (*path) {
        file = fopen(path, "w");
        if (!file) {
            report_problem(shell, "could not open %s: %s", path, strerror(errno));
            return false;
        }
    }
    if (shell->out && fclose(shell->out))
        report_problem(shell, "could not write the output: %s", strerror(errno));
    shell->out = file;
    return true;
}
