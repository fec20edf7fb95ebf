-- Small posts never wait behind large ones: what is owed is leased, queued and performed by lane.
-- 'slow': chunks of large posts, and backfills, with the author whose they are.

ALTER TABLE deliveries
    ADD COLUMN lane text NOT NULL DEFAULT 'fast' CHECK (lane IN ('fast', 'slow')),
    ADD COLUMN author_id bigint,
    ADD CHECK ((lane = 'slow') = (author_id IS NOT NULL));
UPDATE deliveries d SET lane = 'slow', author_id = (e.payload ->> 'author_id')::bigint
  FROM outbox_events e
 WHERE e.id = d.event_id AND (d.chunk > 0 OR e.type = 'author.backfill')
   AND e.payload ->> 'author_id' IS NOT NULL;

DROP INDEX deliveries_due, deliveries_oldest;
CREATE INDEX deliveries_due ON deliveries (lane, due_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_oldest ON deliveries (lane, created_at) WHERE state = 'pending';
CREATE INDEX deliveries_slow ON deliveries (author_id) WHERE lane = 'slow';
CREATE INDEX deliveries_parked ON deliveries (lane, id) WHERE state = 'parked';

-- Why an author is pulled. 'lag': only until no slow delivery of theirs is left; everything is
-- pushed all the while, so that they are released without a backfill.
ALTER TABLE author_delivery
    ADD COLUMN because text NOT NULL DEFAULT 'size' CHECK (because IN ('size', 'lag', 'cost'));

-- While delivery lags: posts of authors with `threshold` followers or more take the slow lane.
CREATE TABLE delivery_pressure (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    threshold  integer CHECK (threshold > 0),            -- null: no pressure
    changed_at timestamptz NOT NULL DEFAULT now(),
    busy_at    timestamptz NOT NULL DEFAULT now()        -- when the lag was last not low
);
INSERT INTO delivery_pressure DEFAULT VALUES;

-- What pushing and pulling an author costs, as last measured; decides under FORYOU_SWITCH_POLICY=cost.
CREATE TABLE author_costs (
    author_id     bigint PRIMARY KEY,
    pull_is_cheap boolean NOT NULL,                      -- cheaper than push
    measured_at   timestamptz NOT NULL DEFAULT now()
);
