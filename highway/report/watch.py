"""Serve the site on localhost and rebuild it while a sweep runs."""

import logging
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from highway.errors import Refused

log = logging.getLogger("highway")


def watch(build: Callable[[], object], folder: Path, port: int, seconds: int) -> None:
    """Build the site, serve its folder, and build it again after so many seconds, until Ctrl-C."""
    build()
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise Refused(f"Port {port} cannot be used ({error.strerror}). Choose another one with --port.") from error
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://localhost:{server.server_port}/"
    print(f"{address} shows every table, rebuilt every {seconds} s. Ctrl-C stops it.", flush=True)
    with server:
        try:
            while True:
                time.sleep(seconds)
                try:
                    build()
                except Exception:  # for example a file that is being written; the last pages stay
                    log.exception("The site could not be built; the next attempt is in %d s.", seconds)
        except KeyboardInterrupt:
            server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing."""
