//! Commands in a running container: `kubectl exec`, `cp` and `attach`.
//!
//! A command gets the container's environment, folder and mounts. When the session ends, the command and the
//! processes that it has left behind end, too.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt;
use longboat_apiserver::pod_access::{ExecOptions, Execution, LogStream, PodAccessError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

use super::launch::Launch;
use super::process::{Running, command, command_in_our_group};
use super::terminal::Terminal;
use crate::probe::Target;

/// A boxed input or output.
type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// Starts a command in the environment of a running container.
pub(crate) fn start(target: &Target, options: &ExecOptions) -> Result<Execution, PodAccessError> {
    let name = options.command.first().map(String::as_str).unwrap_or_default();
    let mut launch = target.launch.exec(&target.host, &options.command).map_err(|_| {
        PodAccessError::BadRequest(format!("exec: \"{name}\": executable file not found on this machine"))
    })?;
    keep_names(&options.command, &mut launch.args);
    let started =
        if options.tty { in_terminal(target, launch, options) } else { piped(target, &launch, options) };
    started.map_err(|error| PodAccessError::Internal(format!("exec: \"{name}\": {error}")))
}

/// Makes the archive of a `kubectl cp` use the file names that the client expects, if the path was rewritten.
fn keep_names(command: &[String], args: &mut Vec<String>) {
    let [program, create, output, asked] = command else { return };
    let is_tar = program.rsplit('/').next() == Some("tar") && create == "cf" && output == "-";
    let Some(local) = args.get(2).filter(|local| is_tar && *local != asked).cloned() else { return };
    // A path with characters that are special in the `tar` expression is not transformed; the copy then fails.
    let is_plain = |path: &str| path.chars().all(|c| c.is_alphanumeric() || "/._-+@ ".contains(c));
    if is_plain(&local) && is_plain(asked) {
        let (from, to) = (local.trim_start_matches('/'), asked.trim_start_matches('/'));
        args.splice(2..2, ["--transform".to_owned(), format!("s,^/*{from},{to},")]);
    }
}

/// Returns the output of a container's main process.
pub(crate) fn attached(log: LogStream) -> Execution {
    Execution {
        stdin: None,
        stdout: Some(Box::new(StreamReader::new(log))),
        stderr: None,
        resize: None,
        exit: std::future::ready(Ok(0)).boxed(),
    }
}

fn piped(target: &Target, launch: &Launch, options: &ExecOptions) -> io::Result<Execution> {
    let mut command = command(launch);
    command.stdin(if options.stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(if options.stdout { Stdio::piped() } else { Stdio::null() });
    command.stderr(if options.stderr { Stdio::piped() } else { Stdio::null() });
    let mut running = Running::start(&mut command, target.reaper.as_ref())?;
    let child = &mut running.child;
    let stdin = child.stdin.take().map(|stdin| Box::new(stdin) as Input);
    let stdout = child.stdout.take().map(|stdout| Box::new(stdout) as Output);
    let stderr = child.stderr.take().map(|stderr| Box::new(stderr) as Output);
    Ok(Execution { stdin, stdout, stderr, resize: None, exit: running.exit().boxed() })
}

fn in_terminal(target: &Target, mut launch: Launch, options: &ExecOptions) -> io::Result<Execution> {
    let (terminal, slave) = Terminal::open()?;
    let terminal = Arc::new(terminal);
    launch.env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
    // `setsid -c` creates a session with the terminal as its controlling terminal. A shell needs this for job control.
    let leads = launch.lead_by("setsid", &["-c"], &target.host);
    let mut command = command(&launch);
    if leads {
        // A process group leader cannot create a session.
        command = command_in_our_group(&launch);
    }
    let stream = |slave: &OwnedFd| slave.try_clone().map(Stdio::from);
    command.stdin(stream(&slave)?).stdout(stream(&slave)?).stderr(Stdio::from(slave));
    let running = Running::start(&mut command, target.reaper.as_ref())?;
    // Closes our copies of the slave side: the output ends when the last copy is closed.
    drop(command);
    let resized = Arc::clone(&terminal);
    Ok(Execution {
        stdin: options.stdin.then(|| Box::new(terminal.writer()) as Input),
        stdout: Some(Box::new(terminal.reader())),
        stderr: None,
        resize: Some(Box::new(move |size| resized.resize(size))),
        exit: running.exit().boxed(),
    })
}

#[cfg(test)]
mod tests {
    use super::keep_names;

    #[test]
    fn an_archive_has_the_names_that_were_asked_for() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (command, args, expected) in [
            (
                "tar cf - /secret/key",
                "cf - /lb/v/key",
                "cf - --transform s,^/*lb/v/key,secret/key, /lb/v/key",
            ),
            ("tar cf - /etc/hosts", "cf - /etc/hosts", "cf - /etc/hosts"),
            ("tar cf - /secret/a,b", "cf - /lb/v/a,b", "cf - /lb/v/a,b"),
            ("cat cf - /secret/key", "cf - /lb/v/key", "cf - /lb/v/key"),
        ] {
            let mut args = words(args);
            keep_names(&words(command), &mut args);
            assert_eq!(args, words(expected), "{command}");
        }
    }
}
