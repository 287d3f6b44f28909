"""What is wrong with the gateway's address in a client's file."""

from collections.abc import Iterator
from dataclasses import dataclass

from paretoken.clients.reading import ClientFile
from paretoken.doctor.address import check_base_url
from paretoken.doctor.variables import same_gateway
from paretoken.findings import Finding, failure, shown_url, warning


@dataclass(frozen=True, kw_only=True)
class WrongEnd:
    """A path's end that this client cannot use, though another can."""

    end: str
    why: str
    """Goes on after the address."""
    do: str


def check_address(
    file: ClientFile, name: str, url: str, *, what: str, base_url: str | None, wrong: WrongEnd
) -> Iterator[Finding]:
    """Findings about the address under `name`; `base_url` is the experiment's, with which it is compared."""
    place = file.place(name)
    findings, mended = check_base_url(url, variable=name)
    if findings[0].level == "failure":
        yield failure(
            what, f"{place}: {findings[0].seen}", f"Set it to {mended}" if mended else findings[0].do
        )
    elif url.rstrip("/").endswith(wrong.end):
        yield failure(what, f"{place}: {shown_url(url)} {wrong.why}", wrong.do)
    if base_url and not same_gateway(url, base_url):
        seen = f"{place}: {shown_url(url)} is another gateway than {shown_url(base_url)}"
        yield warning(what, seen, "Correct it, unless it is meant.")
