"""Connect to a Ray cluster, and turn its failures into error messages of one sentence."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, NoReturn

from coresift.checks import CoresiftError, InputError, refuse
from coresift.errors import install_hint
from coresift.tables.parts import first_line
from coresift.version import __version__

# How often a task is retried if its worker or its node dies.
RETRIES = 10
# The address that was used to connect; the cluster may report another one.
_connected: dict[str, str] = {}


def connect(address: str | None) -> Any:
    """Return the module `ray`, connected to the cluster at the address; the connection stays open for later calls.

    Without an address, this is the cluster that this process is already connected to, the one in RAY_ADDRESS, or else a
    new one on this machine, which ends with the process.
    """
    try:
        import ray
    except ImportError:
        raise InputError(f"engine Ray needs the package ray: {install_hint('ray')}.") from None
    if not ray.is_initialized():
        _initialize(ray, address)
    elif address not in (None, "auto", ray.get_runtime_context().gcs_address, _connected.get("address")):
        current = ray.get_runtime_context().gcs_address
        refuse("address", f"that of the cluster this process is already connected to ({current})", repr(address))
    return ray


def _initialize(ray: Any, address: str | None) -> None:
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV"):
        os.environ.setdefault(name, "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None and "RAY_ADDRESS" not in os.environ:
        _require_token(ray)
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    _check_reachable(address)
    try:
        ray.init(address=address, **options)
    except Exception as error:  # Ray raises bare exceptions, too, such as when a node takes too long to start
        if address is None:
            raise CoresiftError(f"Ray could not start or find a cluster: {first_line(error)}.") from error
        refuse("address", "that of a Ray cluster that can be reached", f"{address!r} ({first_line(error)})")
    _connected["address"] = address or ""


def _require_token(ray: Any) -> None:
    """Make a new cluster accept commands only from this process and its workers.

    Ray listens on all interfaces and runs any code that it receives, so a cluster that coresift starts requires a
    token. The token is new for every cluster and is passed in the environment, unless the user has configured
    authentication.
    """
    if any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return
    if not hasattr(ray._raylet, "get_authentication_mode"):
        raise InputError(
            f"engine Ray without an address needs Ray 2.52 or newer; version {ray.__version__} would start a cluster "
            "on which anyone in the network could run programs."
        )
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray._raylet.Config.initialize("")  # Ray read the environment when it was imported


def _check_reachable(address: str | None) -> None:
    """Refuse an address at which no server answers; Ray itself would retry for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        refuse("address", "that of a Ray cluster that can be reached", f"{address!r} ({first_line(error)})")


@dataclass(frozen=True)
class Failure:
    """An error that a task returned instead of a result."""

    error: CoresiftError


def get(ray: Any, reference: Any, what: str) -> Any:
    """Wait for a result, and raise the error of a task that failed; `what` names the work in error messages."""
    try:
        result = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error
    except ray.exceptions.RayError as error:
        give_up(what, error)
    if isinstance(result, Failure):
        raise result.error
    return result


def give_up(what: str, error: Exception) -> NoReturn:
    """Raise the error for work that failed after all retries."""
    raise CoresiftError(
        f"The cluster gave up on {what} after {RETRIES} retries, each of which lost its worker or its node "
        f"({type(error).__name__}: {first_line(error)})."
    ) from error


def here() -> str:
    """Return the name of the node that this runs on."""
    import ray

    context = ray.get_runtime_context()
    return f"node {ray.util.get_node_ip_address()} ({context.get_node_id()[:8]})"


def check_version(version: str) -> None:
    """Refuse to work for a driver of another version, whose block functions may differ from this version's."""
    if version != __version__:
        raise CoresiftError(
            f"{here().capitalize()} has coresift {__version__}, but the driver has {version}; "
            "all nodes need the same version."
        )
