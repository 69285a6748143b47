"""The way to a cluster, and what can go wrong on it as one sentence each."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, NoReturn

from coresift.checks import CoresiftError, InputError, refuse
from coresift.version import __version__

# How often a task runs again because its worker or its node died.
RETRIES = 10
# The address by which this process came to its cluster; the cluster may call itself otherwise.
_begun: dict[str, str] = {}


def connect(address: str | None) -> Any:
    """Return the module `ray`, connected to the cluster at the address; the connection stays for later calls.

    Without an address it is the cluster that this process is connected to already, the one that RAY_ADDRESS names, or
    one that is started on this machine for as long as the process lives.
    """
    try:
        import ray
    except ImportError:
        raise InputError('engine Ray needs the package ray; install it with: pip install "coresift[ray]".') from None
    if not ray.is_initialized():
        _begin(ray, address)
    elif address not in (None, "auto", ray.get_runtime_context().gcs_address, _begun.get("address")):
        now = ray.get_runtime_context().gcs_address
        refuse("address", f"that of the cluster this process is connected to already ({now})", repr(address))
    return ray


def _begin(ray: Any, address: str | None) -> None:
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV"):
        os.environ.setdefault(name, "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None and "RAY_ADDRESS" not in os.environ:
        _require_token(ray)
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    _knock(address)
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        refuse("address", "that of a Ray cluster that can be reached", f"{address!r} ({first_line(error)})")
    _begun["address"] = address or ""


def _require_token(ray: Any) -> None:
    """Let the cluster that is about to be started obey nobody but this process and its workers.

    Ray listens on all interfaces and runs whatever it is sent, so a cluster of ours asks for a token. It is new for
    every cluster and lives in the environment of its processes, unless the user has set how to authenticate.
    """
    if any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return
    if not hasattr(ray._raylet, "get_authentication_mode"):
        raise InputError(
            f"engine Ray without an address needs Ray 2.52 or newer; version {ray.__version__} would start a cluster "
            "that anyone in the network could run programs on."
        )
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray._raylet.Config.initialize("")  # it has read the environment when it was imported


def _knock(address: str | None) -> None:
    """Refuse an address where no server answers; Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        refuse("address", "that of a Ray cluster that can be reached", f"{address!r} ({first_line(error)})")


@dataclass(frozen=True)
class Failure:
    """What came instead of a result: a fault that its sentence explains."""

    error: CoresiftError


def get(ray: Any, reference: Any, what: str) -> Any:
    """Wait for a result, and raise what was raised in its stead; `what` names the work that was given up."""
    try:
        found = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error
    except ray.exceptions.RayError as error:
        give_up(what, error)
    if isinstance(found, Failure):
        raise found.error
    return found


def give_up(what: str, error: Exception) -> NoReturn:
    """Say that the cluster did not manage some work, however often it was tried."""
    raise CoresiftError(
        f"The cluster gave up {what} after {RETRIES} more tries, each of which lost its worker or its node "
        f"({type(error).__name__}: {first_line(error)})."
    ) from error


def here() -> str:
    """Name the node that this runs on."""
    import ray

    context = ray.get_runtime_context()
    return f"node {ray.util.get_node_ip_address()} ({context.get_node_id()[:8]})"


def check_version(version: str) -> None:
    """Refuse to work for a driver of another version: its block functions may not be what this one knows."""
    if version != __version__:
        raise CoresiftError(
            f"{here().capitalize()} has coresift {__version__}, and the process that asks has {version}; "
            "all nodes need the same version."
        )


def first_line(error: BaseException) -> str:
    """Return the beginning of a message that may be long."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else "no message"
