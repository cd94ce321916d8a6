//! A model server in its own process, and its resource usage.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{CONTEXT, TOKEN_BYTES};

/// How long a server may take to load its model, or to send the next token.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Server {
    pub(crate) name: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts the engine of this build, or the one that `LONGBOAT_ENGINE_BINARY` names.
    pub(crate) fn engine(model: &Path) -> Self {
        let binary = std::env::var("LONGBOAT_ENGINE_BINARY")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_longboat-engine").to_owned());
        let context = CONTEXT.to_string();
        let mut command = Command::new(binary);
        command.arg(model).args(["--threads", "1", "--max-model-len", &context, "--served-model-name", "m"]);
        command.args(["--kv-cache-memory-bytes", &(CONTEXT * TOKEN_BYTES).to_string()]);
        command.args(["--no-enable-prefix-caching", "--max-num-batched-tokens", "512"]);
        Self::start("longboat-engine", command, "--port")
    }

    /// Starts llama.cpp's own server in a Python process.
    pub(crate) fn llama(python: &Path, model: &Path) -> Self {
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/engine/llama.py")).arg(model);
        command.args(["--context", &CONTEXT.to_string()]);
        Self::start("llama.cpp", command, "--port")
    }

    fn start(name: &'static str, mut command: Command, port_flag: &str) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        command.args([port_flag, &address.port().to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { name, child: command.spawn().unwrap(), address };
        let start = Instant::now();
        while !server.is_ready() {
            assert!(server.child.try_wait().unwrap().is_none(), "{name} has ended");
            assert!(start.elapsed() < PATIENCE, "{name} does not answer");
            sleep(Duration::from_millis(50));
        }
        server
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 200")
    }

    /// Sends a greedy request for `length` tokens. Returns the server's CPU time and the time to the first token.
    pub(crate) fn answer(&self, prompt: &[usize], length: usize) -> (Duration, Duration) {
        let body = serde_json::json!({
            "model": "m", "prompt": prompt, "max_tokens": length, "temperature": 0, "ignore_eos": true,
            "stream": true, "cache_prompt": false,
        })
        .to_string();
        let before = self.cpu();
        let start = Instant::now();
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let (mut first, mut chunks) = (None, 0);
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line.starts_with("data: {") {
                first.get_or_insert_with(|| start.elapsed());
                chunks += 1;
            }
        }
        // A token that is only a part of a character has no chunk of its own.
        assert!(chunks > length / 2, "{} sent {chunks} chunks, expected about {length}", self.name);
        (self.cpu().saturating_sub(before), first.unwrap())
    }

    /// The CPU time of all threads so far.
    fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanoseconds = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// A number of `/proc/PID/status`, in KiB.
    pub(crate) fn status(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
