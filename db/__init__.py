"""Tables, migrations, named SQL and the store: every state transition of a run stands here."""
