"""Changes a copy of the suite's back end: `echo_address.py FOLDER`, the folder echo-basic of the suite. The pods of `longboat up`
share one network, so the back end has to listen on the address of its own pod instead of all addresses."""

import pathlib
import re
import sys

OWN = 'os.Getenv("LONGBOAT_POD_IP")+":'
changed = 0
for source in pathlib.Path(sys.argv[1]).rglob("*.go"):
    text = source.read_text()
    own = re.sub(r'"(?:0\.0\.0\.0)?:%', OWN + "%", text)
    own = own.replace('ResolveUDPAddr("udp", ":"', 'ResolveUDPAddr("udp", ' + OWN + '"')
    if own == text or source.name.endswith("_test.go"):
        continue
    if '\t"os"\n' not in own:
        own = own.replace("import (\n", 'import (\n\t"os"\n', 1)
    source.write_text(own)
    changed += 1
if changed < 3:
    sys.exit(f"the suite has changed: only {changed} files of {sys.argv[1]} listen on an address")
