-- What a model was judged by when it was registered: comparisons with what it must beat.
ALTER TABLE models ADD COLUMN figures jsonb NOT NULL DEFAULT '{}';
CREATE UNIQUE INDEX models_one_shadow ON models (state) WHERE state = 'shadow';

-- Who ranked, one row for each change; null: the light ranker alone. The newest that was not undone
-- is in force, and rolling back undoes it.
CREATE TABLE model_reigns (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version text REFERENCES models,
    at      timestamptz NOT NULL DEFAULT now(),
    undone  boolean NOT NULL DEFAULT false
);
CREATE INDEX model_reigns_standing ON model_reigns (id) WHERE NOT undone;
