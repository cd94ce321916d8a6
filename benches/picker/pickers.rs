//! The measured processes: a picker, and a floor, which picks nothing.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use clap::Parser;
use tokio_util::sync::CancellationToken;

/// A child process that ends when this is dropped.
pub(crate) struct Measured {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The CPU time of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) all: Duration,
    /// The CPU time of the threads that only serve streams. It does not include scraping, which the floor does not do.
    pub(crate) streams: Duration,
}

/// The resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Measured {
    /// Starts the picker of `LONGBOAT_BINARY`, or that of this program, on a free port, with the endpoints of a file.
    pub(crate) fn picker(endpoints: &Path, policy: &str) -> Self {
        let port = crate::envoy::free_port();
        let discovery = format!(
            "plugins:\n- {{type: file-discovery, parameters: {{path: '{}'}}}}\n",
            endpoints.display()
        );
        let config = policy.replacen("plugins:\n", &discovery, 1)
            + "dataLayer: {discovery: {endpoints: {pluginRef: file-discovery}}}\n";
        let (program, role) = match std::env::var_os("LONGBOAT_BINARY") {
            Some(binary) => (binary.into(), "epp"),
            None => (std::env::current_exe().unwrap(), "picker"),
        };
        let child = Command::new(program)
            .arg(role)
            .arg(format!("--grpc-port={port}"))
            .args(["--grpc-health-port=0", "--metrics-port=0", "--v=0", "--zap-log-level=error"])
            // A picker on a loopback address records decisions by default, for local use. On a cluster it does not.
            .args(["--bind-address=127.0.0.1", "--decisions=0", "--config-text", &config])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let measured = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        while std::net::TcpStream::connect(measured.address).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Waits until the picker has read the discovery file and the first metrics of the endpoints.
        std::thread::sleep(Duration::from_secs(1));
        measured
    }

    /// Starts a bare tonic server that chooses these endpoints in turn.
    pub(crate) fn floor(endpoints: &[SocketAddr]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("floor")
            .args(endpoints.iter().map(ToString::to_string))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }

    /// The CPU time of all threads so far, and that of the threads that serve streams, from the kernel's scheduler.
    pub(crate) fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::default();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
            let thread = thread.unwrap().path();
            let file = |name: &str| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
            let ran = file("schedstat").split(' ').next().and_then(|ran| ran.parse().ok()).unwrap_or(0);
            cpu.all += Duration::from_nanos(ran);
            if file("comm").trim() == "ext-proc" {
                cpu.streams += Duration::from_nanos(ran);
            }
        }
        cpu
    }

    /// The current and the peak resident memory.
    pub(crate) fn memory(&self) -> Memory {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let size = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        Memory { now: size("VmRSS:"), peak: size("VmHWM:") }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    picker: longboat_epp::Args,
}

/// Runs the picker in this program, on the same runtime as in the binary.
pub(crate) fn run_picker() {
    let arguments = longboat_epp::normalized(std::env::args_os().skip(1));
    let args = Program::parse_from(arguments).picker;
    let runtime = longboat_epp::runtime().unwrap();
    runtime.block_on(longboat_epp::run(args, CancellationToken::new())).unwrap();
}
