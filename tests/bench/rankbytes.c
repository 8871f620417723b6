/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of many ranks that shows which byte of which rank is lost, doubled or in another's place,
 * and needs no memory for that. As a task, rankbytes [-l] MIB writes so many MiB, which follow from
 * its SLURM_PROCID and each byte's position; as a reader, rankbytes -c RANKS [-l] MIB compares
 * standard input with those of so many ranks, and ends with 1 and a sentence at the first
 * difference.
 *
 * Without labels (64 ranks at most) a byte has the rank in its upper six bits and two bits of the
 * rank's pattern below, so streams can be mixed at any byte. With -l the ranks write lines of 1 to
 * 2,000 bytes that begin with their number, and the reader expects "RANK: " before each.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX     64
#define PATTERN_BYTES 65521u /* a prime: no buffer's size divides it */
#define LINE_MAX_LEN  2000u

static uint8_t pattern[PATTERN_BYTES];

/* Numerical Recipes' generator: what matters is that it is the same everywhere. */
static void fill_pattern(void)
{
	uint32_t x = 1;
	size_t i;

	for (i = 0; i < sizeof(pattern); i++) {
		x = x * 1664525u + 1013904223u;
		pattern[i] = (uint8_t)(x >> 24);
	}
}

/* ---- what a rank writes -----------------------------------------------------------------------
 */

static uint8_t byte_at(unsigned rank, uint64_t position)
{
	return (uint8_t)(rank << 2 | (pattern[(position + rank * 977u) % PATTERN_BYTES] & 3));
}

/* Line number "line" of a rank, in buf, with its newline: what it has is its length. */
static size_t make_line(char *buf, unsigned rank, uint64_t line)
{
	size_t at = (size_t)((line * 131 + rank * 977u) % (PATTERN_BYTES - LINE_MAX_LEN));
	size_t len, i;
	int n = snprintf(buf, LINE_MAX_LEN, "%llu ", (unsigned long long)line);

	len = (size_t)n +
		(pattern[at] | (size_t)pattern[at + 1] << 8) % (LINE_MAX_LEN - 1 - (size_t)n);
	for (i = (size_t)n; i < len; i++)
		buf[i] = (char)(' ' + pattern[at + i] % 95);
	buf[len++] = '\n';
	return len;
}

static int write_all(const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	for (; size > 0; p += n, size -= (size_t)n) {
		n = write(1, p, size);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n < 0)
			n = 0;
	}
	return 0;
}

static int write_rank(unsigned rank, uint64_t bytes, bool lines)
{
	static char buf[65536 + LINE_MAX_LEN];
	uint64_t done, line = 0;
	size_t used;

	for (done = 0; done < bytes; done += used) {
		used = 0;
		while (used < 65536 && done + used < bytes) {
			if (lines)
				used += make_line(buf + used, rank, line++);
			else {
				buf[used] = (char)byte_at(rank, done + used);
				used++;
			}
		}
		if (write_all(buf, used) < 0) {
			perror("rankbytes: write");
			return 1;
		}
	}
	return 0;
}

/* ---- the reader -------------------------------------------------------------------------------
 */

struct stream {
	uint64_t bytes, lines;
};

static struct stream streams[RANKS_MAX];

static int differs(unsigned rank)
{
	(void)fprintf(stderr, "rankbytes: rank %u differs at byte %llu, line %llu\n", rank,
		(unsigned long long)streams[rank].bytes, (unsigned long long)streams[rank].lines);
	return 1;
}

static int check_bytes(unsigned ranks)
{
	static uint8_t buf[1 << 18];
	unsigned rank;
	ssize_t n, i;

	while ((n = read(0, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++) {
			rank = buf[i] >> 2;
			if (rank >= ranks || buf[i] != byte_at(rank, streams[rank].bytes))
				return differs(rank);
			streams[rank].bytes++;
		}
	}
	return 0;
}

static int check_lines(unsigned ranks)
{
	static char expected[LINE_MAX_LEN + 1];
	char *line = NULL, *text;
	size_t capacity = 0, len;
	unsigned long rank;
	ssize_t n;
	int r = 0;

	while (!r && (n = getline(&line, &capacity, stdin)) > 0) {
		rank = strtoul(line, &text, 10);
		if (rank >= ranks || strncmp(text, ": ", 2) != 0) {
			(void)fprintf(stderr, "rankbytes: a line without a label: %.60s\n", line);
			r = 1;
			break;
		}
		text += 2;
		len = make_line(expected, (unsigned)rank, streams[rank].lines);
		if ((size_t)(line + n - text) != len || memcmp(text, expected, len) != 0)
			r = differs((unsigned)rank);
		streams[rank].bytes += len;
		streams[rank].lines++;
	}
	free(line);
	return r;
}

static int check(unsigned ranks, uint64_t bytes, bool lines)
{
	unsigned i;

	if (lines ? check_lines(ranks) : check_bytes(ranks))
		return 1;
	for (i = 0; i < ranks; i++) {
		/* The last line ends behind the size that was asked for. */
		if (streams[i].bytes >= bytes && (lines || streams[i].bytes == bytes))
			continue;
		(void)fprintf(stderr, "rankbytes: rank %u ends after %llu bytes of %llu\n", i,
			(unsigned long long)streams[i].bytes, (unsigned long long)bytes);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("SLURM_PROCID");
	unsigned ranks = 0;
	bool lines = false;
	uint64_t bytes;
	int opt;

	while ((opt = getopt(argc, argv, "c:l")) != -1) {
		if (opt == 'c')
			ranks = (unsigned)strtoul(optarg, NULL, 10);
		else if (opt == 'l')
			lines = true;
		else
			ranks = RANKS_MAX + 1;
	}
	if (argc - optind != 1 || ranks > RANKS_MAX || (!ranks && !rank)) {
		(void)fprintf(stderr, "Usage: rankbytes [-c RANKS] [-l] MIB\n");
		return 2;
	}
	bytes = strtoull(argv[optind], NULL, 10) << 20;
	fill_pattern();
	if (ranks)
		return check(ranks, bytes, lines);
	return write_rank((unsigned)strtoul(rank, NULL, 10), bytes, lines);
}
