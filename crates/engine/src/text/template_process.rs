//! A process that renders chat templates and does nothing else.
//!
//! Fuel bounds what a template executes and writes. It does not bound everything: lists that hold themselves many times are
//! compared, joined or written as JSON without a charge, and lists within lists may be deeper than the stack. So templates
//! of models run in a process with limits of its own and no environment. Whatever a template does, only this process ends.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::conversation::{Conversation, LIMIT_EXCEEDED, RenderResult, compiled};

/// The first argument of the program, which makes it such a process.
pub const ROLE: &str = "render-template";
/// Bytes of memory.
const MEMORY: u64 = 1 << 30;
/// Seconds of CPU time in all. A process that has used them is replaced.
const CPU_SECONDS: u64 = 600;
/// How long one conversation may take.
const RENDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The process that renders one template.
pub(super) struct TemplateProcess {
    program: PathBuf,
    source: String,
    running: Mutex<Option<TemplateChild>>,
}

struct TemplateChild {
    child: Child,
    requests: ChildStdin,
    /// The lines that it answers. They end with the process.
    answers: Receiver<String>,
}

// === impl TemplateProcess ===

impl TemplateProcess {
    /// Starts the process. The error says why the template cannot be read, or the process not be started.
    pub(super) fn new(program: PathBuf, source: String) -> Result<Self, String> {
        let process = Self { program, source, running: Mutex::new(None) };
        let running = process.start()?;
        *process.running.lock() = Some(running);
        Ok(process)
    }

    pub(super) fn render(&self, conversation: &Conversation) -> RenderResult {
        let request = serde_json::to_string(conversation).map_err(|error| error.to_string())?;
        // Held until the answer has come: answers carry no numbers, so the process gets one conversation at a time. The process is
        // put back only after it has answered; otherwise it is dropped here, which ends it.
        let mut current = self.running.lock();
        let known = current.take();
        let is_fresh = known.is_none();
        let mut running = match known {
            Some(running) => running,
            None => self.start()?,
        };
        let mut answer = running.ask(&request);
        if !is_fresh && matches!(answer, Err(RecvTimeoutError::Disconnected)) {
            // It may have ended because of what came before.
            running = self.start()?;
            answer = running.ask(&request);
        }
        let answer = answer.map_err(|_| LIMIT_EXCEEDED.to_owned())?;
        *current = Some(running);
        serde_json::from_str(&answer).map_err(|error| error.to_string())?
    }

    fn start(&self) -> Result<TemplateChild, String> {
        let failed = |error: io::Error| {
            format!("the process that renders the chat template cannot be started: {error}")
        };
        let mut command = Command::new(&self.program);
        // It needs no variables. Those of the server may be secrets, which a template must not reach.
        command.env_clear();
        command.arg(ROLE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, output) = pipes.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        // One answer follows one request.
        let (sender, answers) = sync_channel(1);
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut running = TemplateChild { child, requests, answers };
        let source = serde_json::to_string(&self.source).map_err(|error| error.to_string())?;
        let read = running
            .ask(&source)
            .map_err(|_| "cannot parse the chat template within the limits".to_owned())?;
        let read: Result<(), String> = serde_json::from_str(&read).map_err(|error| error.to_string())?;
        read.map(|()| running)
    }
}

// === impl TemplateChild ===

impl TemplateChild {
    fn ask(&mut self, request: &str) -> Result<String, RecvTimeoutError> {
        // If the process has ended, no answer comes.
        let _ = self.requests.write_all(format!("{request}\n").as_bytes());
        self.answers.recv_timeout(RENDER_TIMEOUT)
    }
}

impl Drop for TemplateChild {
    fn drop(&mut self) {
        // It has ended already, or must.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The main function of the process. It reads a template, then conversations, each from a line, and answers each with a line.
pub fn render_template() -> io::Result<()> {
    for (resource, limit) in [(Resource::Data, MEMORY), (Resource::Cpu, CPU_SECONDS), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    let mut lines = io::stdin().lines();
    let answer = |answer: serde_json::Result<String>| -> io::Result<()> {
        let mut output = io::stdout().lock();
        output.write_all(answer?.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()
    };
    let Some(source) = lines.next().transpose()? else { return Ok(()) };
    let environment = match compiled(serde_json::from_str(&source)?) {
        Ok(environment) => environment,
        Err(reason) => return answer(serde_json::to_string(&Err::<(), _>(reason))),
    };
    answer(serde_json::to_string(&Ok::<_, String>(())))?;
    for line in lines {
        let conversation: Conversation = serde_json::from_str(&line?)?;
        answer(serde_json::to_string(&conversation.rendered(&environment)))?;
    }
    Ok(())
}
