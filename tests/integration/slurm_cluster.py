"""A Slurm of its own on loopback: munged, slurmctld, and a slurmd for each node name.

All in one folder, at ports the system chose, ended by their own process ids. Needs root: slurmd
starts jobs as their users.
"""

import os
import shutil
import socket
import subprocess

import harness

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo")
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"

CONFIGURATION = """
ClusterName=assay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
ReturnToService=1
KillWait=1
SchedulerParameters=sched_interval=1,batch_sched_delay=0
PrologEpilogTimeout=120
{more}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """What keeps a Slurm from running here; None if nothing."""
    path = os.environ.get("PATH", "") + ":" + SBIN
    for program in PROGRAMS:
        if not shutil.which(program, path=path):
            return f"{program} is not installed (deploy/setup test)"
    if os.geteuid() != 0:
        return "slurmd needs root"
    return None


class Cluster:
    def __init__(self, folder, nodes, more=""):
        self.folder, self.nodes = folder, nodes
        self.running = {}
        ports = harness.free_ports(len(nodes) + 1)
        host = socket.gethostname()
        lines = [f"NodeName={node} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs=2 Gres=gpu:1"
                 for node, port in zip(nodes, ports[1:])]
        self._write("slurm.conf", CONFIGURATION.format(folder=folder, host=host, controller_port=ports[0],
                                                       nodes="\n".join(lines), more=more))
        self._write("gres.conf", "Name=gpu File=/dev/null\n")
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        os.makedirs(f"{folder}/state")
        for node in nodes:
            os.makedirs(f"{folder}/spool-{node}")
        with open(f"{folder}/munge.key", "wb") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(128))
        self.environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf",
                            "PATH": os.environ.get("PATH", "") + ":" + SBIN}

    def start(self):
        self._spawn("munged", "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                    f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid",
                    f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        harness.wait_until(lambda: os.path.exists(f"{self.folder}/munge.socket"), 10, "munged's socket")
        self.start_controller()
        for node in self.nodes:
            self._spawn(node, "slurmd", "-D", "-N", node)
        harness.wait_until(lambda: all(self.state(n)[0] == "IDLE" for n in self.nodes), 30,
                           "every node idle\n" + self.logs())

    def start_controller(self):
        self._spawn("slurmctld", "slurmctld", "-D")
        harness.wait_until(lambda: self.run("scontrol", "ping").code == 0, 20, "slurmctld answers")

    def stop_controller(self):
        self._end("slurmctld")

    def stop(self):
        for name in [*self.nodes, "slurmctld", "munged"]:
            self._end(name)

    def run(self, *command, timeout=harness.LONG, environment=None):
        return harness.Result(subprocess.run(
            command, env={**self.environment, **(environment or {})}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=timeout, check=False))

    def state(self, node):
        """("IDLE+DRAIN", "its reason"); the reason is empty where there is none."""
        said = self.run("scontrol", "-o", "show", "node", node).out
        state = said.partition(" State=")[2].partition(" ")[0]
        reason = said.partition(" Reason=")[2].rpartition(" [")[0]
        return state, reason

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as log:
                    text += f"--- {name}\n{log.read()[-3000:]}"
        return text

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _spawn(self, name, *command):
        with open(f"{self.folder}/{name}.out.log", "ab") as log:
            # pylint: disable=consider-using-with
            self.running[name] = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                                  stdout=log, stderr=log)

    def _end(self, name):
        process = self.running.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
