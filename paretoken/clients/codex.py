"""Codex' `config.toml`.

Codex adds `/responses` to `base_url` and reads the key from the variable that `env_key` names. `wire_api = "chat"`
was taken up to 0.94 and is refused since 0.95. Keys that it does not know it ignores without a word. Some keys count
only in the user's file, not in a project's.
"""

import json
import re

from paretoken.errors import InputError

FILE = ".codex/config.toml"
PROVIDER = "gateway"
FIRST_WITHOUT_CHAT = (0, 95)

PROVIDER_KEYS = frozenset(
    {
        "name",
        "base_url",
        "env_key",
        "env_key_instructions",
        "experimental_bearer_token",
        "auth",
        "aws",
        "wire_api",
        "query_params",
        "http_headers",
        "env_http_headers",
        "request_max_retries",
        "stream_max_retries",
        "stream_idle_timeout_ms",
        "websocket_connect_timeout_ms",
        "requires_openai_auth",
        "supports_websockets",
    }
)
TOP_KEYS = frozenset(
    """
    agents allow_login_shell analytics approval_policy approvals_reviewer apps audio auto_review
    background_terminal_max_timeout chatgpt_base_url check_for_update_on_startup cli_auth_credentials_store
    commit_attribution compact_prompt default_permissions desktop developer_instructions disable_paste_burst
    experimental_compact_prompt_file experimental_instructions_file experimental_use_unified_exec_tool features
    feedback file_opener forced_chatgpt_workspace_id forced_login_method ghost_snapshot hide_agent_reasoning history
    hooks include_apps_instructions include_collaboration_mode_instructions include_environment_context
    include_permissions_instructions instructions log_dir marketplaces mcp_oauth_callback_port
    mcp_oauth_callback_url mcp_oauth_credentials_store mcp_servers memories model model_auto_compact_token_limit
    model_auto_compact_token_limit_scope model_catalog_json model_context_window model_instructions_file
    model_max_output_tokens model_provider model_providers model_reasoning_effort model_reasoning_summary
    model_supports_reasoning_summaries model_verbosity notice notify openai_base_url oss_provider otel permissions
    personality plan_mode_reasoning_effort plugins preferred_auth_method profile profiles
    project_doc_fallback_filenames project_doc_max_bytes project_root_markers projects realtime review_model
    sandbox_mode sandbox_workspace_write service_tier shell_environment_policy show_raw_agent_reasoning skills
    sqlite_home suppress_unstable_features_warning tool_output_token_limit tool_suggest tools tui web_search windows
    windows_wsl_setup_acknowledged zsh_path
    """.split()  # noqa: SIM905 - a list of a line each would be longer than the rest of the module
)
"""Those of current versions and some older ones."""

USER_ONLY = frozenset(
    {
        "model_provider",
        "model_providers",
        "openai_base_url",
        "chatgpt_base_url",
        "profile",
        "profiles",
        "notify",
    }
)
"""Current versions ignore these in a project's file."""


def takes_chat(version: str) -> bool:
    """Whether this version still knows `wire_api = "chat"`. Raises `InputError` for what is no version."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(\.\d+)*.*", version)
    if not found:
        raise InputError(
            f"--codex-version: {version!r} is no version; it looks like 0.171.0 (codex --version)."
        )
    return (int(found[1]), int(found[2])) < FIRST_WITHOUT_CHAT


def config_text(*, base_url: str, key_variable: str, model: str, name: str, chat: bool) -> str:
    """The file."""
    return "\n".join(
        (
            f"model = {_string(model)}",
            f"model_provider = {_string(PROVIDER)}",
            "",
            f"[model_providers.{PROVIDER}]",
            f"name = {_string(name)}",
            f"base_url = {_string(base_url)}",
            f"env_key = {_string(key_variable)}",
            f"wire_api = {_string('chat' if chat else 'responses')}",
            "",
        )
    )


def endpoint(base_url: str, *, chat: bool) -> str:
    """What the gateway must serve."""
    return f"{base_url.rstrip('/')}/{'chat/completions' if chat else 'responses'}"


def _string(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, apart from DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
