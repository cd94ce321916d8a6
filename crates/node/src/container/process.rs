//! The process of a container. It has its own process group, and its output goes to the container's log.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::launch::Launch;
use super::log::{LogWriter, Stream};
use crate::reaper::{Reaper, Registration};

/// How long to read the remaining output after the process has ended. A process that has left the group may keep the pipe
/// open for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The exit code, or 128 plus the signal, as in a shell and in containerd.
    pub(crate) code: i32,
    /// The signal that ended the process.
    pub(crate) signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let signal = status.signal();
        Self { code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)), signal }
    }
}

/// A running process. Dropping this kills its process group.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    group: KillOnDrop,
    _registration: Option<Registration>,
}

impl Running {
    /// Starts a process that leads a process group.
    pub(super) fn start(command: &mut Command, reaper: Option<&Reaper>) -> io::Result<Self> {
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        // If the node dies before this, the reaper finds the process by its environment.
        let registration = reaper.zip(pid).map(|(reaper, pid)| reaper.register(pid));
        Ok(Self { child, group: KillOnDrop(Group(pid)), _registration: registration })
    }

    async fn wait(&mut self) -> io::Result<Exit> {
        self.child.wait().await.map(Exit::from)
    }

    /// Waits for the process to end. Returns its exit code.
    pub(super) async fn exit(mut self) -> io::Result<i32> {
        Ok(self.wait().await?.code)
    }
}

/// The running process of a container, and its output.
#[derive(Debug)]
pub(crate) struct Process {
    running: Running,
    output: JoinSet<()>,
}

/// A process group, to which signals can be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(pub(super) Option<Pid>);

impl Group {
    /// The group's number, by which the system lists its processes.
    pub(crate) fn number(self) -> Option<i32> {
        self.0.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Asks the first process to end. The others hear nothing, as in a container: a server that finishes its requests needs
    /// its children for that (vLLM computes in one).
    pub(crate) fn terminate(self) {
        self.send(|pid| kill_process(pid, Signal::TERM));
    }

    /// Kills every process of the group.
    pub(crate) fn kill(self) {
        self.send(|pid| kill_process_group(pid, Signal::KILL));
    }

    /// Sends a signal. Ignores a group that no longer exists.
    fn send(self, kill: impl FnOnce(Pid) -> rustix::io::Result<()>) {
        if let Some(pid) = self.0
            && let Err(error) = kill(pid)
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(
                %error,
                pid = pid.as_raw_nonzero().get(),
                "Cannot send a signal to a process group."
            );
        }
    }
}

impl Process {
    /// Starts a process whose output goes to `log`.
    pub(crate) fn spawn(launch: &Launch, log: &LogWriter, reaper: Option<&Reaper>) -> io::Result<Self> {
        let mut running =
            Running::start(command(launch).stdout(Stdio::piped()).stderr(Stdio::piped()), reaper)?;
        let mut output = JoinSet::new();
        if let Some(stdout) = running.child.stdout.take() {
            output.spawn(copy(stdout, log.clone(), Stream::Stdout));
        }
        if let Some(stderr) = running.child.stderr.take() {
            output.spawn(copy(stderr, log.clone(), Stream::Stderr));
        }
        Ok(Self { running, output })
    }

    /// Returns the process group, so that the caller can signal it while [`wait`](Self::wait) is pending.
    pub(crate) fn group(&self) -> Group {
        self.running.group.0
    }

    /// Waits for the process to end. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<Exit> {
        self.running.wait().await
    }

    /// Ends the processes that the main process left behind, and reads the rest of its output.
    ///
    /// The end of a container's first process also ends the others, as in a container runtime.
    pub(crate) async fn finish(mut self) {
        // Before the output is read to its end: a process that still runs keeps the pipe open.
        drop(self.running.group);
        let drained = async { while self.output.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::debug!(
                "A process outside of the container's process group keeps the output of the container open."
            );
        }
    }
}

/// The result of a hook or an exec probe.
#[derive(Debug)]
pub(crate) struct ExecOutput {
    pub(crate) exit: Exit,
    /// The beginning of stdout, then that of stderr. The kubelet takes 10 KiB of both together, in the order of time.
    pub(crate) output: String,
}

/// Runs a command of an exec probe or hook to its end. Dropping the future kills its process group.
pub(crate) async fn exec(launch: &Launch, reaper: Option<&Reaper>) -> io::Result<ExecOutput> {
    const MAX_OUTPUT_BYTES: u64 = 10 * 1024;
    let mut running = Running::start(command(launch).stdout(Stdio::piped()).stderr(Stdio::piped()), reaper)?;
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    // At the same time: a process that has filled a pipe ends only if somebody reads it.
    let (exit, out, err) = tokio::join!(
        running.wait(),
        read_some(stdout, MAX_OUTPUT_BYTES),
        read_some(stderr, MAX_OUTPUT_BYTES)
    );
    let mut output = String::from_utf8_lossy(&out).into_owned();
    output.push_str(&String::from_utf8_lossy(&err));
    Ok(ExecOutput { exit: exit?, output })
}

/// Kills the process group when dropped.
#[derive(Debug)]
struct KillOnDrop(Group);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

async fn read_some(source: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut source) = source {
        // The output is only for messages, so read errors are ignored.
        let _ = (&mut source).take(limit).read_to_end(&mut kept).await;
        // A process must not end by SIGPIPE because it writes more than is kept.
        let _ = tokio::io::copy(&mut source, &mut tokio::io::sink()).await;
    }
    kept
}

/// Prepares the command of a process in a process group of its own, without input.
pub(super) fn command(launch: &Launch) -> Command {
    let mut command = command_in_our_group(launch);
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Like [`command`], but the process starts in the node's process group, and with its input.
pub(super) fn command_in_our_group(launch: &Launch) -> Command {
    let bound = launch.mounts.as_ref().filter(|_| launch.paths.bound().next().is_some());
    let mut command = if let Some(mounts) = bound {
        mounts.command(&launch.paths, &launch.cwd, &launch.program)
    } else {
        let mut command = Command::new(&launch.program);
        command.current_dir(&launch.cwd);
        command
    };
    // On drop, also a process that has left its group (`setsid`) is killed. The end of the group would not reach it.
    command.args(&launch.args).env_clear().envs(&launch.env).kill_on_drop(true);
    command
}

async fn copy(mut source: impl AsyncRead + Unpin, log: LogWriter, stream: Stream) {
    let mut buffer = vec![0; 8 * 1024];
    let mut lines = log.lines(stream);
    loop {
        match source.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => lines.write(&buffer[..count]),
            Err(error) => {
                tracing::debug!(%error, "Cannot read the output of a container.");
                break;
            }
        }
    }
    lines.end();
}
