/* SPDX-License-Identifier: BSD-3-Clause
 *
 * org.varlink.service, which every Varlink service has (https://varlink.org/Service): what it is
 * and which interfaces it speaks. Everybody may ask.
 */
#include <string.h>

#include "stepd/control/control_impl.h"

static const char service_description[] =
	"# What every Varlink service answers.\n"
	"interface org.varlink.service\n"
	"\n"
	"# Who made the service, and the interfaces it has.\n"
	"method GetInfo() -> (\n"
	"  vendor: string,\n"
	"  product: string,\n"
	"  version: string,\n"
	"  url: string,\n"
	"  interfaces: []string\n"
	")\n"
	"\n"
	"# The text of an interface.\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"error InterfaceNotFound (interface: string)\n"
	"\n"
	"error MethodNotFound (method: string)\n"
	"\n"
	"error MethodNotImplemented (method: string)\n"
	"\n"
	"error InvalidParameter (parameter: string)\n"
	"\n"
	"error PermissionDenied ()\n"
	"\n"
	"# The method is called with more only.\n"
	"error ExpectedMore ()\n";

static void get_info(
	struct control_call *call, _unused_ const json_t *parameters, _unused_ void *userdata)
{
	const struct control_options *o = &call->conn->control->options;
	json_t *reply = json_pack("{s:s, s:s, s:s, s:s, s:[s, s]}", "vendor", o->vendor, "product",
		o->product, "version", o->version, "url", o->url, "interfaces", SERVICE_INTERFACE,
		o->interface);

	if (!reply)
		control_no_memory(call);
	else
		control_reply_take(call, reply);
}

static void get_description(
	struct control_call *call, const json_t *parameters, _unused_ void *userdata)
{
	const struct control_options *o = &call->conn->control->options;
	const char *interface = json_string_value(json_object_get(parameters, "interface"));
	const char *text = NULL;
	json_t *reply;

	if (strcmp(interface, SERVICE_INTERFACE) == 0)
		text = service_description;
	else if (strcmp(interface, o->interface) == 0)
		text = o->description;
	if (!text) {
		reply_error(call, SERVICE_INTERFACE ".InterfaceNotFound", "interface", interface);
		return;
	}
	reply = json_pack("{s:s}", "description", text);
	if (!reply)
		control_no_memory(call);
	else
		control_reply_take(call, reply);
}

const struct control_method service_methods[] = {
	{.name = "GetInfo", .access = CONTROL_EVERYBODY, .run = get_info},
	{.name = "GetInterfaceDescription",
		.access = CONTROL_EVERYBODY,
		.parameters = {{"interface", CONTROL_STRING, false}},
		.run = get_description},
};
const size_t service_methods_count = ARRAY_SIZE(service_methods);
