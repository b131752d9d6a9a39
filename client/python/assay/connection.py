"""Which daemon is meant, and the channel to it.

A target is HOST:PORT, HOST (port 7575), unix:PATH, or the name of a table in the file of targets.
Target, file and token come from where the command line takes them:

    target       the argument, else ASSAY_TARGET, else 127.0.0.1:7575
    targets file the argument, else ASSAY_TARGETS, else ~/.config/assay/targets.toml if it is there
    token file   the argument, else the target's `token-file`, else ASSAY_TOKEN_FILE
"""

from __future__ import annotations

import contextlib
import importlib
import os
import stat
import threading
from dataclasses import dataclass, fields, replace
from typing import Any, Callable, Iterator, Optional

import grpc

from .errors import known_words, refuse

DEFAULT_TARGET = "127.0.0.1:7575"
DEFAULT_PORT = "7575"

# One attempt may take 5 s; a daemon that restarts is found again within one. A host that vanished
# is noticed within 20 s of a silent stream.
# While a user's function holds Python's GIL, only a timer of gRPC's own reads the connection, every 5 s. So the wait for
# an answer is longer than that.
_CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True)
class Tls:
    """Files of PEM. All empty: plaintext."""

    ca: str = ""  # roots that the daemon's certificate must go back to; empty: the system's
    cert: str = ""  # this client's certificate
    key: str = ""  # its private key
    server_name: str = ""  # the name in the daemon's certificate; empty: the host's

    def enabled(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))


@dataclass(frozen=True)
class Target:
    """One daemon to talk to."""

    address: str
    tls: Tls = Tls()
    token_file: str = ""


def path_text(name: str, path: Any) -> str:
    """The path of a file that the argument `name` is, "" for None."""
    try:
        return os.fsdecode(path or "")
    except TypeError:
        raise refuse(name, f"must be a path, got {path!r}") from None


def _default_file() -> str:
    if os.environ.get("ASSAY_TARGETS"):
        return os.environ["ASSAY_TARGETS"]
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    if not base:
        home = os.environ.get("HOME") or ""
        if not home:
            return ""
        base = os.path.join(home, ".config")
    path = os.path.join(base, "assay", "targets.toml")
    return path if os.path.exists(path) else ""


def _toml(path: str) -> Any:
    try:
        reader = importlib.import_module("tomllib")
    except ImportError:
        try:
            reader = importlib.import_module("tomli")
        except ImportError:
            raise refuse("targets_file", f"{path} is TOML, which Python reads from 3.11 on, or with the package "
                                         "tomli; install it") from None
    try:
        with open(path, "rb") as file:
            return reader.load(file)
    except OSError as error:
        raise refuse("targets_file", f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise refuse("targets_file", f"{path}: {error}") from None


def _named_targets(path: str) -> dict[str, list[Target]]:
    keys = {"tls-ca": "ca", "tls-cert": "cert", "tls-key": "key", "tls-server-name": "server_name"}
    known = ["address", "token-file", *keys]
    named: dict[str, list[Target]] = {}
    for name, entry in (_toml(path).get("targets") or {}).items():
        if isinstance(entry, str):
            entry = {"address": entry}
        if not isinstance(entry, dict):
            raise refuse("targets_file", f"{path}: targets.{name} must be an address or a table")
        for key, value in entry.items():
            if key not in known:
                raise refuse("targets_file", f'{path}: targets.{name}: unknown key "{key}"{known_words(key, known)}')
            if key != "address" and not isinstance(value, str):
                raise refuse("targets_file", f"{path}: targets.{name}: {key} must be a string")
        address = entry.get("address")
        addresses = [address] if isinstance(address, str) else address
        if not isinstance(addresses, list) or not addresses or not all(isinstance(a, str) for a in addresses):
            raise refuse("targets_file", f'{path}: targets.{name} needs address = "HOST:PORT", or a list of them')
        tls = Tls(**{field: entry.get(key, "") for key, field in keys.items()})
        named[name] = [Target(a, tls, entry.get("token-file", "")) for a in addresses]
    return named


def _with_port(text: str) -> str:
    if text == "unix:":
        raise refuse("target", '"unix:" names no socket; write unix:/PATH')
    if text.startswith("unix:"):
        return text
    if not text or "/" in text:
        raise refuse("target", f'"{text}" is no address; write HOST:PORT')
    bracket, colon = text.rfind("]"), text.rfind(":")
    if text.count(":") > 1 and bracket < 0:
        raise refuse("target", f'"{text}": write an IPv6 address as [{text}]:PORT')
    if colon < 0 or colon < bracket:
        return f"{text}:{DEFAULT_PORT}"
    port = text[colon + 1:]
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise refuse("target", f'"{text}": the port must be 1 to 65535, got "{port}"')
    return text


def resolve(target: Optional[str], targets_file: Optional[str], tls: Tls, token_file: Optional[str]) -> Target:
    """The one daemon that is meant."""
    if target is not None and not (isinstance(target, str) and target.strip()):
        raise refuse("target", f"must be HOST:PORT or a name in the targets file, got {target!r}")
    text = (target or os.environ.get("ASSAY_TARGET") or DEFAULT_TARGET).strip()
    path = targets_file or _default_file()
    named = _named_targets(path) if path else {}
    meant = named.get(text, [Target(text)])
    if len(meant) != 1 or "," in text:
        raise refuse("target", f'"{text}" names several daemons; a client talks to one')
    found = meant[0]
    given = {f.name: getattr(tls, f.name) for f in fields(tls) if getattr(tls, f.name)}
    found = Target(_with_port(found.address), replace(found.tls, **given),
                   token_file or found.token_file or os.environ.get("ASSAY_TOKEN_FILE") or "")
    if bool(found.tls.cert) != bool(found.tls.key):
        raise refuse("tls_key" if found.tls.cert else "tls_cert", "a certificate and its key come together")
    return found


def _is_ipv4(host: str) -> bool:
    return bool(host) and all(c in "0123456789." for c in host)


def _host(address: str) -> str:
    return address[:address.rfind(":")]


def _is_local(address: str) -> bool:
    """Whether only this machine sees what is sent there."""
    host = _host(address)
    return (address.startswith("unix:") or host in ("localhost", "[::1]")
            or (host.startswith("127.") and _is_ipv4(host)))


def _grpc_address(address: str) -> str:
    """gRPC's own name for it. An address in digits needs no name lookup."""
    if address.startswith("unix:"):
        return address
    if address.startswith("["):
        return "ipv6:" + address
    return ("ipv4:" if _is_ipv4(_host(address)) else "dns:///") + address


def _read(field: str, path: str) -> Optional[bytes]:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise refuse(field, f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    if not text:
        raise refuse(field, f"{path} is empty")
    return text


def _mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def _token(target: Target, token: Optional[str]) -> str:
    path = target.token_file
    if token is None:
        if not path:
            return ""
        token = (_read("token_file", path) or b"").decode("ascii", "replace").strip()
        if _mode(path) & 0o077:
            raise refuse("token_file", f"{path} may be read or changed by others: chmod 0600 {path}")
    if not token or not all(" " < c <= "~" for c in token):
        raise refuse("token", "must be one token: printable characters without spaces")
    if not target.tls.enabled() and not _is_local(target.address):
        raise refuse("token", f"the token is not sent to {target.address} in plaintext; give tls_ca")
    return token


class Channel:
    """A channel to one daemon, and what goes with every call."""

    def __init__(self, target: Target, token: Optional[str] = None) -> None:
        self.target = target.address
        self._make: Callable[[], Any]  # makes a gRPC channel
        secret = _token(target, token)
        self.metadata = (("authorization", f"Bearer {secret}"),) if secret else ()
        options = list(_CHANNEL_OPTIONS)
        address = _grpc_address(target.address)
        tls = target.tls
        if not tls.enabled():
            self._make = lambda: grpc.insecure_channel(address, options)
            self.grpc = self._make()
            return
        ca, cert, key = _read("tls_ca", tls.ca), _read("tls_cert", tls.cert), _read("tls_key", tls.key)
        if tls.key and _mode(tls.key) & 0o006:
            raise refuse("tls_key", f"{tls.key} may be read or changed by others: chmod 0600 {tls.key}")
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        self._make = lambda: grpc.secure_channel(address, credentials, options)
        self.grpc = self._make()

    def renew(self) -> None:
        """A new gRPC channel. The old one is kept as it is: to close it may wait for ever."""
        _LEFT.append(self.grpc)
        self.grpc = self._make()


# Channels that were interrupted. They live as long as the process.
_LEFT: list[Any] = []


@contextlib.contextmanager
def cancelled_after(call: Any) -> Iterator[None]:
    """Cancels a call at the end. If Ctrl-C interrupted it, that may wait for ever, and is not waited for."""
    try:
        yield
    except KeyboardInterrupt:
        threading.Thread(target=call.cancel, daemon=True).start()
        raise
    except BaseException:
        call.cancel()
        raise
    call.cancel()
