"""Base URL, key and proxy, checked once before the first call."""

from ipaddress import ip_address
from urllib.request import getproxies, proxy_bypass

import httpx2

from workers.gateway.errors import GatewayConfigError


def checked_base_url(base_url: str) -> httpx2.URL:
    """The URL, if calls can be sent below it."""
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise GatewayConfigError(
            f"The base URL cannot be read ({error}): check it for typing errors."
        ) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise GatewayConfigError(
            f"The base URL has to start with https:// or http:// and a host, not '{url}'."
        )
    if url.userinfo:
        raise GatewayConfigError(
            "The base URL holds a user name or password: put the key in its variable instead."
        )
    if url.query or url.fragment:
        raise GatewayConfigError(
            f"The base URL must end before the '?' or '#': {url.copy_with(query=None, fragment=None)}"
        )
    return url


def checked_key(api_key: str) -> str:
    """The key, if it can stand in a header. No message shows any of it."""
    if not api_key:
        raise GatewayConfigError("The key is empty: set the environment variable that holds it.")
    if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
        raise GatewayConfigError(
            "The key holds blanks, line breaks or other signs no key has: copy it again."
        )
    return api_key


def proxy_for(url: httpx2.URL) -> str | None:
    """The proxy that the environment names for this address; none for the machine itself."""
    if _is_loopback(url.host) or proxy_bypass(url.host):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise GatewayConfigError(
            "The environment's proxy is no HTTP proxy: set HTTPS_PROXY to one, or NO_PROXY for the gateway."
        )
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
