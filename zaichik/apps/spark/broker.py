"""The broker of `format("zaichik")`: its address, and where a worker finds the secret.

Or a cluster, of which any broker is named: then each topic is read and written at its shard.

Spark shows options in plans, in its event log and on its pages, and sends them to every worker. So
no option holds a secret. Some name a file that does, and each process reads it when it connects:
the one that plans a query beside the driver, and the workers. Where no option names one, the
environment of that process may hold the secret, or a login that is kept on its machine, if it is
for exactly this address.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from zaichik import ClientTls, Credentials, Endpoint, blocking, client_tls, endpoint
from zaichik.apps.spark.errors import BadOption
from zaichik.client import logins
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.endpoint import TOKEN, NotAnAddress
from zaichik.net.tls_settings import UnusableCertificate

CLIENT = "zaichik-spark"  # the name, at the broker, of all clients that Spark starts
# What is asked about a topic, both can be.
AnyClient = blocking.Client | blocking.Cluster
SECRETS = ("token", "password", "secret")  # names that no option may have
SHOWN = "Spark shows options in plans and logs"
INSTEAD = (
    "name a file with the secret by tokenFile, or by user and passwordFile, or set "
    "ZAICHIK_TOKEN for the workers"
)


@dataclass(frozen=True, slots=True)
class Broker:
    """Everything about a broker that may be shown.

    Attributes:
        address: without credentials.
        is_cluster: whether it is one of a cluster, whose topics are meant.
        token_file, password_file, ca: paths on the machine that connects; "": none.
        user: the user of the password; "": a token identifies the user, or there is no login.
    """

    address: Endpoint
    token_file: str = ""
    user: str = ""
    password_file: str = ""
    ca: str = ""
    is_cluster: bool = False

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Broker":
        """Returns the broker that these options name; their names are in lower case.

        Raises:
            BadOption: they are not valid, or hold a secret, which the message does not repeat.
        """
        if forbidden := next((name for name in SECRETS if name in words), None):
            raise BadOption(f"there is no option {forbidden}: {SHOWN}; {INSTEAD}")
        if words.get("broker") and words.get("cluster"):
            raise BadOption("broker and cluster are given; one of them is enough")
        address = _address(words)
        user = words.get("user") or address.user
        token_file, password_file = words.get("tokenfile", ""), words.get("passwordfile", "")
        if TOKEN.search(token_file):
            raise BadOption(f"tokenFile is the path of a file, and no token: {SHOWN}")
        if token_file and (words.get("user") or password_file):
            raise BadOption(
                "tokenFile is given together with user or passwordFile, but a token identifies its "
                "user: leave one out"
            )
        if password_file and not user:
            raise BadOption("passwordFile is given, but not the user whose password it is")
        ca = words.get("ca", "")
        if ca and (not address.is_encrypted or address.pins):
            why = "it is without TLS: write zaichiks://"
            if address.pins:
                why = "its pin stands for one certificate"
            raise BadOption(f"there is a ca to check the certificate of {address}, but {why}")
        return cls(
            replace(address, credentials=None),
            token_file,
            "" if token_file else user,
            password_file,
            ca,
            is_cluster="cluster" in words,
        )

    def connect(self, reconnect: float = RECONNECT_SECONDS) -> AbstractContextManager[AnyClient]:
        """Returns a client, for as long as the block lasts.

        The files are read now, on this machine.

        Raises:
            BadOption, UnusableLogin: one of them cannot be used, or there is no password.
            ConnectFailed, BrokerError: as `zaichik.connect`.
        """
        try:
            address = self._with_secret()
        except NotAnAddress as error:
            raise BadOption(error.message) from None
        if self.is_cluster:
            return blocking.cluster(address, tls=self._tls(), name=CLIENT, reconnect=reconnect)
        return blocking.connect(address, tls=self._tls(), name=CLIENT, reconnect=reconnect)

    def _with_secret(self) -> Endpoint:
        if self.token_file:
            return logins.with_token(
                self.address, logins.secret_in(Path(self.token_file)), self.token_file
            )
        if self.password_file:
            return logins.with_password(self.address, self.user, Path(self.password_file))
        found = logins.known_for(
            replace(self.address, credentials=Credentials(self.user) if self.user else None)
        )
        if self.user and not found.secret:
            raise BadOption(
                f"there is no password of the user {self.user} here: name a file with it by "
                "passwordFile"
            )
        return found

    def _tls(self) -> ClientTls | None:
        if not self.ca:
            return None
        try:
            return client_tls(ca=Path(self.ca))
        except UnusableCertificate as error:
            raise BadOption(f"ca: {error}") from None
        except OSError as error:
            raise BadOption(f"ca: {self.ca} cannot be read: {error.strerror}") from None


def _address(words: Mapping[str, str]) -> Endpoint:
    """Returns the address and the credentials: an option's, the environment's, or the login's.

    Raises:
        BadOption: it is not an address, or the option holds a login.
    """
    option = "cluster" if "cluster" in words else "broker"
    given = words.get(option)
    try:
        found = endpoint(given) if given else logins.default_endpoint()
    except NotAnAddress as error:
        raise BadOption(
            f"{option} is not HOST:PORT or zaichiks://HOST:PORT: {error.message}"
        ) from None
    if given and found.credentials:
        raise BadOption(f"{option} has a login before the @: {SHOWN}; leave it out, and {INSTEAD}")
    return found
