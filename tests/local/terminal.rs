//! The output of `up` on a terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use longboat_testkit::Awaited;
use nix::pty::{Winsize, openpty};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::{
    local_cluster::{example, up},
    processes, tools,
    wait::LIMIT,
};

/// An emulated terminal: the visible rows, and those that have scrolled off the top.
#[derive(Debug)]
struct Screen {
    columns: usize,
    rows: usize,
    gone: Vec<String>,
    grid: Vec<Vec<char>>,
    x: usize,
    y: usize,
    wraps: bool,
    /// The received part of an incomplete escape sequence.
    pending: Option<String>,
}

// === impl Screen ===

impl Screen {
    fn new(columns: usize, rows: usize) -> Self {
        let grid = vec![Vec::new(); rows];
        Self { columns, rows, gone: Vec::new(), grid, x: 0, y: 0, wraps: true, pending: None }
    }

    fn write(&mut self, text: &str) {
        for character in text.chars() {
            match (&mut self.pending, character) {
                (Some(sequence), _) => {
                    sequence.push(character);
                    if character.is_ascii_alphabetic() {
                        let sequence = self.pending.take().unwrap();
                        self.obey(&sequence);
                    }
                }
                (None, '\u{1b}') => self.pending = Some(String::new()),
                (None, '\r') => self.x = 0,
                (None, '\n') => self.next_row(),
                (None, _) => self.put(character),
            }
        }
    }

    fn put(&mut self, character: char) {
        if self.x == self.columns {
            if self.wraps {
                self.x = 0;
                self.next_row();
            } else {
                self.x -= 1;
            }
        }
        let row = &mut self.grid[self.y];
        row.resize(row.len().max(self.x + 1), ' ');
        row[self.x] = character;
        self.x += 1;
    }

    fn next_row(&mut self) {
        self.y += 1;
        if self.y == self.rows {
            self.y -= 1;
            let first = self.grid.remove(0);
            self.gone.push(first.into_iter().collect());
            self.grid.push(Vec::new());
        }
    }

    /// Executes an escape sequence that `up` uses. Any other sequence fails the test.
    fn obey(&mut self, sequence: &str) {
        let (parameters, command) = sequence.split_at(sequence.len() - 1);
        match (parameters.trim_start_matches('['), command) {
            (_, "m") => {}
            (count, "F") => {
                self.x = 0;
                self.y = self.y.saturating_sub(count.parse().unwrap());
            }
            ("", "K") => self.grid[self.y].truncate(self.x),
            ("", "J") => {
                let (x, y) = (self.x, self.y);
                self.grid[y].truncate(x);
                self.grid[y + 1..].iter_mut().for_each(Vec::clear);
            }
            ("?7", "l") => self.wraps = false,
            ("?7", "h") => self.wraps = true,
            other => panic!("an unknown sequence: {other:?}"),
        }
    }

    fn resize_rows(&mut self, rows: usize) {
        while self.grid.len() > rows {
            // Terminals first drop the rows below the cursor.
            if self.y + 1 < self.grid.len() {
                self.grid.pop();
            } else {
                let first = self.grid.remove(0);
                self.gone.push(first.into_iter().collect());
                self.y -= 1;
            }
        }
        self.rows = rows;
    }

    fn shown(&self) -> Vec<String> {
        self.grid.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: Mutex<Child>,
    master: OwnedFd,
    screen: Arc<Mutex<Screen>>,
}

// === impl Terminal ===

impl Terminal {
    pub(crate) fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        let slave = || pair.slave.try_clone().unwrap();
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.env("TERM", "xterm-256color").env_remove("NO_COLOR").spawn().unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(Screen::new(columns.into(), rows.into())));
        let (mut source, sink) = (File::from(pair.master.try_clone().unwrap()), screen.clone());
        thread::spawn(move || {
            let (mut pending, mut part) = (Vec::new(), [0; 4096]);
            // Reading fails when the program has ended.
            while let Ok(count @ 1..) = source.read(&mut part) {
                pending.extend_from_slice(&part[..count]);
                let whole = match std::str::from_utf8(&pending) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text: Vec<u8> = pending.drain(..whole).collect();
                sink.lock().write(std::str::from_utf8(&text).unwrap());
            }
        });
        Self { child: Mutex::new(child), master: pair.master, screen }
    }

    fn shown(&self) -> Vec<String> {
        self.screen.lock().shown()
    }

    /// All text that was shown and not overwritten, including rows that have scrolled off.
    pub(crate) fn all(&self) -> String {
        let screen = self.screen.lock();
        [screen.gone.clone(), screen.shown()].concat().join("\n")
    }

    /// Polls until there is a value. At the limit, panics with the text of the terminal.
    pub(crate) fn until<A: Awaited>(&self, what: &str, probe: impl Fn() -> A) -> A::Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(value) = probe().value() {
                return value;
            }
            assert!(Instant::now() < deadline, "did not happen: {what}\n{}", self.all());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types a text. The terminal shows it, too.
    pub(crate) fn type_text(&self, text: &str) {
        File::from(self.master.try_clone().unwrap()).write_all(text.as_bytes()).unwrap();
    }

    fn resize_rows(&self, rows: u16) {
        let columns = u16::try_from(self.screen.lock().columns).unwrap();
        self.screen.lock().resize_rows(rows.into());
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.master, size).unwrap();
        processes::signal("WINCH", self.child.lock().id());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut child = self.child.lock();
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn a_small_terminal_shows_one_live_tree_and_no_remains_of_it() {
    let folder = TempDir::new().unwrap();
    let mut command = up(folder.path());
    command.arg(example()).args(["--port", "0"]);
    let terminal = Terminal::start(&mut command, 80, 14);
    let bottom = "Press Ctrl-C to stop everything.";
    let lives = || {
        let shown = terminal.shown();
        let last = shown.iter().rposition(|row| !row.is_empty())?;
        (shown[last] == bottom).then_some(shown)
    };
    let shown = terminal.until("the tree stands at the bottom", lives);
    let all = terminal.all();
    for once in
        ["default/qwen  Ready", bottom, "export KUBECONFIG=", "├─ ✓ Deployment qwen-kserve  1/1 ready"]
    {
        assert_eq!(all.matches(once).count(), 1, "{once}:\n{all}");
    }
    assert!(shown.iter().any(|row| row.starts_with("│  └─ ✓ Pod qwen-kserve-")), "{shown:#?}");

    // The death of a pod shows in the tree, and not in an additional line.
    if tools::kubectl().is_some() {
        let kubeconfig = all.lines().find_map(|line| line.split_once("export KUBECONFIG="));
        let pod = |rows: &[String]| {
            let row =
                rows.iter().find(|row| row.contains("✓ Pod qwen-kserve-") && !row.contains("scheduler"))?;
            Some(row.split(' ').find(|word| word.starts_with("qwen-kserve-"))?.to_owned())
        };
        let before = pod(&shown).unwrap();
        let mut kubectl = Command::new(tools::root().join(".cache/bin/kubectl"));
        kubectl.env("KUBECONFIG", kubeconfig.unwrap().1.trim()).args([
            "delete",
            "pod",
            &before,
            "--wait=false",
        ]);
        crate::local_cluster::run(&mut kubectl).ok();
        terminal.until("another pod is ready in its place", || {
            let shown = lives()?;
            shown.iter().find(|row| row.starts_with("✓ default/qwen  Ready"))?;
            pod(&shown).filter(|pod| *pod != before)
        });
        let gone = terminal.screen.lock().gone.clone();
        assert!(gone.iter().all(|row| !row.contains("─ ")), "a former tree has scrolled away: {gone:#?}");
        let all = terminal.all();
        assert_eq!(all.matches("default/qwen  Ready").count(), 1, "{all}");
    }

    // Rows that do not fit are left out.
    terminal.resize_rows(4);
    terminal.until("the tree fits into four rows", || {
        let shown = lives()?;
        shown.iter().any(|row| row.contains("more: enlarge the window")).then_some(())
    });

    processes::signal("INT", terminal.child.lock().id());
    let status = terminal.until("the end of `up`", || terminal.child.lock().try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    terminal.until("the last word", || terminal.all().contains("Stopped. All processes have ended"));
    let said = terminal.all().replace('\n', "");
    assert!(
        said.contains("Stopping default/qwen, ")
            && said.contains(" pods, the gateway, the controller and the API server."),
        "{said}"
    );
    assert!(!terminal.all().contains(bottom), "the picture is taken away:\n{}", terminal.all());
}
