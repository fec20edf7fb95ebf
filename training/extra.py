"""Loads the packages of the optional extra `train`, or says in one sentence how to get them."""

import importlib
from typing import Any

from feed.errors import Misconfigured


def extra(module: str) -> Any:
    """Import a module of the extra `train` when it is first needed.

    Raises:
        Misconfigured: It is not installed, or its library does not load.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        package = module.partition(".")[0]
        raise Misconfigured(
            f"Training needs {package}, which cannot be loaded ({error}): "
            "run pip install 'foryou[train]'."
        ) from None
