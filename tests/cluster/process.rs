//! The controller as a process that tests measure and restart.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{api, cluster::Cluster, wait::until};

/// Clock ticks per second on Linux.
const TICKS: u64 = 100;

/// A controller that replaces the cluster's and runs with the same arguments.
pub(crate) struct Process {
    child: Child,
    /// The link to the binary: its file name selects the subcommand.
    program: PathBuf,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    probes: String,
}

impl Process {
    /// Ends the cluster's controller and starts another one, whose resource usage is known from the start. `change` may edit
    /// its arguments and its kubeconfig.
    pub(crate) fn take_over(cluster: &Cluster, change: impl FnOnce(&mut Vec<String>, &mut PathBuf)) -> Self {
        let folder = &cluster.server.folder;
        let pid = fs::read_to_string(folder.join("controller.pid")).unwrap();
        let pid = pid.trim().parse::<i32>().unwrap();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let mut words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        let program = PathBuf::from(words.next().unwrap());
        let mut arguments: Vec<String> = words.collect();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        until("the cluster's controller has ended", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().unwrap_or_default();
            stat.is_empty() || state.starts_with('Z')
        });
        let probes = arguments.iter().find_map(|argument| argument.strip_prefix("--health-probe-addr="));
        let probes = format!("http://{}/readyz", probes.unwrap());
        let mut kubeconfig = folder.join("controller.kubeconfig");
        change(&mut arguments, &mut kubeconfig);
        let child = start(&program, &arguments, &kubeconfig);
        let this = Self { child, program, arguments, kubeconfig, probes };
        this.wait();
        this
    }

    /// Ends the controller as Kubernetes would, and starts it again.
    pub(crate) fn restart(&mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.child.wait().unwrap();
        self.child = start(&self.program, &self.arguments, &self.kubeconfig);
        self.wait();
    }

    /// Starts the controller again after it has ended by itself, as Kubernetes would.
    pub(crate) fn succeed(&mut self) {
        self.child.wait().unwrap();
        self.child = start(&self.program, &self.arguments, &self.kubeconfig);
    }

    /// Suspends the process.
    pub(crate) fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    /// The process's user and system CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 1000 / TICKS)
    }

    /// A number of `/proc/PID/status`. Memory is in KiB.
    pub(crate) fn status(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
        found.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The number of open file descriptors, including connections.
    pub(crate) fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The log since the last start.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.kubeconfig.with_extension("log")).unwrap_or_default()
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    }

    fn wait(&self) {
        until("the controller is ready", || api::status_of(&self.probes).filter(|status| *status == 200));
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(program: &Path, arguments: &[String], kubeconfig: &Path) -> Child {
    let log = fs::File::create(kubeconfig.with_extension("log")).unwrap();
    Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
