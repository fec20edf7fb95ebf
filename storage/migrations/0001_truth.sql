-- The truth. Everything in Redis can be thrown away and comes back from these tables.
--
-- Ids are positive bigints, made by the service (Snowflake-shaped) or brought by the product, in any order.
-- follows, blocks and the rest carry no foreign keys to users: a user row is never removed
-- (deleting an account empties it), and imports of millions of edges are checked set-wise instead.

CREATE TABLE users (
    id             bigint PRIMARY KEY CHECK (id > 0),
    name           text NOT NULL,
    follower_count integer NOT NULL DEFAULT 0,   -- kept by follower_deltas
    feed_mode      text CHECK (feed_mode IN ('ranked', 'chronological')),           -- the viewer's own choice
    mode_override  text CHECK (mode_override IN ('ranked', 'chronological')),       -- an admin's choice
    created_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz
);

-- Apart from users, since it is hot: one write per visit (at most one an hour).
CREATE TABLE user_activity (
    user_id      bigint PRIMARY KEY,
    last_seen_at timestamptz NOT NULL
);

CREATE TABLE posts (
    id           bigint PRIMARY KEY CHECK (id > 0),
    author_id    bigint NOT NULL REFERENCES users,
    body         text NOT NULL,
    media        jsonb NOT NULL DEFAULT '[]',
    format       text NOT NULL CHECK (format IN ('text', 'image', 'video', 'link')),
    lang         text,
    repost_of    bigint,                          -- never a plain repost: a repost of one points at what it shows
    reply_to     bigint,
    created_at   timestamptz NOT NULL,
    received_at  timestamptz NOT NULL,
    effective_ms bigint NOT NULL,                 -- min(created_at, received_at); the order is (effective_ms, id), descending
    delivery     text NOT NULL CHECK (delivery IN ('push', 'pull')),
    deleted_at   timestamptz,
    edited_at    timestamptz
);
CREATE INDEX posts_by_author ON posts (author_id, effective_ms DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX posts_reposting ON posts (repost_of, author_id) WHERE repost_of IS NOT NULL;

CREATE TABLE post_stats (
    post_id     bigint PRIMARY KEY,
    likes       integer NOT NULL DEFAULT 0,
    comments    integer NOT NULL DEFAULT 0,
    reposts     integer NOT NULL DEFAULT 0,
    impressions integer NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

CREATE TABLE follows (
    follower_id bigint NOT NULL,
    followee_id bigint NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (follower_id, followee_id),
    CHECK (follower_id <> followee_id)
);
CREATE INDEX follows_by_followee ON follows (followee_id, follower_id);

-- Follower counts are folded from here in the background, so that a celebrity's row is no hot spot.
CREATE TABLE follower_deltas (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    author_id bigint NOT NULL,
    delta     integer NOT NULL
);

CREATE TABLE blocks (
    blocker_id bigint NOT NULL,
    blocked_id bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (blocker_id, blocked_id),
    CHECK (blocker_id <> blocked_id)
);
CREATE INDEX blocks_by_blocked ON blocks (blocked_id, blocker_id);

CREATE TABLE mutes (
    muter_id   bigint NOT NULL,
    muted_id   bigint NOT NULL,
    until      timestamptz,                       -- null: until undone; expiry fires no event, reads compare with now()
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (muter_id, muted_id),
    CHECK (muter_id <> muted_id)
);

CREATE TABLE hidden_posts (
    viewer_id  bigint NOT NULL,
    post_id    bigint NOT NULL,
    via        text NOT NULL DEFAULT 'hide' CHECK (via IN ('hide', 'not_interested')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (viewer_id, post_id)
);

-- Current state, last writer wins by (at, event_id).
CREATE TABLE reactions (
    viewer_id bigint NOT NULL,
    post_id   bigint NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('like')),
    active    boolean NOT NULL,
    at        timestamptz NOT NULL,
    event_id  uuid NOT NULL,
    PRIMARY KEY (viewer_id, post_id, kind)
);
CREATE INDEX reactions_by_post ON reactions (post_id, kind) WHERE active;

-- The log of everything clients reported. The day is part of the key, since a unique key
-- on a partitioned table must hold the partition key.
CREATE TABLE engagements (
    day         date NOT NULL,
    viewer_id   bigint NOT NULL,
    event_id    uuid NOT NULL,
    type        text NOT NULL,
    post_id     bigint NOT NULL,
    at          timestamptz NOT NULL,
    snapshot_id text,
    position    integer,
    dwell_ms    integer,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, viewer_id, event_id)
) PARTITION BY RANGE (day);
CREATE TABLE engagements_default PARTITION OF engagements DEFAULT;
CREATE INDEX engagements_by_post ON engagements (viewer_id, post_id, type);   -- "has this viewer seen it?"

-- What the log and the posts still owe to counters and affinity; the aggregator deletes and folds in one transaction.
CREATE TABLE engagement_deltas (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    post_id     bigint NOT NULL,
    viewer_id   bigint NOT NULL,
    author_id   bigint NOT NULL,
    likes       smallint NOT NULL DEFAULT 0,
    comments    smallint NOT NULL DEFAULT 0,
    reposts     smallint NOT NULL DEFAULT 0,
    impressions smallint NOT NULL DEFAULT 0,
    weight      real NOT NULL DEFAULT 0,          -- added to the viewer's affinity strength for the author
    at          timestamptz NOT NULL DEFAULT now()
);

-- Strength of engagement at time `at`; it halves every affinity half-life. Mapped into [0.1, 1] when read.
CREATE TABLE affinity (
    viewer_id bigint NOT NULL,
    author_id bigint NOT NULL,
    strength  real NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (viewer_id, author_id)
);

-- One row per page that was answered: the rows looked at, and the original that each showed (0: none).
-- `chain_start` is where they begin in the list of everything this chain of cursors was served; a
-- scroll is rebuilt from it when Redis has lost its copy.
CREATE TABLE served (
    day         date NOT NULL,
    at          timestamptz NOT NULL,
    viewer_id   bigint NOT NULL,
    session_id  text NOT NULL,
    snapshot_id text NOT NULL,
    nonce       text NOT NULL,
    part        text NOT NULL CHECK (part IN ('before', 'slate', 'tail', 'chronological')),
    chain_start integer NOT NULL,
    position    integer NOT NULL,
    ids         bigint[] NOT NULL,
    shows       bigint[] NOT NULL,
    ranker      text
) PARTITION BY RANGE (day);
CREATE TABLE served_default PARTITION OF served DEFAULT;
CREATE INDEX served_by_snapshot ON served (snapshot_id, nonce);

-- Insert-only, laid out as Debezium's outbox event router expects. Its bookkeeping lives in deliveries.
CREATE TABLE outbox_events (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text NOT NULL,
    aggregateid   text NOT NULL,
    type          text NOT NULL,
    payload       jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_events_by_time ON outbox_events (created_at);

-- One row per piece of work still owed for an event; a finished piece is deleted.
CREATE TABLE deliveries (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL,
    chunk          integer NOT NULL DEFAULT 0,    -- 0 plans; 1.. push to one range of followers
    after_follower bigint NOT NULL DEFAULT 0,     -- this chunk: follower ids in (after, until]
    until_follower bigint NOT NULL DEFAULT 9223372036854775807,
    state          text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'parked')),
    leases         integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    due_at         timestamptz NOT NULL DEFAULT now(),   -- a lease moves it into the future
    error          text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (event_id, chunk)
);
CREATE INDEX deliveries_due ON deliveries (due_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_oldest ON deliveries (created_at) WHERE state = 'pending';

-- Authors whose posts are, or are about to be, read from their outbox. No row means push.
-- To pull: readers first, writers after a grace period. Back: writers first, readers after the backfill.
CREATE TABLE author_delivery (
    author_id    bigint PRIMARY KEY,
    readers_pull boolean NOT NULL,
    writers_pull boolean NOT NULL,
    changed_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (readers_pull OR NOT writers_pull)
);
CREATE INDEX author_delivery_pulled ON author_delivery (author_id) WHERE readers_pull;

CREATE TABLE models (
    version    text PRIMARY KEY,
    manifest   jsonb NOT NULL,
    artifact   bytea NOT NULL,
    state      text NOT NULL DEFAULT 'registered' CHECK (state IN ('registered', 'shadow', 'champion', 'retired')),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX models_one_champion ON models (state) WHERE state = 'champion';

-- How the mode of a feed is decided, one row for the whole product.
CREATE TABLE rollouts (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    default_mode    text NOT NULL DEFAULT 'ranked' CHECK (default_mode IN ('ranked', 'chronological')),
    kill_switch     text CHECK (kill_switch IN ('ranked', 'chronological')),
    allow_request   boolean NOT NULL DEFAULT true,
    ranked_percent  smallint CHECK (ranked_percent BETWEEN 0 AND 100),     -- null: no rollout is running
    holdout_percent smallint NOT NULL DEFAULT 0 CHECK (holdout_percent BETWEEN 0 AND 100),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
INSERT INTO rollouts DEFAULT VALUES;

CREATE TABLE cohorts (
    name      text PRIMARY KEY,
    feed_mode text NOT NULL CHECK (feed_mode IN ('ranked', 'chronological'))
);
CREATE TABLE cohort_members (
    user_id bigint PRIMARY KEY,
    cohort  text NOT NULL REFERENCES cohorts ON DELETE CASCADE
);

CREATE TABLE audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL
);

CREATE TABLE idempotency_keys (
    user_id      bigint NOT NULL,
    key          text NOT NULL,
    request_hash bytea NOT NULL,
    post_id      bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);

-- Node numbers for Snowflake ids, leased by each process that makes ids.
CREATE TABLE nodes (
    node         smallint PRIMARY KEY CHECK (node BETWEEN 0 AND 1023),
    owner        uuid NOT NULL,
    leased_until timestamptz NOT NULL
);
