"""Lines for a shell: the base URL, and the key asked for, not written."""

import shlex

from scheduler.experiment import BASE_URL


def posix(*, base_url: str, key_variable: str) -> str:
    """For sh, bash and zsh: `. gateway.sh`."""
    return "\n".join(
        (
            "# Read it into a shell:  . gateway.sh",
            f"export {BASE_URL}={shlex.quote(base_url)}",
            f'if [ -z "${{{key_variable}:-}}" ]; then',
            f"  printf 'Key for {key_variable}: ' && stty -echo && read -r {key_variable}; stty echo; echo",
            "fi",
            f"export {key_variable}",
            "# Left by another gateway, they would be used instead by programs of OpenAI and Anthropic:",
            "unset OPENAI_BASE_URL OPENAI_API_BASE OPENAI_API_KEY",
            "unset ANTHROPIC_BASE_URL ANTHROPIC_AUTH_TOKEN ANTHROPIC_API_KEY",
            "",
        )
    )


def powershell(*, base_url: str, key_variable: str) -> str:
    """For PowerShell: `. ./gateway.ps1`."""
    quoted = base_url.replace("'", "''")
    names = "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY"
    others = "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"
    gone = ", ".join(f"Env:{name}" for name in (*names, *others))
    return "\n".join(
        (
            "# Read it into a shell:  . ./gateway.ps1",
            f"$env:{BASE_URL} = '{quoted}'",
            f"if (-not $env:{key_variable}) {{",
            f"  $secret = Read-Host -AsSecureString 'Key for {key_variable}'",
            f"  $env:{key_variable} = [Net.NetworkCredential]::new('', $secret).Password",
            "}",
            "# Left by another gateway, they would be used instead by programs of OpenAI and Anthropic:",
            f"Remove-Item -ErrorAction SilentlyContinue {gone}",
            "",
        )
    )
