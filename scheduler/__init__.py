"""From an experiment file to jobs in Postgres and messages in the broker."""
