#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A call of org.stepd.jobs, and what an expression makes of the reply, as json_get of tap.sh does it.

  jobd_call.py [--uid UID] [--gid GID] SOCKET EXPRESSION METHOD [PARAMETERS]

METHOD without a dot is org.stepd.jobs's. In EXPRESSION d is the reply, p its parameters. Exit status: 0; 1
where the expression can't be evaluated, 2 where there is no reply.
"""
import argparse
import json
import sys

import varlink


def main():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("socket")
    parser.add_argument("expression")
    parser.add_argument("method")
    parser.add_argument("parameters", nargs="?", default="{}")
    args = parser.parse_args()
    method = args.method if "." in args.method else "org.stepd.jobs." + args.method
    call = {"method": method, "parameters": json.loads(args.parameters)}
    varlink.become(args.uid, args.gid)
    try:
        s = varlink.connect(args.socket, 120)
        varlink.send(s, json.dumps(call).encode() + b"\0")
        reply = json.loads(next(varlink.frames(s)))
    except (OSError, StopIteration) as e:
        print("jobd_call: no reply to %s: %r" % (method, e), file=sys.stderr)
        return 2
    try:
        value = eval("(%s)" % args.expression, {"d": reply, "p": reply.get("parameters", {})})
    except Exception as e:
        print("jobd_call: %s of %s: %r" % (args.expression, json.dumps(reply), e), file=sys.stderr)
        return 1
    print(value if isinstance(value, str) else json.dumps(value))
    return 0


sys.exit(main())
