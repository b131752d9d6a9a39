"""A kernel that tries to get out of what people install: the packaged unit under a real systemd,
and the image of deploy/docker/Dockerfile in a container, with TLS and roles in both.

systemd boots in a Debian folder that has the .deb (systemd-nspawn). The image's folder is made as
the Dockerfile's last stage says, from a fresh Debian, and podman runs it with its usual filter of
system calls and its usual capabilities. Skipped with the reason where one is missing. ASSAY_BUILD
names the build folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import containment_test
import packages_test
import roles_test
import tls_test

DOCKERFILE = os.path.join(os.path.dirname(__file__), "../../deploy/docker/Dockerfile")
REFUSED = ("read the TLS key", "read the roles", "read the store", "read the daemon's memory file",
           "read the daemon's memory", "signal the daemon", "change who may read the store",
           "open an internet socket", "open a Unix socket")
CLIENT = "--tls-ca /root/client/ca.pem --token-file /root/client/token"
ESCAPE = f"run {' '.join(containment_test.GEMM)} --provider planted/escape --format json"

# What is done in the booted system; a file for each answer in /root/out.
BOOTED = f"""
mkdir -p /root/out && cd /root/out
systemctl is-active assayd >active 2>&1
systemctl show assayd --property=StatusText >status 2>&1
assay {ESCAPE} {CLIENT} >escape 2>escape.err
assay qualify quick {CLIENT} >qualify 2>&1; echo "exit $?" >>qualify
systemctl reload assayd >reload 2>&1; echo "exit $?" >>reload
systemctl is-active assayd >still-active 2>&1
systemd-analyze security assayd --no-pager >security 2>&1
systemctl stop assayd >stop 2>&1; echo "exit $?" >>stop
journalctl --unit=assayd --no-pager >journal 2>&1
"""

UNIT = """[Unit]
After=assayd.service
[Service]
Type=oneshot
ExecStart=/bin/sh /root/booted.sh
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
"""


def missing():
    """Why this cannot run here, or an empty string."""
    for program in ("systemd-nspawn", "podman", "runc"):
        if not shutil.which(program):
            return f"no {program}"
    return packages_test.missing()


def last_stage():
    """The Dockerfile's last stage: instruction and its text, continued lines joined."""
    with open(DOCKERFILE, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    stage = text[text.rindex("\nFROM ") + 1:]
    return [line.split(None, 1) for line in stage.splitlines() if line and not line.startswith("#")]


def write_secrets(folder):
    """A certificate, its key, a CA and roles in `folder`; the client's CA and token in `folder`/client."""
    os.makedirs(os.path.join(folder, "client"))
    tls_test.make_certificates(folder)
    roles_test.write(os.path.join(folder, "roles.toml"), roles_test.token("ABC", "admin"))
    roles_test.write(os.path.join(folder, "client", "token"), "ABC")
    shutil.copy(os.path.join(folder, "ca.pem"), os.path.join(folder, "client"))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="assay-installed-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)

    def folder(self, name):
        return os.path.join(self.work, name)

    def check_refused(self, report):
        """Each attempt of the case was refused, and the case says which calls were."""
        (test,) = json.loads(report)["tests"]
        attempts = {f"{verb} {what}": said
                    for verb, what, said in containment_test.ATTEMPT.findall(test["findings"][0]["message"])}
        for attempt in REFUSED:
            said = [s for name, s in attempts.items() if name.startswith(attempt)]
            self.assertTrue(said and all(s.startswith("refused") for s in said), f"{attempt}: {attempts}")
        self.assertLessEqual({"socket(AF_INET)", "socket(AF_UNIX)", "process_vm_readv", "kill"},
                             set(test["refused_calls"]))

    def test_packaged_unit(self):
        made = packages_test.cpack("DEB", "0.0.1", self.folder("deb"))
        (deb,) = (p for p in made if os.path.basename(p).startswith("assay_"))
        root = packages_test.Root(self.folder("booted"), packages_test.codename(),
                                  include=("systemd", "systemd-sysv", "dbus"))
        root.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
        shutil.copy(deb, root.path("/root"))
        root.run("apt-get", "-q", "-o", "Acquire::Retries=5", "update")
        root.run("apt-get", "-q", "-y", "-o", "Acquire::Retries=5", "--no-install-recommends", "install",
                 f"/root/{os.path.basename(deb)}")
        os.unlink(root.path("/usr/sbin/policy-rc.d"))
        # Where an intruder would look, for the configuration that names the files cannot be read.
        write_secrets(root.path("/etc/assay/tls"))
        for here, there in (("tls/client", "/root"), ("tls/roles.toml", "/etc/assay/roles.toml"),
                            ("tls/server.pem", "/etc/assay/tls/tls.crt"), ("tls/server.key", "/etc/assay/tls/tls.key")):
            shutil.move(root.path(f"/etc/assay/{here}"), root.path(there))
        root.run("chown", "-R", "assay:assay", "/etc/assay/tls", "/etc/assay/roles.toml")
        with open(root.path("/etc/assay/assayd.toml"), "a", encoding="utf-8") as file:
            file.write('tls-cert = "/etc/assay/tls/tls.crt"\ntls-key = "/etc/assay/tls/tls.key"\n'
                       'roles-file = "/etc/assay/roles.toml"\n')
        root.write("/root/booted.sh", BOOTED)
        root.write("/etc/systemd/system/booted.service", UNIT)
        os.symlink("/etc/systemd/system/booted.service",
                   root.path("/etc/systemd/system/multi-user.target.wants/booted.service"))
        done = subprocess.run(
            ["systemd-nspawn", "--boot", "--register=no", "--keep-unit", "--private-network", "--settings=no",
             "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
             "--machine=assay-installed-test", "--directory", root.path("/")],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=900)
        if not os.path.exists(root.path("/root/out/journal")):
            self.fail(f"systemd-nspawn ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")

        def said(name):
            return root.read(f"/root/out/{name}")

        self.assertEqual(said("active"), "active\n", said("journal"))
        self.assertRegex(said("status"), r"StatusText=serving 127\.0\.0\.1:7575")
        self.check_refused(said("escape"))
        self.assertRegex(said("qualify"), r"(?m)^QUALIFIED .*cpu:0")
        self.assertRegex(said("qualify"), r"(?m)^exit 0$")
        self.assertEqual((said("reload"), said("still-active")), ("exit 0\n", "active\n"))
        self.assertEqual(said("stop"), "exit 0\n")
        exposure = float(re.search(r"Overall exposure level for assayd\.service: ([0-9.]+)", said("security")).group(1))
        print(f"exposure of the unit: {exposure}", file=sys.stderr)
        self.assertLessEqual(exposure, 2.0)

    def test_image(self):
        image = packages_test.Root(self.folder("image"), packages_test.codename())
        run, settings = [], {}
        for instruction, text in last_stage():
            if instruction == "RUN":
                run.append(text)
            settings[instruction] = text
        for command in run:
            image.run("sh", "-c", command)
        subprocess.run(["cmake", "--install", packages_test.BUILD, "--strip", "--prefix", image.path("/opt/assay")],
                       check=True, capture_output=True)
        user = settings["USER"].split(":")[0]
        write_secrets(self.folder("secrets"))
        state = self.folder("state")
        os.mkdir(state, 0o700)
        subprocess.run(["chown", "-R", f"{user}:{user}", state, self.folder("secrets")], check=True)

        podman = ["podman", "--root", self.folder("podman"), "--runroot", self.folder("podman-run"), "--runtime", "runc"]

        def call(*arguments, check=True):
            done = subprocess.run([*podman, *arguments], capture_output=True, text=True, check=False, timeout=300)
            if check and done.returncode != 0:
                raise AssertionError(f"podman {arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
            return done

        variables = [f"--env={v}" for v in settings["ENV"].replace("$PATH", "/usr/bin:/bin").split()]
        name = f"assay-installed-test-{os.getpid()}"
        entry = json.loads(settings["ENTRYPOINT"])
        self.addCleanup(call, "rm", "--force", "--time=10", name, check=False)
        call("run", "--detach", "--name", name, "--network", "none", "--ulimit", "nofile=4096:4096",
             "--ulimit", "nproc=4096:4096", "--user", settings["USER"], *variables,
             "--volume", f"{state}:{settings['VOLUME']}", "--volume", f"{self.folder('secrets')}:/etc/assay/tls:ro",
             "--entrypoint", entry[0], "--rootfs", image.path("/"), *entry[1:],
             "--tls-cert", "/etc/assay/tls/server.pem", "--tls-key", "/etc/assay/tls/server.key",
             "--roles-file", "/etc/assay/tls/roles.toml")
        client = CLIENT.replace("/root/client", "/etc/assay/tls/client").split()

        def assay(*arguments):
            return call("exec", name, "assay", *arguments, *client, check=False)

        deadline = time.monotonic() + 120
        while (answer := assay("devices", "--reconnect", "0s")).returncode != 0:
            if time.monotonic() > deadline:
                self.fail(f"{answer}\n{call('logs', name, check=False)}")
            time.sleep(0.25)
        self.check_refused(assay(*ESCAPE.split()).stdout)
        judged = assay("run", *containment_test.GEMM, "--provider", "all", "--format", "json")
        self.assertEqual(json.loads(judged.stdout)["passed"], 3, judged)  # built-in, oneDNN, OpenBLAS
        qualified = assay("qualify", "quick")
        self.assertEqual(qualified.returncode, 0, qualified)


if __name__ == "__main__":
    if reason := missing():
        print(f"Skipped: {reason}")
        sys.exit(packages_test.SKIPPED)
    unittest.main(verbosity=2)
