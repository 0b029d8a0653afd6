"""S3 and stores that speak its protocol: objects with slashes in their names, shown as a tree.

A file is an object, published by one request or not at all. A directory is what names say: an
object whose name ends with a slash (a marker, made by mkdirs), or any object below. Nothing moves:
rename copies and deletes. docs/semantics.md says what differs from a file system.
"""

from __future__ import annotations

from .._on_demand import on_demand
from ..registry import Store, register
from .options import CREATE_KEYWORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .commit import PendingCommit
    from .filesystem import MultipartUpload, S3FileSystem

__all__ = ["MultipartUpload", "PendingCommit", "S3FileSystem"]

if not TYPE_CHECKING:  # with their first use: they bring much that other stores do not need
    __getattr__ = on_demand(
        __name__,
        {
            "MultipartUpload": "hflush.s3.filesystem:MultipartUpload",
            "PendingCommit": "hflush.s3.commit:PendingCommit",
            "S3FileSystem": "hflush.s3.filesystem:S3FileSystem",
        },
    )


def __dir__() -> list[str]:
    return __all__


# What says which server, by which way, and as whom: read here, by the core, or by botocore.
_ENVIRONMENT = (
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_ENDPOINT_URL_STS", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE", "HOME", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "http_proxy",
    "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
)  # fmt: skip

register(
    Store(
        schemes=("s3",),
        factory="hflush.s3.filesystem:S3FileSystem",
        aliases={"s3a": "s3", "s3n": "s3"},
        create_keywords=CREATE_KEYWORDS,
        key_families=("fs.s3a.", "hflush.s3."),
        keys="hflush.s3.keys:KEYS",
        fsspec="hflush.s3.fsspec:HflushS3FileSystem",
        environment=_ENVIRONMENT,
    )
)
