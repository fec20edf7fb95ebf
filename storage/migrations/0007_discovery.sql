-- Posts that a viewer may like though nobody they follow wrote them.

-- Engagement velocity: a sum of weights that halves every six hours, as it was at `heat_s` (epoch
-- seconds). Between two sums of different times the order is that of the moments at which each
-- would be one, which no passing of time changes: so an index can hold it. Six hours are part of
-- the index, and of storage/discovery.py.
ALTER TABLE post_stats
    ADD COLUMN heat   double precision NOT NULL DEFAULT 0,
    ADD COLUMN heat_s double precision NOT NULL DEFAULT 0;
CREATE INDEX post_stats_by_heat ON post_stats ((heat_s + 21600 * ln(heat) / ln(2::double precision)) DESC)
 WHERE heat > 0;

-- What a user liked last.
CREATE INDEX reactions_by_viewer ON reactions (viewer_id, at DESC) WHERE active AND kind = 'like';

-- An author may opt out of being shown to those who do not follow.
ALTER TABLE users ADD COLUMN discoverable boolean NOT NULL DEFAULT true;

-- Whom a viewer has unfollowed: never shown to them as a discovery.
CREATE TABLE unfollowed (
    viewer_id bigint NOT NULL,
    author_id bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (viewer_id, author_id)
);
