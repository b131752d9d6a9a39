#!/usr/bin/env python3
"""Runs a program for which landlock's system calls do not exist, as on an older Linux.

    without_landlock.py PROGRAM [ARGUMENT…]

A seccomp filter of the kernel's own plain form: three numbers are answered with ENOSYS.
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
LANDLOCK = (444, 445, 446)  # the same on every processor


def main():
    lines = [(LOAD, 0, 0, 0)]  # the number of the call
    for place, number in enumerate(LANDLOCK):
        lines.append((JUMP_EQUAL, len(LANDLOCK) - place, 0, number))
    lines += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
