-- What an operator and an author can see of delivery.

-- How far each piece of a post's delivery got; a later plan for the same post replaces an earlier one.
CREATE TABLE delivery_receipts (
    post_id    bigint NOT NULL,
    chunk      integer NOT NULL,                  -- 0: the whole post, or its plan; 1..: one range of followers
    n_feeds    integer NOT NULL,                  -- feeds that took it
    n_inactive integer NOT NULL,                  -- followers left out as inactive
    at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (post_id, chunk)
);
CREATE INDEX delivery_receipts_by_time ON delivery_receipts (at);

-- Finds what is still owed for one post, one (viewer, author) pair, one author.
CREATE INDEX outbox_events_by_aggregate ON outbox_events (aggregateid, aggregatetype);

-- What each round of the background auditor found, as counts; unfinished until `n_viewers` is set.
CREATE TABLE feed_audits (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT now(),
    n_viewers    integer,
    missing      integer NOT NULL DEFAULT 0,
    late         integer NOT NULL DEFAULT 0,
    extra        integer NOT NULL DEFAULT 0,
    out_of_order integer NOT NULL DEFAULT 0
);
