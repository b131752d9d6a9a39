"""What a daemon under test finds on its host: a /sys that is made up, for a test machine is
often a virtual one that tells nothing, and suites that take a moment."""

import os
import shutil

import harness

QUICK = """
name = "quick"
title = "A moment's stand-in for the qualification of that name"
version = "1"

[[case]]
op = "gemm"
dtype = "fp32"
provider = "builtin"
shape = { m = 16, n = 16, k = 16 }
"""

# Large enough for arithmetic to be the product's roof: what a cache holds has no share.
TIMED = """
name = "timed"
title = "Speeds that devices are compared by"
version = "1"

[[case]]
op = "gemm"
mode = "both"
dtype = "fp32"
provider = "builtin"
shape = { m = 1024, n = 1024, k = 1024 }

[[case]]
op = "copy"
mode = "both"
dtype = "fp32"
provider = "builtin"
shape = { count = 4194304 }
"""
TIMED_METRICS = {"assay_suite_efficiency_ratio", "assay_suite_flops_per_second",
                 "assay_suite_bytes_per_second", "assay_kernel_efficiency_ratio",
                 "assay_ceiling_flops_per_second", "assay_ceiling_bytes_per_second"}
TRIES = 5


class Host:
    """A folder that has sys/, and the environment that makes a daemon look there."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"ASSAY_HOST_ROOT": folder}
        self.write("class/hwmon/hwmon0/name", "coretemp")
        self.temperature(61)
        self.write("class/powercap/intel-rapl:0/name", "package-0")
        self.write("class/powercap/intel-rapl:0/energy_uj", "1000000")
        for processor in ("cpu0", "cpu1"):
            folder = f"devices/system/cpu/{processor}"
            self.write(f"{folder}/cpufreq/scaling_cur_freq", "2500000")
            self.write(f"{folder}/thermal_throttle/core_throttle_total_time_ms", "5000")
        self.write("devices/system/edac/mc/mc0/ce_count", "40")
        self.write("devices/system/edac/mc/mc0/ue_count", "0")

    def write(self, name, text):
        path = os.path.join(self.folder, "sys", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Whoever reads meanwhile sees the old or the new.
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.rename(path + ".new", path)

    def temperature(self, celsius):
        self.write("class/hwmon/hwmon0/temp1_input", str(celsius * 1000))


def suites(folder):
    """The daemon's suites, with a short "quick" in place of its own, and "timed"; its flags."""
    path = os.path.join(folder, "suites")
    shutil.copytree(os.path.join(harness.INSTALL, "share", "assay", "suites"), path)
    with open(os.path.join(path, "quick.toml"), "w", encoding="utf-8") as file:
        file.write(QUICK)
    with open(os.path.join(path, "timed.toml"), "w", encoding="utf-8") as file:
        file.write(TIMED)
    return ("--suites-dir", path)


def run_timed(daemon):
    """Runs the suite "timed" until its times and ceilings are good to 10 %; the metrics that have
    none after a few tries, as on a busy machine, and what depends on them is skipped."""
    missing = TIMED_METRICS
    for attempt in range(TRIES):
        if attempt > 0:
            daemon.run("devices", "--ceilings")  # measures what was disturbed once more
        run = daemon.run("run", "--suite", "timed")
        assert run.code == 0, run
        text = daemon.scrape()
        missing = {name for name in TIMED_METRICS if f"\n{name}{{" not in text}
        if not missing:
            break
    if missing:
        print(f"Skipped: {sorted(missing)}: this machine is too busy to time anything")
    return missing
