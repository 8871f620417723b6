/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/linked.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/rawcall.h"

/* More than any program has; what is beyond is not read. */
#define SEGMENTS_MAX 64u
#define ENTRIES_MAX  256u
#define NAMES_MAX    64u
#define ENTRIES_READ 32u

/* The first that fits. libmpi.so.12 is the name that MPICH, Intel MPI and MVAPICH have agreed on.
 */
static const struct {
	const char *name; /* begins so */
	const char *plugin;
} libraries[] = {
	{"libmpich.so", "pmi2"},
	{"libmpi.so.12", "pmi2"},
	{"libmpi.so", "pmix"},
	{"libpmix.so", "pmix"},
	{"libpmi2.so", "pmi2"},
	{"libpmi.so", "pmi2"},
};

#define NAME_SIZE 16u /* of which the longest above has less */

struct dynamic {
	uint64_t offset, size; /* in the file */
	uint64_t strings;      /* address of the names, 0: none */
	uint64_t names[NAMES_MAX];
	unsigned names_count;
};

static bool read_at(int fd, void *into, size_t size, uint64_t offset)
{
	return rawcall(SYS_pread64, fd, into, size, offset) == (long)size;
}

/* A program header; false: there is none of that number. */
static bool read_segment(int fd, const Elf64_Ehdr *head, unsigned i, Elf64_Phdr *segment)
{
	return i < head->e_phnum && i < SEGMENTS_MAX &&
		read_at(fd, segment, sizeof(*segment), head->e_phoff + i * sizeof(*segment));
}

static bool find_dynamic(int fd, const Elf64_Ehdr *head, struct dynamic *d)
{
	Elf64_Phdr segment;
	unsigned i;

	for (i = 0; read_segment(fd, head, i, &segment); i++) {
		if (segment.p_type != PT_DYNAMIC)
			continue;
		d->offset = segment.p_offset;
		d->size = segment.p_filesz;
		return true;
	}
	return false;
}

/* Where in the file the byte of this address is; 0: nowhere. */
static uint64_t find_offset(int fd, const Elf64_Ehdr *head, uint64_t address)
{
	Elf64_Phdr segment;
	unsigned i;

	for (i = 0; read_segment(fd, head, i, &segment); i++) {
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
			address - segment.p_vaddr < segment.p_filesz)
			return segment.p_offset + (address - segment.p_vaddr);
	}
	return 0;
}

/* False: it was the last one. */
static bool take_entry(struct dynamic *d, const Elf64_Dyn *entry)
{
	if (entry->d_tag == DT_NEEDED && d->names_count < NAMES_MAX)
		d->names[d->names_count++] = entry->d_un.d_val;
	else if (entry->d_tag == DT_STRTAB)
		d->strings = entry->d_un.d_ptr;
	return entry->d_tag != DT_NULL;
}

static void read_dynamic(int fd, struct dynamic *d)
{
	Elf64_Dyn entries[ENTRIES_READ];
	uint64_t at;
	long n, i;

	for (at = 0; at < d->size && at < ENTRIES_MAX * sizeof(entries[0]); at += sizeof(entries)) {
		n = rawcall(SYS_pread64, fd, entries, sizeof(entries), d->offset + at);
		for (i = 0; i < n / (long)sizeof(entries[0]); i++) {
			if (!take_entry(d, &entries[i]))
				return;
		}
		if (n < (long)sizeof(entries))
			return;
	}
}

/* The number of the library of this name. */
static unsigned find_library(const char *name)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(libraries); i++) {
		if (strncmp(name, libraries[i].name, strlen(libraries[i].name)) == 0)
			return i + 1;
	}
	return 0;
}

unsigned linked_detect(int fd)
{
	char name[NAME_SIZE + 1];
	struct dynamic d = {0};
	Elf64_Ehdr head;
	unsigned i, number = 0;
	uint64_t strings;
	long n;

	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
		!find_dynamic(fd, &head, &d))
		return 0;
	read_dynamic(fd, &d);
	strings = d.strings ? find_offset(fd, &head, d.strings) : 0;
	for (i = 0; strings && number == 0 && i < d.names_count; i++) {
		n = rawcall(SYS_pread64, fd, name, NAME_SIZE, strings + d.names[i]);
		name[n > 0 ? n : 0] = '\0';
		number = find_library(name);
	}
	return number;
}

const char *linked_library(unsigned number)
{
	return number > 0 && number <= ARRAY_SIZE(libraries) ? libraries[number - 1].name : NULL;
}

const char *linked_plugin(unsigned number)
{
	return number > 0 && number <= ARRAY_SIZE(libraries) ? libraries[number - 1].plugin : NULL;
}
