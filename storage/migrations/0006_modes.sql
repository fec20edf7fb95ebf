-- Modes are changed by admins: one version for all of it, so that two do not overwrite each other.

ALTER TABLE rollouts ADD COLUMN version bigint NOT NULL DEFAULT 1;
CREATE INDEX cohort_members_by_cohort ON cohort_members (cohort, user_id);
CREATE INDEX users_overridden ON users (id) WHERE mode_override IS NOT NULL;
CREATE INDEX audit_by_action ON audit (action, id);
