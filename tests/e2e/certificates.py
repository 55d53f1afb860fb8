"""Certificates for the tests of TLS, made with the openssl command, and clients that use them."""

import os
import ssl
import subprocess
import tempfile

from server import PATIENCE_S, Wire


class Certificates:
    """A directory with keys and certificates; use as a context manager."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="kbf-tls-")

    def __enter__(self):
        self.make("server")
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def make(self, name, issuer=None):
        """NAME.crt and NAME.key, self-signed, or signed by ISSUER."""
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        if issuer is None:
            self.openssl("req", "-x509", *key, "-keyout", self.path(f"{name}.key"), "-days", "2",
                         "-out", self.path(f"{name}.crt"), "-subj", f"/CN={name}",
                         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
            return
        request = self.path(f"{name}.csr")
        self.openssl("req", *key, "-keyout", self.path(f"{name}.key"), "-out", request,
                     "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", request, "-days", "2", "-CAcreateserial",
                     "-CA", self.path(f"{issuer}.crt"), "-CAkey", self.path(f"{issuer}.key"),
                     "-out", self.path(f"{name}.crt"))

    def replace(self, name, by):
        """Puts certificate and key of BY where those of NAME are, each in one step."""
        for kind in ("key", "crt"):
            with open(self.path(f"{by}.{kind}"), "rb") as file:
                self.write(f"{name}.{kind}", file.read())

    def write(self, name, data):
        temporary = self.path(name + ".new")
        with open(temporary, "wb") as file:
            file.write(data)
        os.rename(temporary, self.path(name))

    def server_words(self, *more):
        """What a server is started with; `more` are further options for -o."""
        files = f"ssl_chain_cert={self.path('server.crt')},ssl_key={self.path('server.key')}"
        return ("-Z", "-o", ",".join((files, *more)))

    def context(self, trust="server", client=None, version=None):
        """For a client that trusts the certificate TRUST (None: any) and shows CLIENT."""
        if trust is None:
            context = untrusting_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.path(f"{trust}.crt"))
        if client is not None:
            context.load_cert_chain(self.path(f"{client}.crt"), self.path(f"{client}.key"))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


def untrusting_context():
    """For a client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class TlsWire(Wire):
    """A Wire under TLS. An end without close_notify is an error, not an end."""

    def __init__(self, address, context, timeout=PATIENCE_S, session=None, receive_buffer=None):
        super().__init__(address, timeout, receive_buffer)
        plain = self.socket
        try:
            self.socket = context.wrap_socket(plain, server_hostname="localhost", session=session,
                                              suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise

    def peer_name(self):
        """The common name of the server's certificate, which was not verified."""
        der = self.socket.getpeercert(binary_form=True)
        done = subprocess.run(["openssl", "x509", "-inform", "der", "-noout", "-subject"],
                              input=der, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().rpartition("=")[2].strip()


def client_hello(context):
    """The first bytes of a client, for clients that say no more."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
