/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/spank_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"

#define SECTIONS_MAX   4096u
#define UNDEFINED_MAX  4096u
#define VERSION_HIDDEN 0x8000u
#define VERSION_GLOBAL 1u

/* What the compiler's own start files put into each library. */
#define CONSTRUCTORS_USUAL 1u

static const char *const hook_symbols[SPANK_HOOK_MAX] = {
	[SPANK_HOOK_INIT] = "slurm_spank_init",
	[SPANK_HOOK_INIT_POST_OPT] = "slurm_spank_init_post_opt",
	[SPANK_HOOK_USER_INIT] = "slurm_spank_user_init",
	[SPANK_HOOK_TASK_INIT_PRIVILEGED] = "slurm_spank_task_init_privileged",
	[SPANK_HOOK_TASK_INIT] = "slurm_spank_task_init",
	[SPANK_HOOK_TASK_POST_FORK] = "slurm_spank_task_post_fork",
	[SPANK_HOOK_TASK_EXIT] = "slurm_spank_task_exit",
	[SPANK_HOOK_EXIT] = "slurm_spank_exit",
	[SPANK_HOOK_JOB_PROLOG] = "slurm_spank_job_prolog",
	[SPANK_HOOK_LOCAL_USER_INIT] = "slurm_spank_local_user_init",
	[SPANK_HOOK_JOB_EPILOG] = "slurm_spank_job_epilog",
	[SPANK_HOOK_SLURMD_EXIT] = "slurm_spank_slurmd_exit",
};

const char *spank_hook_symbol(enum spank_hook hook)
{
	return hook_symbols[hook];
}

void spank_file_clear(struct spank_file *file)
{
	strv_clear(&file->undefined);
	strv_clear(&file->libraries);
	*file = (struct spank_file){0};
}

/* ---- the file's bytes ---------------------------------------------------------------------- */

/* The whole file, mapped. */
struct elf {
	const char *bytes;
	size_t size;
	const ElfW(Ehdr) * head;
	const ElfW(Shdr) * sections;
};

static void elf_close(struct elf *e)
{
	if (e->bytes)
		(void)munmap((void *)e->bytes, e->size); /* our own mapping */
}

/* count items of item_size at offset; NULL: they are not all in the file, or not aligned. */
static const void *elf_at(const struct elf *e, uint64_t offset, uint64_t count, size_t item_size)
{
	if (offset > e->size || count > (e->size - offset) / item_size ||
		offset % (item_size > 8 ? 8 : item_size) != 0)
		return NULL;
	return e->bytes + offset;
}

/* A string of a table that ends within it; NULL: it has none there. */
static const char *elf_string(const struct elf *e, const ElfW(Shdr) * strings, uint64_t at)
{
	const char *table = elf_at(e, strings->sh_offset, strings->sh_size, 1);

	if (!table || at >= strings->sh_size || !memchr(table + at, '\0', strings->sh_size - at))
		return NULL;
	return table + at;
}

static const ElfW(Shdr) * elf_find_section(const struct elf *e, uint32_t type)
{
	unsigned i;

	for (i = 0; i < e->head->e_shnum; i++) {
		if (e->sections[i].sh_type == type)
			return &e->sections[i];
	}
	return NULL;
}

/* The table of strings that goes with a section. */
static const ElfW(Shdr) * elf_strings_of(const struct elf *e, const ElfW(Shdr) * section)
{
	return section->sh_link < e->head->e_shnum ? &e->sections[section->sh_link] : NULL;
}

static bool elf_is_library(struct elf *e)
{
	static const unsigned char magic[] = {
		ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32};

	e->head = elf_at(e, 0, 1, sizeof(*e->head));
	return e->head && memcmp(e->head->e_ident, magic, sizeof(magic)) == 0 &&
		e->head->e_type == ET_DYN;
}

static bool elf_has_sections(struct elf *e)
{
	if (e->head->e_shentsize != sizeof(*e->sections) || e->head->e_shnum > SECTIONS_MAX)
		return false;
	e->sections = elf_at(e, e->head->e_shoff, e->head->e_shnum, sizeof(*e->sections));
	return e->sections;
}

static int elf_open(const char *path, struct elf *ret_elf, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	void *at;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "read the plugin '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return err_set_text(err, -ENOEXEC, "'%s' is not a shared object", path);
	r = fs_check_file(fd, path, err);
	if (r < 0)
		return r;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return err_set(err, -errno, "read the plugin '%s'", path);
	ret_elf->bytes = at;
	ret_elf->size = (size_t)st.st_size;
	if (!elf_is_library(ret_elf))
		return err_set_text(
			err, -ENOEXEC, "'%s' is not a shared object of this machine", path);
	if (!elf_has_sections(ret_elf))
		return err_set_text(err, -EBADMSG, "'%s' has sections that can't be read", path);
	return 0;
}

/* ---- its symbols --------------------------------------------------------------------------- */

/* One of them. */
struct elf_symbol {
	const char *name;
	const ElfW(Sym) * at;
	bool versioned;
};

/* While the table is read. */
struct symbols {
	const struct elf *elf;
	struct spank_file *file;
	bool has_name, has_type, has_version;
};

/* The data that a symbol stands for, size bytes; NULL: they are not in the file. */
static const void *elf_data(const struct elf *e, const ElfW(Sym) * symbol, size_t size)
{
	const ElfW(Phdr) *segments =
		elf_at(e, e->head->e_phoff, e->head->e_phnum, sizeof(*segments));
	unsigned i;

	for (i = 0; segments && i < e->head->e_phnum; i++) {
		const ElfW(Phdr) *s = &segments[i];

		if (s->p_type == PT_LOAD && symbol->st_value >= s->p_vaddr &&
			symbol->st_value - s->p_vaddr < s->p_filesz)
			return elf_at(e, s->p_offset + (symbol->st_value - s->p_vaddr), size, 1);
	}
	return NULL;
}

static void take_version(struct symbols *s, const ElfW(Sym) * symbol)
{
	const void *data = elf_data(s->elf, symbol, sizeof(s->file->version));

	if (!data)
		return;
	memcpy(&s->file->version, data, sizeof(s->file->version));
	s->has_version = true;
}

static void take_defined(struct symbols *s, const struct elf_symbol *symbol)
{
	int hook = strv_index(hook_symbols, SPANK_HOOK_MAX, symbol->name);

	if (hook >= 0)
		s->file->hooks |= 1u << hook;
	else if (strcmp(symbol->name, "init") == 0)
		s->file->runs_code = true;
	else if (strcmp(symbol->name, "plugin_name") == 0)
		s->has_name = true;
	else if (strcmp(symbol->name, "plugin_type") == 0)
		s->has_type = true;
	else if (strcmp(symbol->name, "plugin_version") == 0)
		take_version(s, symbol->at);
}

/* What is weak may be missing; what has a version comes from the library that defines it. */
static int take_symbol(struct symbols *s, const struct elf_symbol *symbol)
{
	unsigned binding = ELF64_ST_BIND(symbol->at->st_info); /* the same for 32 bits */

	if (binding != STB_GLOBAL && binding != STB_WEAK)
		return 0;
	if (symbol->at->st_shndx != SHN_UNDEF) {
		take_defined(s, symbol);
		return 0;
	}
	if (binding == STB_WEAK || symbol->versioned)
		return 0;
	if (s->file->undefined.n == UNDEFINED_MAX)
		return -E2BIG;
	return strv_add(&s->file->undefined, symbol->name);
}

static int read_symbols(struct symbols *s)
{
	const struct elf *e = s->elf;
	const ElfW(Shdr) *table = elf_find_section(e, SHT_DYNSYM), *strings;
	const ElfW(Shdr) *versions = elf_find_section(e, SHT_GNU_versym);
	const ElfW(Versym) *version = NULL;
	const ElfW(Sym) * symbols;
	size_t i, n;
	int r = 0;

	strings = table ? elf_strings_of(e, table) : NULL;
	n = table ? table->sh_size / sizeof(*symbols) : 0;
	symbols = table ? elf_at(e, table->sh_offset, n, sizeof(*symbols)) : NULL;
	if (!strings || !symbols)
		return -EBADMSG;
	if (versions && versions->sh_size / sizeof(*version) >= n)
		version = elf_at(e, versions->sh_offset, n, sizeof(*version));
	for (i = 1; r == 0 && i < n; i++) {
		struct elf_symbol symbol = {
			.name = elf_string(e, strings, symbols[i].st_name),
			.at = &symbols[i],
			.versioned = version && (version[i] & ~VERSION_HIDDEN) > VERSION_GLOBAL,
		};

		r = symbol.name ? take_symbol(s, &symbol) : -EBADMSG;
	}
	return r;
}

/* ---- its libraries and constructors -------------------------------------------------------- */

static int read_libraries(struct symbols *s)
{
	const struct elf *e = s->elf;
	const ElfW(Shdr) *table = elf_find_section(e, SHT_DYNAMIC), *strings;
	const ElfW(Dyn) * entries;
	size_t i, n;
	int r = 0;

	strings = table ? elf_strings_of(e, table) : NULL;
	n = table ? table->sh_size / sizeof(*entries) : 0;
	entries = table ? elf_at(e, table->sh_offset, n, sizeof(*entries)) : NULL;
	if (!strings || !entries)
		return -EBADMSG;
	for (i = 0; r == 0 && i < n && entries[i].d_tag != DT_NULL; i++) {
		const char *name;

		if (entries[i].d_tag == DT_INIT_ARRAYSZ &&
			entries[i].d_un.d_val > CONSTRUCTORS_USUAL * sizeof(void *))
			s->file->runs_code = true;
		if (entries[i].d_tag != DT_NEEDED)
			continue;
		name = elf_string(e, strings, entries[i].d_un.d_val);
		r = name ? strv_add(&s->file->libraries, name) : -EBADMSG;
	}
	return r;
}

int spank_file_read(const char *path, struct spank_file *ret_file, struct err *err)
{
	_cleanup_spank_file_ struct spank_file file = {0};
	_cleanup_(elf_close) struct elf elf = {0};
	struct symbols symbols = {.elf = &elf, .file = &file};
	int r = elf_open(path, &elf, err);

	if (r < 0)
		return r;
	r = read_symbols(&symbols);
	if (r == 0)
		r = read_libraries(&symbols);
	if (r < 0)
		return err_set(err, r, "read the symbols of '%s'", path);
	if (!symbols.has_name || !symbols.has_type || !symbols.has_version)
		return err_set_text(err, -ENOEXEC,
			"'%s' is no plugin of Slurm: plugin_name, plugin_type or plugin_version is "
			"missing",
			path);
	*ret_file = take_struct(file);
	return 0;
}
