"""The site on localhost, made again while a sweep runs."""

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


def watch(make: Callable[[], Path], port: int, seconds: int) -> None:
    """Serve the folder of the page that `make` gives, and call it again every so often; until Ctrl-C."""
    index = make()
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(index.parent)))
    except OSError as error:
        raise Refused(f"port {port} cannot be served ({error.strerror}); --port names another one.") from error
    Thread(target=server.serve_forever, daemon=True).start()
    print(
        f"http://localhost:{server.server_port}/ shows every table, anew every {seconds} s; Ctrl-C ends it.", flush=True
    )
    with server:
        try:
            while True:
                time.sleep(seconds)
                try:
                    make()
                except Exception:  # a file that is being written, say: the pages before it stay
                    log.exception("the site could not be made; the next time comes in %d s", seconds)
        except KeyboardInterrupt:
            server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Requests are nobody's news."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()
