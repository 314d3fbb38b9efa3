// replay.c - a driver for the targets that needs no libFuzzer: inputs that are kept, and some like them.
//
//     NAME SECONDS SEED DIRECTORY...
//
// Each file in the directories is given to the target once; then, as long as SECONDS last, files with bytes changed,
// dropped, doubled, or taken from another file.  A target that fails ends the process; the input is then in
// replay-NAME.input, in the folder that TMPDIR names.

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

enum { INPUT_MOST = 1 << 16, CHANGES_MOST = 6 };

typedef struct Input { uint8_t *bytes; size_t length; } Input;

static Input *inputs;
static size_t n_inputs;
static Input  tried;                                        // what the target is at
static char   tried_path[512];
static u64    state;

static u64 draw(u64 below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? (state >> 11) % below : 0;
}

// Leaves the input in a file, to look for the fault with.
static void keep_tried(int signal_number)
{
    FILE *file = fopen(tried_path, "wb");
    if (file) {
        fwrite(tried.bytes, 1, tried.length, file);
        fclose(file);
    }
    fprintf(stderr, "the input is in %s\n", tried_path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void try_input(Input input)
{
    tried = input;
    LLVMFuzzerTestOneInput(input.bytes, input.length);
}

static void add_file(const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &status) || !S_ISREG(status.st_mode) || status.st_size > INPUT_MOST) {
        if (file) fclose(file);
        return;
    }
    inputs = realloc(inputs, (n_inputs + 1) * sizeof(Input));
    Input *input = &inputs[n_inputs++];
    input->length = (size_t)status.st_size;
    input->bytes = malloc(input->length + 1);
    require(fread(input->bytes, 1, input->length, file) == input->length, "an input can be read");
    fclose(file);
}

static void add_directory(const char *path)
{
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);  // in an order that does not change
    require(n >= 0, "a directory of inputs can be read");
    for (int i = 0; i < n; i++) {
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        add_file(file);
        free(entries[i]);
    }
    free(entries);
}

static void change(Input *input, const Input *other)
{
    const size_t at = draw(input->length), most = INPUT_MOST - input->length;
    size_t n = 1 + draw(16);
    switch (draw(5)) {
    case 0: if (input->length) input->bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: if (input->length) input->bytes[at] = (uint8_t)draw(256); break;
    case 2:
        n = MIN_OF(n, input->length - at);
        memmove(input->bytes + at, input->bytes + at + n, input->length - at - n);
        input->length -= n;
        break;
    default: {
        const size_t from = draw(other->length);
        n = MIN_OF(MIN_OF(n * 4, other->length - from), most);
        memmove(input->bytes + at + n, input->bytes + at, input->length - at);
        memcpy(input->bytes + at, other->bytes + from, n);
        input->length += n;
    }
    }
}

static long mutate_for(int seconds)
{
    static uint8_t bytes[INPUT_MOST];
    const time_t end = time(NULL) + seconds;
    long n = 0;
    for (; seconds > 0 && n_inputs > 0 && time(NULL) < end; n++) {
        const Input *start = &inputs[draw(n_inputs)];
        Input input = { bytes, start->length };
        memcpy(bytes, start->bytes, start->length);
        for (u64 i = 1 + draw(CHANGES_MOST); i > 0; i--) change(&input, &inputs[draw(n_inputs)]);
        try_input(input);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/'), *scratch = getenv("TMPDIR");
    if (argc < 3) return 2;
    name = name ? name + 1 : argv[0];
    snprintf(tried_path, sizeof tried_path, "%s/replay-%s.input", scratch ? scratch : "/tmp", name);
    state = 0x9E3779B97F4A7C15u * (u64)(atoll(argv[2]) + 1);
    static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    for (int i = 0; i < COUNT_OF(signals); i++) signal(signals[i], keep_tried);
    for (int i = 3; i < argc; i++) add_directory(argv[i]);
    for (size_t i = 0; i < n_inputs; i++) try_input(inputs[i]);
    const long n = mutate_for(atoi(argv[1]));
    printf("%s: %zu kept inputs and %ld like them\n", name, n_inputs, n);
    return n_inputs == 0;
}
