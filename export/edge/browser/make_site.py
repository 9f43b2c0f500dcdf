"""Puts the page, a model and the runtime into a folder of static files.

    npm install --prefix ../javascript
    python make_site.py MODEL_FOLDER SITE_FOLDER
    python make_site.py --serve SITE_FOLDER

Any server of static files will do. With the two headers that `--serve` sends,
browsers let the runtime use several threads.
"""

import argparse
import functools
import shutil
import sys
from http.server import SimpleHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
JAVASCRIPT = HERE.parent / "javascript"
PAGE = ("index.html", "page.mjs", "session_store.mjs", "style.css")
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs")
RUNTIME += ("ort-wasm-simd-threaded.wasm",)


def make_site(model: Path, site: Path, packages: Path) -> None:
    """Copy everything that a browser fetches.

    Args:
        model: folder that `keras-txl export onnx --flavour kv_ring` wrote.
        site: folder to write.
        packages: `node_modules` with onnxruntime-web.
    """
    runtime = packages / "onnxruntime-web" / "dist"
    for needed, way_out in (
        (model / "manifest.json", "Export with --flavour kv_ring."),
        (runtime / RUNTIME[0], "Run: npm install --prefix ../javascript"),
    ):
        if not needed.is_file():
            sys.exit(f"make_site.py: there is no {needed}. {way_out}")
    (site / "ort").mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        shutil.copy(HERE / name, site)
    shutil.copy(JAVASCRIPT / "transformer_xl.mjs", site)
    for name in RUNTIME:
        shutil.copy(runtime / name, site / "ort")
    shutil.copytree(model, site / "model", dirs_exist_ok=True)


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def make_server(site: Path, port: int) -> ThreadingHTTPServer:
    """A server of the folder on this machine."""
    handler = functools.partial(_Handler, directory=str(site))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def main() -> None:
    """What the command line does."""
    parser = argparse.ArgumentParser(description="Make or serve the page.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--packages", type=Path, default=JAVASCRIPT / "node_modules"
    )
    options = parser.parse_args()
    if len(options.folders) != (1 if options.serve else 2):
        parser.error("pass MODEL_FOLDER SITE_FOLDER, or --serve SITE_FOLDER")
    if options.serve:
        server = make_server(options.folders[0], options.port)
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
    else:
        make_site(*options.folders, options.packages)


if __name__ == "__main__":
    main()
