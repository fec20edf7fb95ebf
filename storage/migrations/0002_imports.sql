-- What an import must remember to go on after it was stopped, or to be run again.

CREATE TABLE imports (
    name        text PRIMARY KEY,       -- of the folder
    shift_ms    bigint,                 -- added to every time of its files; null: never asked for
    started_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz             -- null: stopped half-way, cached feeds were not told yet
);
