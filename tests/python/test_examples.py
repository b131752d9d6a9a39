"""Each example runs as it stands: its right kernels pass, and its wrong one is found with the reason."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "client", "python", "examples")
# The modules that it needs, and what it must find.
ROWS = {
    "pytorch": (["torch"], ["layer_norm [64,1000] fp32: FAILED", "of 24 bits"]),
    "triton_style": (["torch"], ["softmax [16,781] fp32: FAILED", "nan       16, origin kernel, first at [0,780]"]),
    "function": ([], ["FAILED", "bound", "softmax 64x1000 fp32"]),
    "extension": ([], ["layer_norm [32,777] fp32: FAILED", "reads as"]),
    "cuda_extension": ([], ["layer_norm [32,777] fp32: FAILED", "the last 9 columns are left out of the sum of squares"]),
}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_example(assay, name):
    modules, said = ROWS[name]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} (deploy/setup all installs it)")
    if not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("no C compiler")
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if name == "cuda_extension" and not shutil.which(nvcc):
        pytest.skip("no nvcc (NVCC names one)")
    path = [os.environ.get("PYTHONPATH", "")]
    if name == "triton_style" and importlib.util.find_spec("triton") is None:
        path.append(os.path.join(HERE, "triton_stub"))
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name + ".py")], capture_output=True, text=True,
                          check=False, env={**os.environ, "ASSAY_TARGET": assay.target, "PYTHONPATH": ":".join(path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
    for words in said:
        assert words in done.stdout, (words, done.stdout)


def test_every_example_is_run():
    assert {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")} == set(ROWS)
