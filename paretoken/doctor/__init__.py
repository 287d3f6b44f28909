"""`paretoken doctor`: a checklist that a person can act on.

    checklist     all of it, in order
    target        which gateway, key and models are meant
    packages      are the installed libraries those that this version was made for
    variables     the key, and leftovers in the environment that other programs would pick up
    address       the base URL as it is written
    requests      at most ten small requests
    probes        what the gateway answers: models, a tiny call, a stream, what agent clients need
    servers       database, broker, and how far their clocks are apart

Nothing is raised for what is found: every check gives `paretoken.findings.Finding`s. Those before `requests` need
neither a key nor a network.
"""
