"""The models in force on this node: loaded from the registry, proved, warmed, and swapped in whole.

A request takes a model once and keeps it. When a new one cannot be loaded, the old one stays.
"""

import asyncio
import logging

import numpy as np

from feed.errors import ForYouError
from rankers.artifact import Model, load, read_manifest
from storage.connections import Postgres
from storage.models import Serving, model_texts, serving

log = logging.getLogger("foryou.models")

LOOK_EVERY_S = 2.0


class Models:
    """Holds the champion, and the shadow that scores beside it; None: there is none."""

    def __init__(self, postgres: Postgres, *, warm_rows: int) -> None:
        """Look into the registry in `postgres`; warm models up with so many rows."""
        self._postgres = postgres
        self._warm_rows = warm_rows
        self.wanted = Serving(None, None)
        self.champion: Model | None = None
        self.shadow: Model | None = None

    async def keep(self) -> None:
        """Look every few seconds, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Bring the models in line with the registry; what is not reached changes nothing."""
        try:
            async with self._postgres.connection() as connection:
                self.wanted = await serving(connection)
        except ForYouError:
            return
        self.champion = await self._held("champion", self.wanted.champion, self.champion)
        self.shadow = await self._held("shadow", self.wanted.shadow, self.shadow)

    async def _held(self, role: str, version: str | None, held: Model | None) -> Model | None:
        """Return the model of this version, or the one held when it cannot be loaded."""
        if version is None or (held and held.manifest.version == version):
            return held if version else None
        try:
            async with self._postgres.connection() as connection:
                texts = await model_texts(connection, version)
            model = await asyncio.to_thread(self._loaded, texts.manifest, texts.model)
        except ForYouError as error:
            log.error("model kept", extra={"role": role, "refused": version, "error": str(error)})
            return held
        log.info("model in force", extra={"role": role, "version": version})
        return model

    def _loaded(self, manifest: str, text: str) -> Model:
        """Return a model that has predicted once as it will for requests."""
        model = load(read_manifest(manifest), text)
        n_features = len(model.manifest.features)
        model.predict(np.zeros((self._warm_rows, n_features), dtype=np.float32))
        return model
