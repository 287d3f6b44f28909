"""One job from claim to settlement: Celery app, engine, gateway client, limiter, strategies and checks."""
