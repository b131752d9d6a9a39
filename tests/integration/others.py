"""What others do on this machine while a test takes a time: a slow machine and a busy one fail no test."""

import os
import resource


def ticks_of(pid):
    """The processor time of a process and its children [ticks]; those that live, and those that it waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            used = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15]))
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                used += sum(ticks_of(int(child)) for child in file.read().split())
        return used
    except OSError:  # it has ended
        return 0


class Others:
    """The share of the machine's processors that others had since this began: all but this process, the
    children that it waited for, and `pids` with their children. Another machine on the same host counts, too."""

    def __init__(self, *pids):
        self.pids = pids
        self.begin = self._look()

    def _look(self):
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, idle, wait, irq, soft, steal = map(int, file.readline().split()[1:9])
        busy = user + nice + system + irq + soft + steal
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(u.ru_utime + u.ru_stime for u in usage) * os.sysconf("SC_CLK_TCK")
        return busy + idle + wait, busy, own + sum(map(ticks_of, self.pids))

    def share(self, *more):
        """`more`: processes that began since, and are none of the others."""
        total, busy, own = (now - then for now, then in zip(self._look(), self.begin))
        return max(0.0, busy - own - sum(map(ticks_of, more))) / max(total, 1)
