/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what a client of Slurm sends: a hello and requests one behind the other. What is
 * taken of them is what the protocol defines, wherever the bytes are cut: of every shorter piece
 * the parser returns that more has to come, what stands behind a request doesn't matter, and what
 * waits for more always fits what a connection holds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/slurm/wire.h"

#define HELLO_SIZE     ((int)sizeof(int32_t))
#define ADDRESSES_SIZE ((size_t)2 * 128) /* of WIRE_ATTACH */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Memory of just these bytes, for the sanitizer to see a read behind them. */
static void *copy(const void *data, size_t size)
{
	void *bytes = malloc(size ? size : 1);

	require(bytes != NULL);
	if (size)
		memcpy(bytes, data, size);
	return bytes;
}

static int32_t number_at(const uint8_t *data, size_t size, size_t at)
{
	int32_t n = 0;

	if (size >= at + sizeof(n))
		memcpy(&n, data + at, sizeof(n));
	return n;
}

/* Where the length stands of what a completion ends with. */
static size_t accounting_at(uint16_t version)
{
	return 4 * sizeof(int32_t) + (version < WIRE_24_05 ? 0 : sizeof(int32_t) + 1);
}

/* Where the addresses stand of an attachment: behind a certificate, from 25.05 on. */
static size_t addresses_at(const uint8_t *data, size_t size, uint16_t version)
{
	return sizeof(int32_t) +
		(version < WIRE_25_05
				? 0
				: sizeof(int32_t) + (size_t)number_at(data, size, sizeof(int32_t)));
}

/* How long the request is that begins here, by its number alone and, of a signal, a completion, a
 * notice and others, by the length of what comes with it. */
static size_t length_by_protocol(const uint8_t *data, size_t size, uint16_t version)
{
	size_t at;

	switch (number_at(data, size, 0)) {
	case WIRE_SIGNAL:
		return 5 * sizeof(int32_t) + (size_t)number_at(data, size, 3 * sizeof(int32_t));
	case WIRE_COMPLETION:
		return accounting_at(version) + sizeof(int32_t) +
			(size_t)number_at(data, size, accounting_at(version));
	case WIRE_ATTACH: /* two addresses, a key, a uid and a version */
		at = addresses_at(data, size, version) + ADDRESSES_SIZE;
		return at + sizeof(int32_t) + (size_t)number_at(data, size, at) + sizeof(uint32_t) +
			sizeof(uint16_t);
	case WIRE_MEM_UPDATE:
		return sizeof(int32_t) + sizeof(uint64_t);
	case WIRE_NUMBER_NOTIFY:
		return 2 * sizeof(int32_t) + (size_t)number_at(data, size, sizeof(int32_t));
	case WIRE_RECONFIGURE: /* from 23.11 on with addresses of slurmctld */
		return sizeof(int32_t) +
			(version < WIRE_23_11 ? 0
					      : sizeof(int32_t) +
						(size_t)number_at(data, size, sizeof(int32_t)));
	case WIRE_USER:
	case WIRE_GROUPS:
		return 4 * sizeof(int32_t) + (size_t)number_at(data, size, 3 * sizeof(int32_t));
	case WIRE_PID_IN_CONTAINER:
	case WIRE_ADD_PID:
		return 2 * sizeof(int32_t);
	case WIRE_SUSPEND:
	case WIRE_RESUME:
		return sizeof(int32_t) + (version < WIRE_23_11 ? sizeof(uint16_t) : 0);
	default:
		return sizeof(int32_t);
	}
}

/* Parsed in memory of its own; a result that isn't a request leaves the caller's as it was. */
static int parse(const uint8_t *data, size_t size, uint16_t version, struct wire_request *ret)
{
	const struct wire_request before = {
		.kind = WIRE_KIND_MAX, .signal = 1, .flags = 2, .pid = 3};
	_cleanup_free_ void *bytes = copy(data, size);
	int used;

	*ret = before;
	used = wire_parse_request(bytes, size, version, ret);
	require(used > 0 ||
		(ret->kind == before.kind && ret->signal == before.signal &&
			ret->flags == before.flags && ret->pid == before.pid));
	return used;
}

static void check_request(
	const uint8_t *data, size_t used, uint16_t version, const struct wire_request *r)
{
	struct wire_request again;
	size_t cut;

	require(used == length_by_protocol(data, used, version) && used <= WIRE_REQUEST_MAX);
	require(wire_kind_name(r->kind) != NULL);
	require((r->kind == WIRE_NOTIFY ? WIRE_NUMBER_NOTIFY : (int32_t)r->kind) ==
		number_at(data, used, 0));
	if (r->kind == WIRE_SIGNAL)
		require(r->signal == number_at(data, used, 4) &&
			(int32_t)r->flags == number_at(data, used, 8));
	else if (r->kind == WIRE_PID_IN_CONTAINER || r->kind == WIRE_ADD_PID)
		require(r->pid == number_at(data, used, 4));
	else if (r->kind == WIRE_USER || r->kind == WIRE_GROUPS)
		require(r->lookup.match == number_at(data, used, 4) &&
			(int32_t)r->lookup.id == number_at(data, used, 8) &&
			strlen(r->lookup.name) <= WIRE_NAME_MAX);
	else if (r->kind == WIRE_ATTACH)
		require(r->attach.encrypted ==
			(version >= WIRE_25_05 && number_at(data, used, 4) > 0));
	else if (r->kind == WIRE_COMPLETION)
		require(r->first == number_at(data, used, 4) &&
			r->last == number_at(data, used, 8) &&
			r->status == number_at(data, used, 12));
	require(parse(data, used, version, &again) == (int)used);
	require(again.kind == r->kind && again.signal == r->signal && again.flags == r->flags &&
		again.pid == r->pid);
	for (cut = 0; cut < used; cut++)
		require(wire_parse_request(data, cut, version, &again) == 0);
	require(parse(data, used - 1, version, &again) == 0);
}

/* Of an attachment. */
static bool has_long_parts(const uint8_t *data, size_t size, uint16_t version)
{
	int32_t certificate = version < WIRE_25_05 ? 0 : number_at(data, size, sizeof(int32_t)),
		key;

	if (certificate < 0 || certificate > WIRE_CERTIFICATE_MAX)
		return true;
	key = number_at(data, size, addresses_at(data, size, version) + ADDRESSES_SIZE);
	return key < 0 || key > WIRE_KEY_MAX;
}

/* Requests that came with a later release. */
static bool is_of_later(int32_t kind, uint16_t version)
{
	if (kind == WIRE_SLUID || kind == WIRE_NAMESPACES)
		return version < WIRE_25_11;
	return kind == WIRE_MEM_UPDATE && version < WIRE_26_05;
}

static bool is_too_long(const uint8_t *data, size_t size, uint16_t version)
{
	int32_t kind = number_at(data, size, 0),
		details = number_at(data, size, 3 * sizeof(int32_t)),
		text = number_at(data, size, sizeof(int32_t)),
		accounting = number_at(data, size, accounting_at(version));

	if (kind == WIRE_ATTACH)
		return has_long_parts(data, size, version);
	if (kind == WIRE_COMPLETION)
		return accounting < 0 || accounting > WIRE_ACCOUNTING_MAX;
	if (kind == WIRE_RECONFIGURE)
		return version >= WIRE_23_11 && (text < 0 || text > WIRE_CONTROLLERS_MAX);
	if (kind == WIRE_NUMBER_NOTIFY)
		return text < 0 || text > WIRE_DETAILS_MAX;
	if (kind == WIRE_USER || kind == WIRE_GROUPS)
		return details < 0 || details > WIRE_NAME_MAX;
	return kind == WIRE_SIGNAL && (details < 0 || details > WIRE_DETAILS_MAX);
}

static void check_refusal(const uint8_t *data, size_t size, uint16_t version, int error)
{
	int32_t kind = number_at(data, size, 0);

	require(size >= sizeof(int32_t));
	if (error == -EMSGSIZE)
		require(is_too_long(data, size, version));
	else
		require(error == -EOPNOTSUPP &&
			(!wire_kind_name(kind) || kind == WIRE_NOTIFY ||
				is_of_later(kind, version)));
}

static void check_requests(const uint8_t *data, size_t size, uint16_t version)
{
	struct wire_request r;
	int used;

	while ((used = parse(data, size, version, &r)) > 0) {
		require((size_t)used <= size);
		check_request(data, (size_t)used, version, &r);
		data += used;
		size -= (size_t)used;
	}
	if (used < 0)
		check_refusal(data, size, version, used);
	else
		require(size < sizeof(int32_t) || size < length_by_protocol(data, size, version));
	require(used < 0 || size < WIRE_REQUEST_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece = size < HELLO_SIZE ? size : HELLO_SIZE;
	_cleanup_free_ void *hello = copy(data, piece);
	int32_t wanted = number_at(data, size, 0);
	uint16_t version = 0;
	int used = wire_parse_hello(hello, piece, &version);

	if (used <= 0) {
		require(version == 0 && used == (size < HELLO_SIZE ? 0 : -EPROTONOSUPPORT));
		require(size < HELLO_SIZE || wanted < WIRE_22_05);
		return 0;
	}
	require(used == HELLO_SIZE && version >= WIRE_22_05 && version <= WIRE_26_11);
	require(version == wanted || wanted > WIRE_26_11);
	check_requests(data + used, size - (size_t)used, version);
	return 0;
}
