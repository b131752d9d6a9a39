"""The packages, on machines made for them: what is installed, upgraded, removed and purged
in a fresh Debian folder, and the tree with its own libraries on the next Debian.

Needs root, debootstrap and a mirror; skipped with the reason where one is missing.
ASSAY_BUILD names the build folder. Every command in a folder runs in a mount namespace of
its own, so that nothing stays mounted.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(os.environ.get("ASSAY_BUILD", "build/dev"))
SKIPPED = 77

SMOKE = r"""
set -e
state=$(mktemp -d)
"$1" --listen 127.0.0.1:0 --metrics-listen off --state-dir "$state" >"$state/ready" 2>"$state/log" &
daemon=$!
for _ in $(seq 2400); do grep -q '^assayd ready' "$state/ready" && break; sleep 0.05; done
ASSAY_TARGET=$(sed -nE 's/.*grpc ([^,]*).*/\1/p' "$state/ready")
export ASSAY_TARGET
"$2" run gemm --m 64 --n 64 --k 64 --dtype fp32 --provider all --format json || status=$?
kill -TERM $daemon
wait $daemon
rm -rf "$state"
exit ${status:-0}
"""

PYTHON_SMOKE = """
import assay, numpy
with assay.Daemon() as daemon, assay.connect(daemon.target) as client:
    a = numpy.ones((8, 8), "f4")
    print(assay.assert_close(a @ a, op="gemm", inputs=(a, a), client=client).verdict)
"""

# Takes the place of systemctl where systemd does not run, and keeps what it was asked.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>/tmp/systemctl.calls
case "$*" in *is-active*) exit 0 ;; *--property*) exit 1 ;; esac
exit 0
"""


def codename():
    with open("/etc/os-release", encoding="utf-8") as release:
        return dict(line.strip().split("=", 1) for line in release if "=" in line).get("VERSION_CODENAME", "")


def mirror():
    said = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=False).stdout
    found = re.search(rf"(https?://\S+) {codename()}/main", said)
    return found.group(1) if found else "http://deb.debian.org/debian"


def missing():
    """Why this cannot run here, or an empty string."""
    if os.geteuid() != 0:
        return "not root: debootstrap and chroot need it"
    for program in ("debootstrap", "unshare", "cpack", "dpkg-shlibdeps"):
        if not shutil.which(program):
            return f"no {program}"
    entered = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if entered.returncode != 0:
        return f"no mount namespace can be made here: {entered.stderr.strip()}"
    if not codename():
        return "/etc/os-release names no Debian release"
    return ""


class Root:
    """A folder with a Debian in it."""

    def __init__(self, folder, suite, include=()):
        self.folder = folder
        command = ["debootstrap", "--variant=minbase"]
        if include:
            command.append("--include=" + ",".join(include))
        done = subprocess.run([*command, suite, folder, mirror()], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"debootstrap {suite}: {done.stdout.strip().splitlines()[-1:]}")
        if os.path.exists("/etc/resolv.conf"):
            shutil.copy("/etc/resolv.conf", os.path.join(folder, "etc/resolv.conf"))

    def path(self, name):
        return os.path.join(self.folder, name.lstrip("/"))

    def run(self, *command, check=True, text_input=None):
        enter = 'mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", enter, self.folder, *command], text=True, input=text_input,
            capture_output=True, check=False, timeout=600,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                 "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"})
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)


def cpack(generator, version, folder):
    """Makes the packages of a version; their paths."""
    done = subprocess.run(["cpack", "-G", generator, "-B", folder, "-D", f"CPACK_PACKAGE_VERSION={version}"],
                          cwd=BUILD, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"cpack -G {generator} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return sorted(glob.glob(os.path.join(folder, "assay*")))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="assay-packages-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)

    def folder(self, name):
        return os.path.join(self.work, name)

    def check_works(self, root, prefix):
        done = root.run("bash", "-s", "--", f"{prefix}/bin/assayd", f"{prefix}/bin/assay", text_input=SMOKE)
        self.assertIn('"passed": 3', done.stdout, done.stdout)  # built-in, oneDNN, OpenBLAS

    def test_deb(self):
        def package(version):
            made = cpack("DEB", version, self.folder(version))
            return next(p for p in made if os.path.basename(p).startswith("assay_"))

        first, second = package("0.0.1"), package("0.0.2")
        # systemd's programs are there, as in any Debian; that it runs is played below.
        root = Root(self.folder("deb"), codename(), include=("systemd", "man-db"))
        root.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 0\n", 0o755)
        root.run("apt-get", "-q", "-o", "Acquire::Retries=5", "update")

        def install(deb):
            shutil.copy(deb, root.path("/tmp"))
            root.run("apt-get", "-q", "-y", "-o", "Acquire::Retries=5", "--no-install-recommends", "install", f"/tmp/{os.path.basename(deb)}")

        with self.subTest("installed where systemd does not run"):
            install(first)
            self.check_works(root, "/usr")
            self.assertRegex(root.run("id", "assay").stdout, r"uid=\d+\(assay\) gid=\d+\(assay\)")
            self.assertEqual(root.run("stat", "-c", "%U %a", "/var/lib/assay").stdout, "assay 700\n")
            self.assertTrue(os.path.islink(root.path("/etc/systemd/system/multi-user.target.wants/assayd.service")))
            self.assertFalse(os.path.lexists(root.path("/etc/systemd/system/timers.target.wants/assay-nightly.timer")))
            self.assertIn("--listen", root.run("man", "-P", "cat", "assayd").stdout)

        with self.subTest("systemd finds no fault in the units"):
            units = sorted(os.path.basename(p) for p in glob.glob(root.path("/usr/lib/systemd/system/assay*")))
            self.assertEqual(units, ["assay-failed@.service", "assay-nightly.service", "assay-nightly.timer",
                                     "assayd.service"])
            done = root.run("systemd-analyze", "verify", "--man=no", "assayd.service", "assay-nightly.timer",
                            "assay-failed@assayd.service", check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

        with self.subTest("the Python package starts the daemon that is installed"):
            (python,) = glob.glob(os.path.join(self.folder("0.0.1"), "python3-assay_*_all.deb"))
            install(python)
            said = root.run("python3", "-c", PYTHON_SMOKE)
            self.assertIn("PASSED", said.stdout)
            root.run("apt-get", "-q", "-y", "purge", "python3-assay")

        with self.subTest("upgraded where systemd runs: state and edits are kept"):
            edited = root.read("/etc/assay/assayd.toml") + 'log-level = "debug"\n'
            root.write("/etc/assay/assayd.toml", edited)
            root.write("/var/lib/assay/kept", "a result\n")
            os.makedirs(root.path("/run/systemd/system"), exist_ok=True)
            os.unlink(root.path("/usr/bin/systemctl"))
            root.write("/usr/bin/systemctl", SYSTEMCTL, 0o755)
            install(second)
            calls = root.read("/tmp/systemctl.calls")
            self.assertIn("daemon-reload", calls)
            self.assertRegex(calls, r"(?m)\brestart assayd\.service$")
            self.assertNotRegex(calls, r"(?m)\bstop\b")
            self.assertEqual(root.read("/etc/assay/assayd.toml"), edited)
            self.assertEqual(root.read("/var/lib/assay/kept"), "a result\n")
            self.assertIn("0.0.2", root.run("dpkg-query", "-W", "assay").stdout)
            root.run("assayd", "--help")

        with self.subTest("an operator's decision against the service outlives an upgrade"):
            os.unlink(root.path("/etc/systemd/system/multi-user.target.wants/assayd.service"))  # systemctl disable
            root.run("dpkg", "-i", f"/tmp/{os.path.basename(second)}")
            self.assertFalse(os.path.lexists(root.path("/etc/systemd/system/multi-user.target.wants/assayd.service")))

        with self.subTest("removed: stopped first, configuration and state are kept"):
            os.unlink(root.path("/tmp/systemctl.calls"))
            root.run("apt-get", "-q", "-y", "remove", "assay")
            self.assertRegex(root.read("/tmp/systemctl.calls"), r"(?m)\bstop\b.*\bassayd\.service")
            self.assertEqual(root.read("/etc/assay/assayd.toml"), edited)
            self.assertTrue(os.path.exists(root.path("/var/lib/assay/kept")))
            for gone in ("/usr/bin/assay", "/usr/bin/assayd", "/usr/libexec/assay", "/usr/lib/assay",
                         "/usr/share/assay", "/usr/lib/systemd/system/assayd.service"):
                self.assertFalse(os.path.lexists(root.path(gone)), gone)

        with self.subTest("purged: nothing is left but the user"):
            root.run("apt-get", "-q", "-y", "purge", "assay")
            left = [line for line in root.run("find", "/etc", "/usr", "/var/lib", "-path", "/var/lib/apt", "-prune",
                                              "-o", "-name", "*assay*", "-print").stdout.splitlines()]
            self.assertEqual(left, [])
            self.assertIn("assay", root.run("getent", "passwd", "assay").stdout)

    def test_tree_on_the_next_debian(self):
        archives = [p for p in cpack("TGZ", "0.0.1", self.folder("tgz")) if p.endswith(".tar.gz")]
        (tree,) = (p for p in archives if not p.endswith("-hip.tar.gz"))
        suite = {"bookworm": "trixie"}.get(codename(), codename())
        root = Root(self.folder("next"), suite)
        os.makedirs(root.path("/srv/moved"))

        def unpack(archive):
            subprocess.run(["tar", "-xzf", archive, "-C", root.path("/srv/moved"), "--strip-components=1"], check=True)

        unpack(tree)
        self.check_works(root, "/srv/moved")

        with self.subTest("nothing but the C and C++ libraries is taken from the machine"):
            for program in ("bin/assay", "bin/assayd", "libexec/assay/assay-worker", "libexec/assay/assay-telemetry"):
                found = re.findall(r"=> (\S+)", root.run("ldd", f"/srv/moved/{program}").stdout)
                strangers = {os.path.basename(f).split(".so")[0] for f in found if not f.startswith("/srv/moved/")}
                self.assertLessEqual(strangers, {"libc", "libm", "libstdc++", "libgcc_s"}, program)

        with self.subTest("small enough, but for the libraries under test"):
            total = 0
            for folder, _, files in os.walk(root.path("/srv/moved")):
                total += sum(os.path.getsize(os.path.join(folder, f)) for f in files
                             if not re.match(r"lib(dnnl|openblas)\.", f))
            print(f"the tree without oneDNN and OpenBLAS: {total / 2**20:.1f} MiB", file=sys.stderr)
            self.assertLess(total, 60 * 2**20)

        for hip in (p for p in archives if p.endswith("-hip.tar.gz")):
            with self.subTest("the backend for AMD's cards is unpacked over it"):
                library = root.path("/srv/moved/lib/assay/libassay_hip.so")
                self.assertFalse(os.path.exists(library))
                unpack(hip)
                print(f"the backend for AMD's cards: {os.path.getsize(library) / 2**20:.1f} MiB", file=sys.stderr)
                self.assertLess(os.path.getsize(library), 20 * 2**20)
                self.check_works(root, "/srv/moved")


if __name__ == "__main__":
    if reason := missing():
        print(f"Skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
