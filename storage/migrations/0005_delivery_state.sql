-- How the whole product delivers: 'pull' nothing is owed, readers ask Postgres; 'filling' deliveries
-- are owed again, readers still ask Postgres; 'hybrid' readers rely on the cached lists.

CREATE TABLE delivery_state (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    state      text NOT NULL DEFAULT 'hybrid' CHECK (state IN ('pull', 'filling', 'hybrid')),
    changed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO delivery_state DEFAULT VALUES;

-- Says whether what this transaction writes owes deliveries, and keeps it so until it ends. Two
-- statements: the second sees what a change has committed for which the first had to wait. An
-- advisory lock, not a locked row: every writer takes it, and none may cost another a write.
CREATE FUNCTION deliveries_owed() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('delivery state', 0));
    RETURN (SELECT state <> 'pull' FROM delivery_state);
END
$$;
