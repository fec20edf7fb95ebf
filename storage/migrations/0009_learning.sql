-- What rankers learn from: what was served and why, and what was known when it was.

-- Every fold has a number. Whoever reads it in the statement that reads the counters can say later
-- what they read: the counters as they stand now, less what was folded since.
CREATE TABLE folds (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    number   bigint NOT NULL
);
INSERT INTO folds (number) VALUES (0);

ALTER TABLE engagement_deltas
    ADD COLUMN clicks smallint NOT NULL DEFAULT 0,
    ADD COLUMN shares smallint NOT NULL DEFAULT 0,      -- events; reposts are posts
    ADD COLUMN posts  smallint NOT NULL DEFAULT 0;      -- 1: the author wrote it; -1: and deleted it
ALTER TABLE post_stats
    ADD COLUMN clicks integer NOT NULL DEFAULT 0,
    ADD COLUMN shares integer NOT NULL DEFAULT 0;

-- Engagements are likes, comments, reposts, clicks and shares; what was undone counts less.
ALTER TABLE affinity
    ADD COLUMN engaged    integer NOT NULL DEFAULT 0,   -- of the viewer with the author's posts
    ADD COLUMN engaged_at timestamptz;
CREATE TABLE author_stats (
    author_id bigint PRIMARY KEY,
    posts     integer NOT NULL DEFAULT 0,
    engaged   integer NOT NULL DEFAULT 0,               -- with the author's posts, by anybody
    first_ms  bigint                                    -- effective time of the first post
) WITH (fillfactor = 80);
CREATE TABLE viewer_stats (                             -- engagements with others' posts, by format
    viewer_id bigint PRIMARY KEY,
    text      integer NOT NULL DEFAULT 0,
    image     integer NOT NULL DEFAULT 0,
    video     integer NOT NULL DEFAULT 0,
    link      integer NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

-- The deltas as they were folded, on the day of their fold. Those of followers name an author only.
CREATE TABLE folded (
    day         date NOT NULL,
    fold        bigint NOT NULL,
    post_id     bigint NOT NULL,
    viewer_id   bigint NOT NULL,                        -- 0: nobody, or an account that is deleted
    author_id   bigint NOT NULL,
    at          timestamptz NOT NULL,
    likes       smallint NOT NULL DEFAULT 0,
    comments    smallint NOT NULL DEFAULT 0,
    reposts     smallint NOT NULL DEFAULT 0,
    clicks      smallint NOT NULL DEFAULT 0,
    shares      smallint NOT NULL DEFAULT 0,
    impressions smallint NOT NULL DEFAULT 0,
    posts       smallint NOT NULL DEFAULT 0,
    engaged     smallint NOT NULL DEFAULT 0,
    followers   integer NOT NULL DEFAULT 0,
    weight      real NOT NULL DEFAULT 0
) PARTITION BY RANGE (day);
CREATE TABLE folded_default PARTITION OF folded DEFAULT;
CREATE INDEX folded_of_post ON folded (post_id, at) WHERE engaged <> 0;
CREATE INDEX folded_of_viewer ON folded (viewer_id, at) WHERE viewer_id <> 0;

-- Since when somebody had followed whom they unfollowed.
ALTER TABLE unfollowed ADD COLUMN followed_at timestamptz;

ALTER TABLE served ADD COLUMN sources bytea;            -- a code of feed.candidates.SOURCES a row

-- One row per frozen slate, written beside the response: the best rows and a few that were not
-- chosen, packed (storage/slates.py). `fold` and `schema_hash` where its features were logged.
CREATE TABLE slates (
    day         date NOT NULL,
    at          timestamptz NOT NULL,
    viewer_id   bigint NOT NULL,
    session_id  text NOT NULL,
    snapshot_id text NOT NULL,
    nonce       text NOT NULL,
    now_ms      bigint NOT NULL,
    ranker      text NOT NULL,
    weights     text NOT NULL,
    model       text,
    explored    boolean NOT NULL,
    skipped     text[] NOT NULL,
    n_rows      integer NOT NULL,
    rows        bytea NOT NULL,
    fold        bigint,
    schema_hash text,
    features    bytea
) PARTITION BY RANGE (day);
CREATE TABLE slates_default PARTITION OF slates DEFAULT;
CREATE INDEX slates_by_time ON slates (at, snapshot_id);
CREATE INDEX slates_of_viewer ON slates (viewer_id, at);
