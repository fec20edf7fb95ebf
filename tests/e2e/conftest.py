"""One running product for the tests that leave it running."""

from collections.abc import Iterator

import pytest

from tests.e2e.product import Product


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Run the product with its sample data for this session."""
    with Product(tmp_path_factory.mktemp("product") / "data") as running:
        yield running
