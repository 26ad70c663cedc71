"""A place for recordings, whatever it is on: a folder, S3, Google's or Azure's object store.

All are reached through `pyarrow.fs`, which comes with the package that writes Parquet. This file
has the few calls that a recording makes, and turns what goes wrong with them into a sentence that
says what to do.

An object appears complete or not at all. It is made in memory and written by one call, never
through a stream that an exception could leave half-full: pyarrow finishes an object whenever its
stream is closed, also by an exception, and a cut object would have its full name. Where a store
shows a name before the object is complete (Azure does, with 0 bytes), it is not there for a reader.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

from zaichik import ZaichikError
from zaichik.apps.recording.places import Place, shown_place, url_of

RETRY_SECONDS = 10  # for which a store's client tries by itself


class StoreUnavailable(ZaichikError):
    """The place of a recording cannot be reached, or has no time; another attempt may succeed."""

    retryable = True


class StoreRefused(StoreUnavailable):
    """The place of a recording cannot be used, and another attempt would fail in the same way."""

    retryable = False


class _Cause(NamedTuple):
    """Why a store refuses, by words in pyarrow's message, and what to do about it."""

    words: tuple[str, ...]
    what: str
    then: str
    is_permanent: bool = True


_CAUSES = (
    _Cause(
        ("NO_SUCH_BUCKET", "NoSuchBucket", "ContainerNotFound", "' not found",
         "bucket does not exist"),
        "there is no such bucket",
        "create it, or correct its name",
    ),
    _Cause(
        ("SKEWED", "Skewed", "REQUEST_EXPIRED", "RequestExpired"),
        "the clock of this machine is wrong, which makes its signature invalid",
        "set the clock (timedatectl set-ntp true), and start again",
    ),
    _Cause(
        ("EXPIRED_TOKEN", "ExpiredToken", "token has expired", "TokenRefresh"),
        "the credentials have expired",
        "renew them",
        is_permanent=False,
    ),
    _Cause(
        (
            "HTTP status 301",
            "PermanentRedirect",
            "PERMANENT_REDIRECT",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraint",
            "configured region",
        ),
        "the bucket is in another region",
        "name its region: …?region=eu-central-1, or AWS_REGION in the environment",
    ),
    _Cause(
        (
            "INVALID_ACCESS_KEY_ID",
            "InvalidAccessKeyId",
            "SIGNATURE_DOES_NOT_MATCH",
            "SignatureDoesNotMatch",
            "INVALID_CLIENT_TOKEN",
            "InvalidToken",
            "UNRECOGNIZED_CLIENT",
            "Unauthenticated",
            "AuthenticationFailed",
            "AuthenticationException",
            "UNAUTHENTICATED",
            "No credentials",
            "no credentials",
        ),
        "the store does not know the credentials",
        "check which ones are found on this machine (environment variables, a profile, or its "
        "role)",
    ),
    _Cause(
        ("ACCESS_DENIED", "AccessDenied", "HTTP status 403", "AuthorizationPermissionMismatch",
         "PERMISSION_DENIED", "Permission denied"),
        "the credentials do not have the rights",
        "to record takes the rights to list, read and write objects there (of S3: s3:ListBucket, "
        "s3:GetObject, s3:PutObject), to read takes the first two",
    ),
    _Cause(
        ("SLOW_DOWN", "SlowDown", "HTTP status 503", "TOO_MANY_REQUESTS"),
        "the store asks for fewer requests",
        "write larger objects (--every), or try later",
        is_permanent=False,
    ),
    _Cause(
        ("INTERNAL_FAILURE", "INTERNAL_ERROR", "HTTP status 500"),
        "the store has an error of its own",
        "try later",
        is_permanent=False,
    ),
    _Cause(
        ("NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT", "resolve host", "Connection"),
        "the store cannot be reached",
        "check the network, and the endpoint if there is one (AWS_ENDPOINT_URL)",
        is_permanent=False,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """An object or file of a listing.

    Attributes:
        path: in the store.
        size: its bytes.
    """

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Store:
    """A place, opened.

    Attributes:
        where: as it was given.
        files: reads and writes there.
        root: the path of the place in `files`.
    """

    where: Place
    files: fs.FileSystem
    root: str

    @property
    def place(self) -> str:
        """The place, for people."""
        return shown_place(self.where)

    @classmethod
    def at(cls, where: Place) -> "Store":
        """Returns the store of a place. Of an object store, the bucket is looked for.

        Raises:
            StoreUnavailable: it is not there, or may not be listed.
        """
        if isinstance(where, Path):
            return cls(where, fs.LocalFileSystem(), str(where.absolute()))
        with explained(where):
            files, root = fs.FileSystem.from_uri(_bounded(url_of(where)))
            root = root.rstrip("/")
            # A listing says what is wrong; HEAD has no room for that.
            found = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
            if not found and _is_missing(files, root.partition("/")[0]):
                raise StoreRefused(_sentence(shown_place(where), _CAUSES[0]))
        return cls(where, files, root)

    def reopened(self) -> "Store":
        """Returns the store with the credentials that are found now."""
        return Store.at(self.where)

    def listing(self, folder: str = "") -> list[Listed]:
        """Returns what is below a folder, in no order; nothing if there is no such folder.

        Args:
            folder: in the place; "": the place itself.

        Names that begin with a dot are hidden, and objects without a byte are not complete: both
        are left out.

        Raises:
            StoreUnavailable: it cannot be listed.
        """
        path = f"{self.root}/{folder}".rstrip("/")
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        with explained(self.place):
            found = self.files.get_file_info(selector)
        return [
            Listed(info.path, info.size)
            for info in found
            if info.is_file
            and (info.size or isinstance(self.where, Path))
            and not info.base_name.startswith(".")
        ]

    def write(self, path: str, data: pa.Buffer) -> None:
        """Write an object, and make sure that the store has all of it.

        Raises:
            StoreUnavailable: it could not be written.
        """
        with explained(self.place):
            stream = self.files.open_output_stream(f"{self.root}/{path}")
            stream.write(data)
            stream.close()
            size = self.files.get_file_info(f"{self.root}/{path}").size
        if size != data.size:
            raise StoreUnavailable(
                f"{self.place}/{path} was written, and has {size} of its {data.size} bytes: "
                "another program writes to the same name, or the store has lost some"
            )

    def opened(self, path: str) -> pa.NativeFile:
        """Returns an object to read; `path` is that of a listing.

        Raises:
            FileNotFoundError: it is gone.
            StoreUnavailable: it cannot be read.
        """
        try:
            return self.files.open_input_file(path)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise _unavailable(self.place, str(error)) from error

    def shown(self, path: str) -> str:
        """Returns the name of an object of a listing, for people."""
        return f"{self.place.partition('?')[0]}{path.removeprefix(self.root)}"


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Says in a sentence what went wrong with a store in the block.

    Raises:
        StoreUnavailable: instead of what pyarrow raises.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise _unavailable(place, str(error)) from error


def _unavailable(place: str, problem: str) -> StoreUnavailable:
    place = place.partition("?")[0]
    for cause in _CAUSES:
        if any(word in problem for word in cause.words):
            kind = StoreRefused if cause.is_permanent else StoreUnavailable
            return kind(_sentence(place, cause))
    problem = problem.partition("\n")[0].rstrip(".")
    return StoreUnavailable(f"{place} cannot be used ({problem})")


def _bounded(where: str) -> str:
    """Returns a URL whose client gives up in time: Google's tries for a quarter of an hour."""
    if not where.startswith("gs") or "retry_limit_seconds=" in where:
        return where
    mark = "&" if "?" in where else "?"
    return f"{where}{mark}retry_limit_seconds={RETRY_SECONDS}"


def _sentence(place: str, cause: _Cause) -> str:
    return f"{place} cannot be used: {cause.what}; {cause.then}"


def _is_missing(files: fs.FileSystem, bucket: str) -> bool:
    """Returns whether there is no such bucket. Credentials for a part of it may not ask."""
    try:
        return bool(files.get_file_info(bucket).type == fs.FileType.NotFound)
    except OSError:
        return False


def name_of(path: str) -> PurePosixPath:
    """Returns an object's path as one of which parts can be asked for."""
    return PurePosixPath(path)
