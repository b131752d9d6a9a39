"""What the tests of the Python package share. The plugin of the package itself gives the daemon."""

import os

import numpy as np
import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def client(assay_client):
    return assay_client


@pytest.fixture(scope="session")
def program():
    """The command line of the tree that the package is installed in."""
    from assay.daemon import find_program
    return os.path.join(os.path.dirname(find_program()), "assay")
