/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/interpose.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if __ELF_NATIVE_CLASS == 64
#define RELOC_SYMBOL(info) ELF64_R_SYM(info)
#else
#define RELOC_SYMBOL(info) ELF32_R_SYM(info)
#endif

struct table {
	uintptr_t at;
	size_t size, entry_size;
};

struct library {
	uintptr_t wanted; /* an address in it */
	uintptr_t base;
	const ElfW(Dyn) * dynamic;
	uintptr_t relro, relro_end; /* read-only once it is relocated */
	const ElfW(Sym) * symbols;
	const char *strings;
	struct table plt, data;
};

/* ---- where it is ---- */

static bool has_address(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static int on_library(struct dl_phdr_info *info, _unused_ size_t size, void *userdata)
{
	struct library *l = userdata;

	if (!has_address(info, l->wanted))
		return 0;
	l->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC)
			l->dynamic = (const void *)(l->base + p->p_vaddr);
		if (p->p_type == PT_GNU_RELRO) {
			l->relro = l->base + p->p_vaddr;
			l->relro_end = l->relro + p->p_memsz;
		}
	}
	return 1;
}

/* Most machines have addresses there once it is loaded; some leave offsets. */
static uintptr_t to_address(const struct library *l, uintptr_t value)
{
	return value < l->base ? l->base + value : value;
}

static void read_dynamic(struct library *l)
{
	l->plt.entry_size = sizeof(ElfW(Rela));
	for (const ElfW(Dyn) *d = l->dynamic; d && d->d_tag != DT_NULL; d++) {
		uintptr_t value = d->d_un.d_val;

		if (d->d_tag == DT_SYMTAB)
			l->symbols = (const void *)to_address(l, value);
		else if (d->d_tag == DT_STRTAB)
			l->strings = (const void *)to_address(l, value);
		else if (d->d_tag == DT_JMPREL)
			l->plt.at = to_address(l, value);
		else if (d->d_tag == DT_PLTRELSZ)
			l->plt.size = value;
		else if (d->d_tag == DT_PLTREL && value == DT_REL)
			l->plt.entry_size = sizeof(ElfW(Rel));
		else if (d->d_tag == DT_RELA || d->d_tag == DT_REL)
			l->data.at = to_address(l, value);
		else if (d->d_tag == DT_RELASZ || d->d_tag == DT_RELSZ)
			l->data.size = value;
		else if (d->d_tag == DT_RELAENT || d->d_tag == DT_RELENT)
			l->data.entry_size = value;
	}
}

/* ---- its slots ---- */

static int write_slot(const struct library *l, uintptr_t slot, void *function)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE), page = slot & ~(page_size - 1);
	bool is_sealed =
		slot >= (l->relro & ~(page_size - 1)) && slot < (l->relro_end & ~(page_size - 1));

	if (is_sealed && mprotect((void *)page, page_size, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	atomic_store((_Atomic(void *) *)slot, function);
	if (is_sealed && mprotect((void *)page, page_size, PROT_READ) < 0)
		return -errno;
	return 0;
}

/* How many have been written, or -errno. */
static int write_slots(
	const struct library *l, const struct table *t, const char *symbol, void *function)
{
	int count = 0, r;

	for (size_t at = 0; t->at && t->entry_size && at + t->entry_size <= t->size;
		at += t->entry_size) {
		const ElfW(Rel) *reloc = (const void *)(t->at + at); /* a Rela begins like that */
		const ElfW(Sym) *s = &l->symbols[RELOC_SYMBOL(reloc->r_info)];

		/* Most are the library's own addresses, without a name. */
		if (s->st_shndx != SHN_UNDEF || s->st_name == 0 ||
			strcmp(l->strings + s->st_name, symbol) != 0)
			continue;
		r = write_slot(l, l->base + reloc->r_offset, function);
		if (r < 0)
			return r;
		count++;
	}
	return count;
}

int interpose(const void *address, const char *symbol, void *function, struct err *err)
{
	struct library l = {.wanted = (uintptr_t)address};
	int in_plt, in_data;

	(void)dl_iterate_phdr(on_library, &l);
	read_dynamic(&l);
	if (!l.symbols || !l.strings)
		return err_set_text(
			err, -ENOENT, "the library of '%s' has no symbol table", symbol);
	in_plt = write_slots(&l, &l.plt, symbol, function);
	in_data = in_plt < 0 ? in_plt : write_slots(&l, &l.data, symbol, function);
	if (in_data < 0)
		return err_set(err, in_data, "replace '%s' in a library", symbol);
	if (in_plt + in_data == 0)
		return err_set_text(err, -ENOENT, "the library does not call '%s'", symbol);
	return 0;
}
