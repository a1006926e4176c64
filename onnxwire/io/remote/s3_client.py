"""Make boto3 clients for two operations that obstore lacks: listing keys such as a//b, and copying parts of objects."""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from onnxwire.io.remote.version import Version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from onnxwire.io.remote.address import Address

S3_SCHEMES = ("s3", "s3a")
# Client options that are ignored; with any other client option, boto3 is not used.
_CLIENT_OPTIONS = ("allow_http", "timeout", "connect_timeout", "user_agent")
_NAME_BY_ALIAS = {"token": "session_token", "endpoint_url": "endpoint", "default_region": "region"}
# obstore's names of the options that have a counterpart in boto3.
_OPTIONS = (
    "access_key_id", "secret_access_key", "session_token", "region", "endpoint", "virtual_hosted_style_request",
)  # fmt: skip


class Bucket(NamedTuple):
    """A bucket, and a client of boto3 with the settings that obstore would use for it."""

    client: Any
    name: str


def open_bucket(address: Address, options: Mapping[str, Any] | None) -> Bucket | None:
    """Return the bucket of an address; None if the address is not in S3, or boto3 is not installed or lacks a setting.

    Access keys, region, endpoint and addressing style come from the options, else from the environment, both under
    obstore's names. If access keys are in neither, boto3 searches for them in its usual places.
    """
    if address.scheme not in S3_SCHEMES:
        return None
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        return None
    settings: dict[str, Any] = {}
    options_left = dict(options or {})
    client_options = options_left.pop("client_options", None) or {}
    options_left.pop("retry_config", None)
    if any(name not in _CLIENT_OPTIONS for name in client_options):
        return None
    for source in (os.environ, options_left):
        for setting, value in source.items():
            name = setting.lower().removeprefix("aws_") if source is options_left or setting.startswith("AWS_") else ""
            name = _NAME_BY_ALIAS.get(name, name)
            if name in _OPTIONS and value:
                settings[name] = str(value)
            elif source is options_left or name in ("skip_signature", "s3_express"):
                return None
    is_virtual = settings.get("virtual_hosted_style_request", "").lower() in ("true", "1", "yes")
    client = boto3.client(
        "s3",
        aws_access_key_id=settings.get("access_key_id"),
        aws_secret_access_key=settings.get("secret_access_key"),
        aws_session_token=settings.get("session_token"),
        region_name=settings.get("region", "us-east-1"),
        endpoint_url=settings.get("endpoint"),
        config=Config(
            s3={"addressing_style": "virtual" if is_virtual else "path"},
            # Other servers than Amazon's often lack newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            retries={"mode": "standard", "max_attempts": 7},  # six retries, as for other requests
        ),
    )
    return Bucket(client, bucket_name(address))


def bucket_name(address: Address) -> str:
    """Return the name of an address's bucket."""
    return urlsplit(address.root).netloc


def key_in_bucket(address: Address) -> str:
    """Return the key of an address in its bucket."""
    return f"{urlsplit(address.root).path}/{address.key}".lstrip("/")


def list_keys(bucket: Bucket, prefix: str) -> Iterator[tuple[str, Version]]:
    """Iterate over the keys that begin with a prefix, and their versions. Raises the errors of boto3."""
    for page in bucket.client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name, Prefix=prefix):
        for entry in page.get("Contents", ()):
            yield entry["Key"], Version(entry["Size"], entry["ETag"], entry["LastModified"], None)
