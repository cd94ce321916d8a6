//! The node's side of the reaper.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Pid;

/// A running reaper. It cleans up when the last clone is dropped, or when this process ends.
#[derive(Debug, Clone)]
pub(crate) struct Reaper(Arc<Mutex<Pipe>>);

#[derive(Debug)]
struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Reaper {
    /// Starts the reaper. Tells it the node's id, and the folders to remove.
    pub(crate) fn start<'a>(
        executable: &Path,
        node_id: &str,
        dirs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> io::Result<Self> {
        let mut child = Command::new(executable)
            .arg("reaper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A Ctrl-C in the terminal must only reach the node, which then cleans up itself.
            .process_group(0)
            .spawn()?;
        // The pipe is close-on-exec, so no container holds it open when the node has died.
        let stdin = child.stdin.take();
        let reaper = Self(Arc::new(Mutex::new(Pipe { child, stdin })));
        reaper.send(&format!("node {node_id}"));
        for dir in dirs {
            reaper.send(&format!("dir {}", dir.display()));
        }
        Ok(reaper)
    }

    /// Registers a process group until the returned value is dropped.
    pub(crate) fn register(&self, group: Pid) -> Registration {
        self.send(&format!("add {}", group.as_raw_nonzero()));
        Registration { reaper: self.clone(), group }
    }

    fn send(&self, line: &str) {
        let mut pipe = self.0.lock();
        if let Some(stdin) = &mut pipe.stdin {
            // A single write, so that the node's death never leaves half a line.
            if let Err(error) = stdin.write_all(format!("{line}\n").as_bytes()) {
                tracing::warn!(
                    %error,
                    "The reaper has ended, so processes outlive the node if it is killed."
                );
                pipe.stdin = None;
            }
        }
    }

    /// Closes the pipe, and waits until the reaper has cleaned up. Returns `false` if this takes too long.
    pub(crate) async fn finish(&self, limit: Duration) -> bool {
        self.0.lock().stdin = None;
        let ended = async {
            loop {
                // `wait` would block a thread of the runtime, and with it the lock.
                match self.0.lock().child.try_wait() {
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => return,
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(limit, ended).await.is_ok()
    }
}

/// The registration of a process group that the reaper would kill.
#[derive(Debug)]
pub(crate) struct Registration {
    reaper: Reaper,
    group: Pid,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.reaper.send(&format!("remove {}", self.group.as_raw_nonzero()));
    }
}
