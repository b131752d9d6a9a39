"""The package as it is installed, as a wheel, and for a type checker."""

import glob
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

import assay

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.dirname(assay.__file__)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_name_is_there():
    for name in assay.__all__:
        assert getattr(assay, name) is not None
    assert set(assay.__all__) <= set(dir(assay))
    assert assay.__version__ == importlib.metadata.version("assay")
    with pytest.raises(AttributeError, match="nothing"):
        assay.nothing


def test_a_traceback_names_errors_as_their_users_do():
    for kind in (getattr(assay, name) for name in assay.__all__):
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert f"{kind.__module__}.{kind.__qualname__}" == f"assay.{kind.__name__}"
            assert getattr(assay, kind.__name__) is kind


def test_no_stub_names_a_package_that_is_not_its_own():
    """protoc's own imports would find, or miss, another package."""
    stubs = glob.glob(os.path.join(PACKAGE, "_wire", "*.py*"))
    assert len(stubs) > 20
    for stub in stubs:
        with open(stub, encoding="utf-8") as file:
            assert "from assay." not in file.read(), stub


def test_another_copy_of_googles_messages_may_be_there():
    """A process that has google.rpc from elsewhere can import assay, whichever comes first."""
    code = """if True:
        from google.protobuf import descriptor_pb2, descriptor_pool
        file = descriptor_pb2.FileDescriptorProto(name="google/rpc/status.proto", package="google.rpc", syntax="proto3")
        file.message_type.add(name="Status").field.add(name="other", number=9, type=5, label=1)
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
        import assay
        assay.connect
    """
    run(sys.executable, "-c", code)


def test_protobuf_7(assay_client):
    """Its field descriptors have no label, and it takes no bool for a whole number. Its Python runtime is like this one."""
    code = """if True:
        import sys
        from google.protobuf import descriptor
        from google.protobuf.internal import api_implementation, type_checkers
        assert api_implementation.Type() == "python", api_implementation.Type()
        Field = descriptor.FieldDescriptor
        made = Field.__init__
        def make(self, *arguments, **keywords):
            made(self, *arguments, **keywords)
            self.__dict__["_label"] = self.__dict__.pop("label")
        def label(self):
            if sys._getframe(1).f_globals["__name__"].startswith("assay."):
                raise AttributeError("label")
            return self._label
        Field.__init__ = make
        Field.label = property(label, lambda self, value: self.__dict__.__setitem__("label", value))
        Field.is_repeated = property(lambda self: self._label == Field.LABEL_REPEATED)
        whole = type_checkers.IntValueChecker.CheckValue
        def check(self, value):
            if isinstance(value, bool):
                raise TypeError("bool for a whole number")
            return whole(self, value)
        type_checkers.IntValueChecker.CheckValue = check

        import numpy as np
        import assay
        client = assay.connect(sys.argv[1])
        def softmax(x):
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)
        report = assay.validate(softmax, op="softmax", dtype="fp32", client=client)
        report.raise_on_failure()
        x = np.ones((4, 5), "f4")
        assay.assert_close(softmax(x), op="softmax", inputs=x, client=client)
        report = client.run("attention", heads=2, dim=32, seq=[32, 64], dtype="fp32", causal=[True, False], provider="builtin")
        assert len(report) == 4 and report, report
    """
    run(sys.executable, "-c", code, assay_client.target,
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"})


def test_types():
    if not shutil.which("mypy", path="/usr/bin:" + os.environ["PATH"]):
        pytest.skip("no mypy (deploy/setup test installs it)")
    mypy = shutil.which("mypy", path="/usr/bin:" + os.environ["PATH"])
    run(mypy, "--config-file", os.path.join(HERE, "mypy.ini"), "--cache-dir", os.devnull, "-p", "assay",
        cwd=os.path.dirname(PACKAGE))


def test_wheel(tmp_path):
    """Built without a network; what it has is what is installed, and pytest finds its plugin."""
    for module in ("pip", "wheel", "setuptools"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} (deploy/setup test installs it)")
    tree = os.environ.get("ASSAY_PYTHON_TREE") or os.path.join(ROOT, "build", "dev", "client", "python")
    if not os.path.exists(os.path.join(tree, "pyproject.toml")):
        pytest.skip(f"no source tree of the package in {tree}")
    copy = shutil.copytree(tree, tmp_path / "tree", ignore=shutil.ignore_patterns("CMakeFiles"))
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-build-isolation", "--no-deps",
        "--no-index", "-w", str(tmp_path), str(copy))
    (wheel,) = glob.glob(str(tmp_path / "*.whl"))
    assert os.path.basename(wheel) == f"assay-{assay.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    installed = {}
    for folder, _, files in os.walk(PACKAGE):
        for name in files:
            path = os.path.join(folder, name)
            if "__pycache__" not in path:
                with open(path, "rb") as file:
                    installed[os.path.relpath(path, os.path.dirname(PACKAGE))] = file.read()
    assert {name: data for name, data in packed.items() if ".dist-info/" not in name} == installed
    info = f"assay-{assay.__version__}.dist-info/"
    with open(os.path.join(os.path.dirname(PACKAGE), info, "entry_points.txt"), "rb") as file:
        assert packed[info + "entry_points.txt"].split() == file.read().split()
    assert b"Requires-Dist: numpy" in packed[info + "METADATA"]
    # From the wheel alone, without the tree that is installed.
    alone = tmp_path / "alone"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(alone)
    said = run(sys.executable, "-c", "import assay; print(assay.__file__, len(assay.operators()))",
               env={**os.environ, "PYTHONPATH": str(alone)})
    assert str(alone) in said
