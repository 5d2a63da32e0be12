/* Runs a fuzz target without a fuzzer: every file of the corpus as it is, then random changes of them, the same ones on
 * every run. So the targets are plain tests too, on machines that have no libFuzzer.
 *
 *   fuzz_NAME [--rounds=N] [--seed=N] FILE-OR-FOLDER ... */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 4096, INPUT_MAX = 1 << 16, SECONDS_MAX = 60 };

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input inputs[FILES_MAX];
static int n_inputs;
static uint64_t random_state = 1;

/* xorshift64*: enough to change bytes with, and the same everywhere. */
static uint64_t random_word(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static size_t random_below(size_t n)
{
    return n ? (size_t)(random_word() >> 16) % n : 0;
}

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (!file || n_inputs == FILES_MAX) {
        fprintf(stderr, "cannot take %s\n", path);
        exit(1);
    }
    input *fresh = &inputs[n_inputs++];
    fresh->data = malloc(INPUT_MAX);
    fresh->size = fresh->data ? fread(fresh->data, 1, INPUT_MAX, file) : 0;
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* In the order of names, so that every run changes the same bytes. */
static void add_path(const char *path)
{
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, by_name);
    if (n < 0) {
        add_file(path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char name[4096];
        struct stat info;
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (!stat(name, &info) && S_ISREG(info.st_mode) && entries[i]->d_name[0] != '.')
            add_file(name);
        free(entries[i]);
    }
    free(entries);
}

static void overwrite(input *x)
{
    for (size_t n = 1 + random_below(4); n > 0 && x->size; n--)
        x->data[random_below(x->size)] = (uint8_t)random_word();
}

static void flip_bit(input *x)
{
    if (x->size)
        x->data[random_below(x->size)] ^= (uint8_t)(1u << random_below(8));
}

static void leave_out(input *x)
{
    const size_t at = random_below(x->size), n = random_below(x->size - at < 32 ? x->size - at : 32);
    memmove(x->data + at, x->data + at + n, x->size - at - n);
    x->size -= n;
}

/* Puts a piece of another input, or of the same, in the middle. */
static void splice(input *x)
{
    const input *from = &inputs[random_below((size_t)n_inputs)];
    const size_t start = random_below(from->size), most = random_below(8) ? 32 : from->size;
    size_t n = random_below(from->size - start < most ? from->size - start : most) + (from->size > start);
    if (n > INPUT_MAX - x->size)
        n = INPUT_MAX - x->size;
    const size_t at = random_below(x->size + 1);
    memmove(x->data + at + n, x->data + at, x->size - at);
    memcpy(x->data + at, from->data + start, n);
    x->size += n;
}

static void cut(input *x)
{
    x->size = random_below(x->size + 1);
}

static void change(input *x)
{
    static void (*const ways[])(input *) = {overwrite, flip_bit, leave_out, splice, splice, cut};
    for (size_t n = 1 + random_below(5); n > 0; n--)
        ways[random_below(sizeof ways / sizeof *ways)](x);
}

/* ---- The input that is running when the program dies is left behind, to be given to the target again ---- */

static const input *running;
static char kept_path[256];

static void keep(int signal_number)
{
    const int file = running ? open(kept_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (file >= 0 && write(file, running->data, running->size) >= 0)
        (void)!write(STDERR_FILENO, kept_path, strlen(kept_path));
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Sanitizers end by abort, so that the handler sees their findings too. */
// NOLINTBEGIN(bugprone-reserved-identifier)
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__ubsan_default_options(void);
const char *__asan_default_options(void)
{
    return "abort_on_error=1:handle_abort=0:allocator_may_return_null=1";
}
const char *__ubsan_default_options(void)
{
    return "abort_on_error=1:print_stacktrace=1";
}
// NOLINTEND(bugprone-reserved-identifier)

static void watch(const char *program)
{
    const char *slash = strrchr(program, '/');
    snprintf(kept_path, sizeof kept_path, "%s.last", slash ? slash + 1 : program);
    signal(SIGABRT, keep);
    signal(SIGALRM, keep);
#if !defined(__SANITIZE_ADDRESS__)
    signal(SIGSEGV, keep);
#endif
}

/* An own block of exactly the input's size, so that a sanitizer sees a read behind it. */
static void run(const input *x)
{
    uint8_t *copy = malloc(x->size ? x->size : 1);
    if (!copy)
        exit(1);
    memcpy(copy, x->data, x->size);
    running = x;
    alarm(SECONDS_MAX);
    LLVMFuzzerTestOneInput(copy, x->size);
    free(copy);
}

int main(int argc, char **argv)
{
    long rounds = 1000;
    watch(argv[0]);
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--rounds=", 9))
            rounds = strtol(argv[i] + 9, NULL, 10);
        else if (!strncmp(argv[i], "--seed=", 7))
            random_state = strtoull(argv[i] + 7, NULL, 10) | 1;
        else
            add_path(argv[i]);
    }
    if (!n_inputs) {
        fprintf(stderr, "no corpus: type %s FILE-OR-FOLDER\n", argv[0]);
        return 1;
    }
    for (int i = 0; i < n_inputs; i++)
        run(&inputs[i]);
    input changed = {.data = malloc(INPUT_MAX)};
    for (long round = 0; changed.data && round < rounds; round++) {
        const input *from = &inputs[random_below((size_t)n_inputs)];
        memcpy(changed.data, from->data, from->size);
        changed.size = from->size;
        change(&changed);
        run(&changed);
    }
    free(changed.data);
    for (int i = 0; i < n_inputs; i++)
        free(inputs[i].data);
    printf("%d inputs and %ld changes of them\n%d passed, 0 failed, 0 skipped\n", n_inputs, rounds, n_inputs);
    return 0;
}
