#!/usr/bin/env python3
"""Records a command on a terminal of its own and draws the recording as an animated SVG.

    scripts/record.py NAME TEXT COMMAND...

writes docs/images/NAME.cast (asciicast v2) and docs/images/NAME.svg. Some seconds after TEXT was printed the command gets Ctrl-C;
the recording ends when the command does. `scripts/record.py --draw NAME` draws an existing recording again.

Only Python's standard library is needed. The SVG holds no script: a CSS animation shows one frame after the other, and the last
one stays. Rows that several frames share are stored once.
"""

import fcntl
import html
import json
import math
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

COLUMNS, ROWS = 108, 31
IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
# How long the recording continues after the awaited text was printed, and its time limit, in seconds.
LOOK, LIMIT = 4.0, 300.0
# Longer pauses are shortened to this, in seconds: for example, while a model loads.
LONGEST_PAUSE = 1.2
# How long the last frame of a loop stays, in seconds.
LAST = 6.0
# Output within this time, in seconds, is one frame.
FRAME = 0.08
CHARACTER, LINE, MARGIN = 7.23, 17, 14
COLOURS = {
    30: "#5c6773", 31: "#ff7b72", 32: "#7bd699", 33: "#ecc465", 34: "#79b8ff", 35: "#d2a8ff", 36: "#74c2e8", 37: "#e4e9ee",
    90: "#8b98a5", 91: "#ff9d94", 92: "#9be8b4", 93: "#f5d98b", 94: "#a5d0ff", 95: "#e2c5ff", 96: "#a3daf2", 97: "#ffffff",
}


def record(command, awaited):
    """Runs a command; returns events (seconds, text)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    events, start, pending, interrupt_at, seen = [], time.monotonic(), b"", math.inf, False
    while True:
        now = time.monotonic()
        if now > interrupt_at:
            interrupt_at = math.inf
            os.write(terminal, b"\x03")
        if now > start + LIMIT:
            os.kill(pid, signal.SIGKILL)
            sys.exit(f"record: {awaited!r} was not printed, or the command did not end")
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            pending += os.read(terminal, 65536)
        except OSError:  # The command has ended.
            break
        text = pending.decode("utf-8", errors="ignore")
        pending = pending[len(text.encode("utf-8")):]
        events.append((time.monotonic() - start, text))
        if not seen and awaited in text:
            seen, interrupt_at = True, time.monotonic() + LOOK
    os.waitpid(pid, 0)
    return events


class Screen:
    """What a terminal shows: rows of cells (character, colour, whether bold, whether dim)."""

    def __init__(self):
        self.rows = [[] for _ in range(ROWS)]
        self.x = self.y = 0
        self.wraps = True
        self.style = (None, False, False)

    def write(self, text):
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", text):
            if part.startswith("\x1b["):
                self.obey(part[2:-1], part[-1])
            else:
                for character in part:
                    self.put(character)

    def put(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            self.next_row()
        elif character >= " ":
            if self.x >= COLUMNS:
                if not self.wraps:
                    self.x = COLUMNS - 1
                else:
                    self.x = 0
                    self.next_row()
            row = self.rows[self.y]
            row.extend([(" ", None, False, False)] * (self.x + 1 - len(row)))
            row[self.x] = (character, *self.style)
            self.x += 1

    def next_row(self):
        if self.y + 1 == ROWS:
            self.rows.append([])
            self.rows.pop(0)
        else:
            self.y += 1

    def obey(self, parameters, command):
        if command == "m":
            for code in [int(code or 0) for code in parameters.split(";")]:
                colour, bold, dim = self.style
                if code == 0:
                    self.style = (None, False, False)
                elif code == 1:
                    self.style = (colour, True, dim)
                elif code == 2:
                    self.style = (colour, bold, True)
                elif code == 22:
                    self.style = (colour, False, False)
                elif code == 39:
                    self.style = (None, bold, dim)
                elif code in COLOURS:
                    self.style = (COLOURS[code], bold, dim)
        elif command == "F":
            self.x, self.y = 0, max(0, self.y - int(parameters or 1))
        elif command == "K":
            del self.rows[self.y][self.x:]
        elif command == "J":
            del self.rows[self.y][self.x:]
            self.rows[self.y + 1:] = [[] for _ in self.rows[self.y + 1:]]
        elif parameters == "?7":
            self.wraps = command == "h"
        elif parameters != "?25":
            sys.exit(f"record: the sequence ESC [ {parameters} {command} is not known here")

    def shown(self):
        return tuple(tuple(row) for row in self.rows)


def frames(events):
    """Pictures of the terminal and how long each stays, in seconds."""
    screen, shown, before = Screen(), [], 0.0
    for at, text in events:
        pause = min(at - before, LONGEST_PAUSE)
        if shown and pause > FRAME:
            shown[-1][1] += pause
            shown.append([None, 0.0])
        elif not shown:
            shown.append([None, 0.0])
        else:
            shown[-1][1] += pause
        screen.write(text)
        shown[-1][0] = screen.shown()
        before = at
    merged = []
    for picture, seconds in shown:
        if merged and merged[-1][0] == picture:
            merged[-1][1] += seconds
        else:
            merged.append([picture, seconds])
    merged[-1][1] = LAST
    return merged


def drawn_row(row):
    """A row as SVG text: one tspan for each run of cells in one style."""
    spans, at = [], 0
    while at < len(row):
        style, end = row[at][1:], at
        while end < len(row) and row[end][1:] == style:
            end += 1
        text = "".join(cell[0] for cell in row[at:end])
        if text.strip():
            colour, bold, dim = style
            marks = f' fill="{colour}"' if colour else ""
            marks += ' font-weight="700"' if bold else ""
            marks += ' opacity=".65"' if dim else ""
            lead = len(text) - len(text.lstrip())
            x = round((at + lead) * CHARACTER, 1)
            # textLength keeps columns aligned in any font.
            width = round(len(text.strip()) * CHARACTER, 1)
            spans.append(f'<tspan x="{x}" textLength="{width}" lengthAdjust="spacingAndGlyphs"{marks}>{html.escape(text.strip())}</tspan>')
        at = end
    return "".join(spans)


def draw(events, title):
    """The recording as an animated SVG."""
    pictures = frames(events)
    used = max(max((index for index, row in enumerate(picture) if row), default=0) + 1 for picture, _ in pictures)
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, used * LINE + 2 * MARGIN
    rows, groups, keyframes, at = {}, [], [], 0.0
    total = sum(seconds for _, seconds in pictures)
    for index, (picture, seconds) in enumerate(pictures):
        uses = []
        for line, row in enumerate(picture):
            text = drawn_row(row)
            if text:
                name = rows.setdefault(text, f"r{len(rows)}")
                uses.append(f'<use href="#{name}" y="{line * LINE + 12}"/>')
        groups.append(f'<g transform="translate(0 {index * height})">{"".join(uses)}</g>')
        keyframes.append(f"{at / total * 100:.2f}%{{transform:translateY(-{index * height}px)}}")
        at += seconds
    last = (len(pictures) - 1) * height
    style = (
        f"text{{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e4e9ee;white-space:pre}}"
        f".film{{transform:translateY(-{last}px);animation:film {total:.2f}s step-end infinite}}"
        f"@keyframes film{{{''.join(keyframes)}}}"
        "@media (prefers-reduced-motion:reduce){.film{animation:none}}"
    )
    definitions = "".join(f'<text id="{name}" xml:space="preserve">{text}</text>' for text, name in rows.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{html.escape(title)}</title><style>{style}</style><defs>{definitions}</defs>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#12181e"/>'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{width - 2 * MARGIN}" height="{height - 2 * MARGIN}" style="overflow:hidden">'
        f'<g class="film">{"".join(groups)}</g></svg></svg>\n'
    )


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--draw":
        name = arguments[1]
    elif len(arguments) >= 3:
        name, awaited, command = arguments[0], arguments[1], arguments[2:]
        typed = " ".join(f'"{word}"' if " " in word else word for word in command)
        # The recording starts with the command, as if somebody typed it.
        events = [(0.0, "\x1b[32m$\x1b[0m ")]
        for character in typed:
            events.append((events[-1][0] + 0.09, character))
        events.append((events[-1][0] + 0.4, "\r\n"))
        begun = events[-1][0]
        events += [(begun + at, text) for at, text in record(command, awaited)]
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": typed}
        lines = [json.dumps(header)] + [json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in events]
        (IMAGES / f"{name}.cast").write_text("\n".join(lines) + "\n")
    else:
        sys.exit(__doc__)
    header, *lines = (IMAGES / f"{name}.cast").read_text().splitlines()
    events = [(at, text) for at, _, text in map(json.loads, lines)]
    (IMAGES / f"{name}.svg").write_text(draw(events, json.loads(header)["title"]))


main()
