"""`paretoken serve`: read-only pages for looking into runs, made on the server, without any script.

| module | what it is |
|---|---|
| `cli` | the command: address, token, server |
| `app` | which page answers to which address, and what is said of errors |
| `guard` | who may ask, how, and the headers of every answer |
| `pages` | runs, a run, its trials, search |
| `trial` | one trial: its rounds side by side |
| `prompts` | what a call was asked, stored or made again |
| `downloads` | whole texts and files; the run's report and tables |
| `rendering` | templates, in which every text is escaped and its control characters are shown |
"""
