"""One running product for the tests that leave it running, and folders for those that do not."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.product import PATIENT_ENVIRON, Product


@pytest.fixture
def folder(servers_folder: Path) -> Iterator[Path]:
    """Give an empty folder in which a system user's servers may run."""
    with TemporaryDirectory(dir=servers_folder) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def product(servers_folder: Path) -> Iterator[Product]:
    """Run the product with its sample data for this session."""
    with Product(servers_folder / "product", **PATIENT_ENVIRON) as running:
        yield running
