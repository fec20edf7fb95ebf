-- What is left at `at_s` of a heat as it was at `since_s`, which halves every six hours (0007);
-- 2^-100 stands for "nothing left", since Postgres raises on underflow.
CREATE OR REPLACE FUNCTION heat_at(heat double precision, since_s double precision, at_s double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN heat * 2::double precision ^ -least(100, (at_s - since_s) / 21600);
