//! Programs that tests start.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

use crate::wait::until;

/// Exit status and output of a program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

// === impl Ended ===

impl Ended {
    /// Returns standard output. Panics if the program failed.
    pub(crate) fn ok(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.stdout
    }
}

/// A running program with its output so far.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, first) = collect(child.stdout.take().unwrap());
        let (stderr, second) = collect(child.stderr.take().unwrap());
        Self { child, stdout, stderr, readers: vec![first, second] }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().clone()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the program has ended.
    pub(crate) fn end(mut self) -> Ended {
        let status = until("the end of the program", || self.child.try_wait().unwrap());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Ended { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The reaper of `up` kills the processes that `up` leaves behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command.stdin(Stdio::null())).end()
}

fn collect(source: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    let reader = thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            sink.lock().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    (text, reader)
}
