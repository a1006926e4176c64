"""Parse addresses of files on the Hugging Face Hub: hf://org/repo[@revision]/path."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_ENDPOINT = "https://huggingface.co"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")
# Revisions in which a slash need not be written as %2F.
_REF_REVISION = re.compile(r"refs/(?:pr/[0-9]+|convert/[A-Za-z0-9_]+)(?=/|$)")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_MAX_REVISION_CHARS = 255
_FORM = "the address of a file on the Hugging Face Hub is hf://org/repo/path or hf://org/repo@revision/path"


class HubFile(NamedTuple):
    """A file on the Hub: its repository (org/repo), revision (a branch, tag or commit), and path."""

    repository: str
    revision: str
    path: str

    @property
    def shown(self) -> str:
        """The address, without @main."""
        revision = "" if self.revision == "main" else f"@{quote(self.revision, safe='')}"
        return f"hf://{self.repository}{revision}/{self.path}"

    @property
    def key(self) -> str:
        """The path of a request for the file."""
        prefix = quote(urlsplit(hub_endpoint()).path.rstrip("/"), safe="/%")
        return f"{prefix}/{self.repository}/resolve/{quote(self.revision, safe='')}/{quote(self.path)}"


def hub_endpoint() -> str:
    """Return the URL of the Hub: the environment variable HF_ENDPOINT, or the URL of the public Hub."""
    return (os.environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")


def parse_hub_file(text: str) -> HubFile:
    """Parse an address. The path of the result is "" for a repository. Raises ValueError for an invalid address."""
    organization, _, remainder = text.partition("://")[2].partition("/")
    repository, at_sign, remainder = _split_repository(remainder)
    if organization in ("datasets", "spaces", "models", "buckets"):
        raise ValueError(f"only model repositories are read from the Hub; {_FORM}")
    for name in (organization, repository):
        is_name = _NAME.fullmatch(name) and ".." not in name and "--" not in name and not name.endswith((".", "-"))
        if not is_name:
            raise ValueError(_FORM)
    revision = "main"
    if at_sign:
        match = _REF_REVISION.match(remainder)
        encoded_revision = match[0] if match else remainder.partition("/")[0]
        remainder = remainder[len(encoded_revision) + 1 :]
        revision = unquote(encoded_revision, errors="strict")
        if not _REVISION.fullmatch(revision) or ".." in revision or len(revision) > _MAX_REVISION_CHARS:
            raise ValueError("the revision of the address is not the name of a branch or tag, nor a commit")
    if remainder and {"", ".", ".."} & set(remainder.removesuffix("/").split("/")):
        raise ValueError("the path of the address contains an empty name, . or ..")
    return HubFile(f"{organization}/{repository}", revision, remainder)


def _split_repository(text: str) -> tuple[str, str, str]:
    """Return the repository, "@" or "", and the text after them: a path, or a revision and a path."""
    name = text.partition("/")[0]
    repository, at_sign, _ = name.partition("@")
    return repository, at_sign, text[len(repository) + 1 :]
