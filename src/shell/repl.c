// repl.c - the prompt.
//
// Lines are read with libedit, which brings editing, history and its own ~/.editrc.  A statement of several lines is
// one entry of the history.  libedit puts the terminal back in order when Ctrl-C or Ctrl-Z comes (EL_SIGNAL) and
// returns with EINTR, so dropping the line needs no jump out of a handler.

#include <errno.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shell/shell.h"

#define HISTORY_ENTRIES 2000

typedef struct Repl {
    Shell     *shell;
    Script     script;
    EditLine  *edit;
    History   *history;
    HistEvent  event;                                      // libedit's out-parameter
    char      *history_path;                               // or NULL when there is nowhere to keep it
    Buffer     entry;                                      // lines since the last empty script
} Repl;

// ---- history -----------------------------------------------------------------------------------------------------

static char *join(const char *directory, const char *rest)
{
    Buffer path = { 0 };
    buffer_puts(&path, directory);
    buffer_puts(&path, rest);
    return path.bytes;
}

// $XDG_STATE_HOME/weft/history when that is set, else ~/.weft_history.
static char *find_history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/') {
        char *directory = join(state, "/weft");
        mkdir(state, 0700);
        mkdir(directory, 0700);
        char *path = join(directory, "/history");
        free(directory);
        return path;
    }
    return home && *home ? join(home, "/.weft_history") : NULL;
}

static void history_open(Repl *repl)
{
    repl->history = history_init();
    if (!repl->history)
        return;
    history(repl->history, &repl->event, H_SETSIZE, HISTORY_ENTRIES);
    history(repl->history, &repl->event, H_SETUNIQUE, 1);
    repl->history_path = find_history_path();
    if (repl->history_path)
        history(repl->history, &repl->event, H_LOAD, repl->history_path);
    el_set(repl->edit, EL_HIST, history, repl->history);
}

static void history_close(Repl *repl)
{
    if (!repl->history)
        return;
    if (repl->history_path) {
        mode_t mask = umask(077);                          // statements may hold what others should not read
        history(repl->history, &repl->event, H_SAVE, repl->history_path);
        umask(mask);
    }
    history_end(repl->history);
    free(repl->history_path);
}

// Keeps what was typed as one entry, once the statement in it is complete.
static void history_keep(Repl *repl)
{
    if (script_is_inside(&repl->script) || !repl->entry.length)
        return;
    while (repl->entry.length && strchr(" \t\n", repl->entry.bytes[repl->entry.length - 1]))
        repl->entry.bytes[--repl->entry.length] = '\0';
    if (repl->history && repl->entry.length)
        history(repl->history, &repl->event, H_ENTER, repl->entry.bytes);
    buffer_clear(&repl->entry);
}

// ---- lines -------------------------------------------------------------------------------------------------------

static char *prompt(EditLine *edit)
{
    static char first[] = "weft> ", more[] = "   -> ";
    void *repl = NULL;
    el_get(edit, EL_CLIENTDATA, &repl);
    return script_is_inside(&((Repl *)repl)->script) ? more : first;
}

static unsigned char on_tab(EditLine *edit, int key)
{
    void *repl = NULL;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &repl);
    return complete_word(((Repl *)repl)->shell, edit);
}

static bool editor_open(Repl *repl)
{
    static const char *const keys[][2] = {
        { "^R", "em-inc-search-prev" },   { "\\e[3~", "ed-delete-next-char" }, { "\\e[H", "ed-move-to-beg" },
        { "\\e[F", "ed-move-to-end" },    { "\\e[1~", "ed-move-to-beg" },      { "\\e[4~", "ed-move-to-end" },
        { "\\e[1;5C", "em-next-word" },   { "\\e[1;5D", "ed-prev-word" },
        { "^I", "weft-complete" },
    };
    repl->edit = el_init("weft", stdin, stdout, stderr);
    if (!repl->edit)
        return false;
    el_set(repl->edit, EL_CLIENTDATA, repl);
    el_set(repl->edit, EL_PROMPT, prompt);
    el_set(repl->edit, EL_EDITOR, "emacs");
    el_set(repl->edit, EL_SIGNAL, 1);
    el_set(repl->edit, EL_ADDFN, "weft-complete", "complete a name or a word of SQL", on_tab);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(repl->edit, EL_BIND, keys[i][0], keys[i][1], NULL);
    history_open(repl);
    el_source(repl->edit, NULL);
    return true;
}

static void greet(const char *path)
{
    printf("weft " WEFT_VERSION ".  \\? for help, \\q to exit.\n");
    if (!path)
        puts("The database is in memory and ends with this session.");
}

// Whether the pending text could end here: it could not inside quotes or a comment.
static bool is_between_words(const Repl *repl)
{
    Buffer text = { 0 };
    buffer_puts(&text, repl->script.pending.bytes);
    buffer_puts(&text, ";");
    bool can_end = weft_statement_length(text.bytes) > 0;
    buffer_free(&text);
    return can_end;
}

// Runs what the line completes.  A command in the middle of a statement is run, and the statement goes on after it.
// Newcomers type "help", "quit" and "exit".
static bool take(Repl *repl, const char *line, size_t length)
{
    bool is_inside = script_is_inside(&repl->script);
    if (repl->script.data)
        return script_feed(&repl->script, line, length);
    if (!is_inside && (!strcmp(line, "quit\n") || !strcmp(line, "exit\n")))
        return false;
    if (!is_inside && !strcmp(line, "help\n"))
        return script_feed(&repl->script, "\\?\n", 3);
    if (is_inside && line[strspn(line, " \t")] == '\\' && is_between_words(repl)) {
        script_run_command(repl->shell, line + strspn(line, " \t"));
        return !repl->shell->wants_exit;
    }
    buffer_add(&repl->entry, line, length);
    bool goes_on = script_feed(&repl->script, line, length);
    history_keep(repl);
    if (!script_is_inside(&repl->script))
        script_drop(&repl->script);                        // the next statement starts at line 1 again
    return goes_on;
}

// Reads one line and runs what it completes.  False at the end.
static bool step(Repl *repl)
{
    int length = 0;
    watch_forget();
    errno = 0;
    const char *line = el_gets(repl->edit, &length);
    // Ctrl-C: begin anew.  Inside a search of the history libedit takes it for the end of the file.
    if (!line && ((length < 0 && errno == EINTR) || watch_interrupted())) {
        clearerr(stdin);
        puts("^C");
        script_drop(&repl->script);
        buffer_clear(&repl->entry);
        el_reset(repl->edit);
        return true;
    }
    if (!line || length <= 0) {
        puts("");
        return false;
    }
    return take(repl, line, (size_t)length);
}

int repl_run(Shell *shell, const char *path)
{
    Repl repl = { .shell = shell, .script = { .shell = shell, .line = 1, .has_data = true } };
    if (!editor_open(&repl)) {
        report_problem(shell, "this terminal cannot be edited on; try weft -f -");
        return EXIT_SQL_ERROR;
    }
    greet(path);
    while (step(&repl))
        ;
    history_close(&repl);
    el_end(repl.edit);
    buffer_free(&repl.script.pending);
    buffer_free(&repl.entry);
    return 0;
}
