"""`paretoken clients`: files that let agent clients use the same gateway, and a check of those that exist.

    claude_code   settings.json of Claude Code
    codex         config.toml of Codex
    cc_switch     provider records and import links of CC Switch
    shell         lines for POSIX shells and PowerShell
    writing       which files there are, and how they get written
    checking      files that exist: broken ones, wrong addresses, keys, what overrides what

No file that is written holds a key: only the name of the environment variable that does.
"""
