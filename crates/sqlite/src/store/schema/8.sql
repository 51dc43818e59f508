-- The token usage of a run, as JSON. NULL for runs that started before this version; their events contain it.
ALTER TABLE runs ADD COLUMN usage TEXT;
