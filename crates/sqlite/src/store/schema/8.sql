-- The tokens that a run has spent on models, as JSON. Of a run that began before this it is not known here; its events have it.
ALTER TABLE runs ADD COLUMN usage TEXT;
