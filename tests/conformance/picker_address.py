"""Changes a copy of the inference extension: `picker_address.py FOLDER`. Its picker lwepp has to listen on the address of its own
pod, as the back end of the suite has to (echo_address.py)."""

import pathlib
import sys

OWN = 'os.Getenv("LONGBOAT_POD_IP")'
for name, old, new in [
    ("internal/runnable/grpc.go", 'fmt.Sprintf(":%d", port)', f'fmt.Sprintf("%s:%d", {OWN}, port)'),
    ("cmd/lwepp/main.go", 'fmt.Sprintf(":%d", opts.MetricsPort)', f'fmt.Sprintf("%s:%d", {OWN}, opts.MetricsPort)'),
]:
    source = pathlib.Path(sys.argv[1]) / name
    text = source.read_text()
    if old not in text:
        sys.exit(f"the extension has changed: {source} has no {old}")
    text = text.replace(old, new)
    if '\t"os"\n' not in text:
        text = text.replace("import (\n", 'import (\n\t"os"\n', 1)
    source.write_text(text)
