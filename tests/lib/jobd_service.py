#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A jobd for tests that a jobd can't be made to be: it replies as it is told, refusals and nonsense
included.

    jobd_service.py SOCKET REPLIES LOG

REPLIES is a JSON object: of each method of org.stepd.jobs the replies to its calls in their order, the
last one for all that follow. A reply is an object, the whole of it, or a text, bytes that are sent as
they are; null ends the connection. LOG gets a line for each call. It prints "ready" once it listens,
and is killed by who started it.
"""
import json
import socket
import sys
import threading


def serve(connection, replies, log):
    pending = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return
        pending += piece
        while b"\0" in pending:
            frame, pending = pending.split(b"\0", 1)
            call = json.loads(frame)
            method = call["method"].rpartition(".")[2]
            log.write(json.dumps(call) + "\n")
            log.flush()
            rest = replies[method]
            reply = rest.pop(0) if len(rest) > 1 else rest[0]
            if reply is None:
                connection.close()
                return
            text = reply if isinstance(reply, str) else json.dumps(reply)
            connection.sendall(text.encode() + b"\0")


def main():
    path, replies, log = sys.argv[1:]
    with open(replies, encoding="utf-8") as f:
        replies = json.load(f)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(8)
    print("ready", flush=True)
    with open(log, "w", encoding="utf-8") as f:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, replies, f), daemon=True).start()


main()
