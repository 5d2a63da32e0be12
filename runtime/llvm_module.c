/* libdlk-llvm: LLVM text in, a flat image of machine code out. A shared library of its own, with LLVM linked into it and
 * one function exported, so that no other LLVM in the process can meet this one.
 *
 * LLVM writes an ELF object; layout and relocation happen here. Only references between the object's own sections can be
 * resolved; an undefined symbol means that LLVM wanted a library function, which no kernel may need: an error. */
#include "runtime/llvm_module.h"

#include <elf.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a schedule leaves to LLVM: equal subexpressions and what does not change in a loop. It vectorises nothing. */
#define PASSES "early-cse,loop-mssa(licm)"
enum { IMAGE_ALIGNMENT = 64 };

/* ---- The ELF object to an image ------------------------------------------------------------------------------------ */

typedef struct object {
    const unsigned char *bytes;
    size_t size;
    const Elf64_Shdr *sections;
    size_t n_sections;
    const char *section_names;
    size_t *placed; /* by section: where it lies in the image; SIZE_MAX: not in it */
    const dlk_llvm_request *request;
    dlk_llvm_answer *answer;
} object;

static int fail(dlk_llvm_answer *answer, const char *format, const char *what)
{
    snprintf(answer->error, sizeof answer->error, format, what);
    return 1;
}

static const char *section_name(const object *o, size_t section)
{
    return o->section_names + o->sections[section].sh_name;
}

static int is_loaded(const object *o, size_t section)
{
    const Elf64_Shdr *s = &o->sections[section];
    return s->sh_flags & SHF_ALLOC && s->sh_type == SHT_PROGBITS &&
           strncmp(section_name(o, section), ".eh_frame", 9) != 0;
}

/* Code first, then constants, each as aligned as it asks. */
static size_t place_sections(object *o)
{
    size_t end = 0;
    for (int code = 1; code >= 0; code--)
        for (size_t k = 0; k < o->n_sections; k++) {
            const Elf64_Shdr *s = &o->sections[k];
            if (!is_loaded(o, k) || ((s->sh_flags & SHF_EXECINSTR) != 0) != code)
                continue;
            const size_t alignment = s->sh_addralign > 1 ? s->sh_addralign : 1;
            end = (end + alignment - 1) / alignment * alignment;
            o->placed[k] = end;
            end += s->sh_size;
        }
    return (end + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
}

static int apply(const object *o, unsigned char *image, const Elf64_Shdr *target, size_t base, const Elf64_Rela *r,
                 const Elf64_Sym *symbol, const char *name)
{
    const uint32_t type = ELF64_R_TYPE(r->r_info);
    if (symbol->st_shndx == SHN_UNDEF)
        return fail(o->answer, "the kernel needs the function '%s', which is not in it", name);
    if (symbol->st_shndx >= o->n_sections || o->placed[symbol->st_shndx] == SIZE_MAX ||
        r->r_offset + 4 > target->sh_size)
        return fail(o->answer, "a relocation to '%s' leaves the kernel", name);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return fail(o->answer, "a relocation to '%s' is not relative to the code", name);
    const int64_t place = (int64_t)(base + r->r_offset);
    const int32_t value = (int32_t)((int64_t)(o->placed[symbol->st_shndx] + symbol->st_value) + r->r_addend - place);
    memcpy(image + place, &value, sizeof value);
    return 0;
}

static int relocate(const object *o, unsigned char *image)
{
    for (size_t k = 0; k < o->n_sections; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        if (s->sh_type != SHT_RELA || s->sh_info >= o->n_sections || o->placed[s->sh_info] == SIZE_MAX)
            continue;
        const Elf64_Shdr *table = &o->sections[s->sh_link];
        const Elf64_Sym *symbols = (const Elf64_Sym *)(o->bytes + table->sh_offset);
        const char *names = (const char *)o->bytes + o->sections[table->sh_link].sh_offset;
        const Elf64_Rela *r = (const Elf64_Rela *)(o->bytes + s->sh_offset), *end = r + s->sh_size / sizeof *r;
        for (; r < end; r++) {
            const Elf64_Sym *symbol = &symbols[ELF64_R_SYM(r->r_info)];
            if (apply(o, image, &o->sections[s->sh_info], o->placed[s->sh_info], r, symbol, names + symbol->st_name))
                return 1;
        }
    }
    return 0;
}

static int find_entry(const object *o)
{
    for (size_t k = 0; k < o->n_sections; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        if (s->sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbol = (const Elf64_Sym *)(o->bytes + s->sh_offset),
                        *end = symbol + s->sh_size / sizeof *symbol;
        const char *names = (const char *)o->bytes + o->sections[s->sh_link].sh_offset;
        for (; symbol < end; symbol++)
            if (!strcmp(names + symbol->st_name, "kernel") && symbol->st_shndx < o->n_sections) {
                o->answer->entry = o->placed[symbol->st_shndx] + symbol->st_value;
                return 0;
            }
    }
    return fail(o->answer, "the text defines no function '%s'", "kernel");
}

static int copy_sections(object *o)
{
    const size_t size = place_sections(o);
    unsigned char *image = o->request->allocate(size ? size : 1);
    if (!image)
        return fail(o->answer, "out of memory for %s", "the image");
    for (size_t k = 0; k < o->n_sections; k++)
        if (o->placed[k] != SIZE_MAX)
            memcpy(image + o->placed[k], o->bytes + o->sections[k].sh_offset, o->sections[k].sh_size);
    if (relocate(o, image) || find_entry(o)) {
        o->request->release(image);
        return 1;
    }
    o->answer->bytes = image;
    o->answer->size = size;
    return 0;
}

static int make_image(const unsigned char *bytes, size_t size, const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
    object o = {.bytes = bytes, .size = size, .request = request, .answer = answer};
    if (size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return fail(answer, "LLVM gave %s", "no ELF object");
    o.sections = (const Elf64_Shdr *)(bytes + header->e_shoff);
    o.n_sections = header->e_shnum;
    o.section_names = (const char *)bytes + o.sections[header->e_shstrndx].sh_offset;
    o.placed = malloc(sizeof *o.placed * o.n_sections);
    if (!o.placed)
        return fail(answer, "out of memory for %s", "the object's sections");
    memset(o.placed, 0xff, sizeof *o.placed * o.n_sections);
    const int failed = copy_sections(&o);
    free(o.placed);
    return failed;
}

/* ---- LLVM ---------------------------------------------------------------------------------------------------------- */

static void initialise(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

/* Takes LLVM's message into the answer and disposes of it. */
static int fail_with_message(dlk_llvm_answer *answer, const char *format, char *message)
{
    fail(answer, format, message ? message : "no message");
    LLVMDisposeMessage(message);
    return 1;
}

/* Without a handler LLVM prints what the code generator refuses, and ends the process. The first error is the answer's;
 * warnings are about code that nobody wrote. */
static void keep_error(LLVMDiagnosticInfoRef diagnostic, void *context)
{
    dlk_llvm_answer *answer = context;
    if (LLVMGetDiagInfoSeverity(diagnostic) == LLVMDSError && !answer->error[0])
        fail_with_message(answer, "LLVM: %s", LLVMGetDiagInfoDescription(diagnostic));
}

static LLVMTargetMachineRef create_machine(const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    static const char triple[] = "x86_64-unknown-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        fail_with_message(answer, "LLVM has no x86-64 target: %s", message);
        return NULL;
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, triple, request->cpu, request->features,
                                                           LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    if (!machine)
        fail(answer, "LLVM makes no machine for cpu '%s'", request->cpu);
    return machine;
}

static LLVMModuleRef parse(LLVMContextRef context, const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    LLVMModuleRef module = NULL;
    char *message = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(request->text, request->text_bytes, "kernel");
    if (LLVMParseIRInContext(context, buffer, &module, &message)) { /* owns the buffer now */
        fail_with_message(answer, "LLVM text: %s", message);
        return NULL;
    }
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message)) {
        fail_with_message(answer, "LLVM text is malformed: %s", message);
        LLVMDisposeModule(module);
        return NULL;
    }
    LLVMDisposeMessage(message);
    return module;
}

static int optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, dlk_llvm_answer *answer)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, PASSES, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error)
        return 0;
    char *message = LLVMGetErrorMessage(error); /* consumes the error */
    fail(answer, "LLVM passes: %s", message);
    LLVMDisposeErrorMessage(message);
    return 1;
}

static int take_listing(LLVMMemoryBufferRef buffer, const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    answer->size = LLVMGetBufferSize(buffer);
    answer->bytes = request->allocate(answer->size + 1);
    if (!answer->bytes)
        return fail(answer, "out of memory for %s", "the listing");
    memcpy(answer->bytes, LLVMGetBufferStart(buffer), answer->size);
    return 0;
}

static int generate(LLVMModuleRef module, LLVMTargetMachineRef machine, const dlk_llvm_request *request,
                    dlk_llvm_answer *answer)
{
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    const LLVMCodeGenFileType type = request->want_listing ? LLVMAssemblyFile : LLVMObjectFile;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &buffer))
        return fail_with_message(answer, "LLVM code generation: %s", message);
    int failed = answer->error[0] != 0; /* by keep_error: what was generated is of no use */
    if (!failed)
        failed = request->want_listing ? take_listing(buffer, request, answer)
                                       : make_image((const unsigned char *)LLVMGetBufferStart(buffer),
                                                    LLVMGetBufferSize(buffer), request, answer);
    LLVMDisposeMemoryBuffer(buffer);
    return failed;
}

static int compile_in(LLVMContextRef context, LLVMTargetMachineRef machine, const dlk_llvm_request *request,
                      dlk_llvm_answer *answer)
{
    LLVMModuleRef module = parse(context, request, answer);
    if (!module)
        return 1;
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    const int failed = optimise(module, machine, answer) || generate(module, machine, request, answer);
    LLVMDisposeModule(module);
    return failed;
}

__attribute__((visibility("default"))) int dlk_llvm_compile(const dlk_llvm_request *request, dlk_llvm_answer *answer);

/* A context and a machine of its own for each compile: LLVM shares neither between threads. */
int dlk_llvm_compile(const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    memset(answer, 0, sizeof *answer);
    pthread_once(&once, initialise);
    if (request->size < sizeof *request)
        return fail(answer, "libdlk-llvm is of another version than %s", "libdlk");
    LLVMTargetMachineRef machine = create_machine(request, answer);
    if (!machine)
        return 1;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, keep_error, answer);
    const int failed = compile_in(context, machine, request, answer);
    LLVMContextDispose(context);
    LLVMDisposeTargetMachine(machine);
    return failed;
}
