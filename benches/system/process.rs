//! A running world, and the resource usage of its processes.

use std::{collections::BTreeMap, fs, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use crate::{ROOT, binary};

/// A `longboat up` that keeps serving.
pub(crate) struct UpProcess {
    child: Child,
    _stderr: Lines<BufReader<ChildStderr>>,
    kubeconfig: String,
    /// The URL of the service.
    pub(crate) url: String,
    /// The model's name.
    pub(crate) model: String,
}

// === impl UpProcess ===

impl UpProcess {
    /// Starts `longboat up`, and waits until it prints how to continue.
    pub(crate) async fn start(manifest: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(binary())
            .args(["up", manifest, "--port", "0", "--engine", "sim"])
            .current_dir(ROOT)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
        let (mut url, mut model) = (None, None);
        while let Some(line) = lines.next_line().await? {
            if let Some((_, found)) = line.split_once("serves at ") {
                url = Some(found.trim().to_owned());
            }
            if let Some((_, rest)) = line.split_once("\"model\": \"") {
                model = rest.split('"').next().map(Into::into);
            }
            if let Some((_, path)) = line.split_once("export KUBECONFIG=") {
                let (Some(url), Some(model)) = (url, model) else {
                    bail!("`up` did not say where it serves")
                };
                return Ok(Self { child, _stderr: lines, kubeconfig: path.trim().to_owned(), url, model });
            }
        }
        bail!("`up` ended early")
    }

    /// The process id of `up`.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Addresses of the model servers.
    pub(crate) async fn replicas(&self) -> anyhow::Result<Vec<String>> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
        let pods = pods.list(&ListParams::default().labels("kserve.io/component=workload")).await?;
        Ok(pods.into_iter().filter_map(|pod| Some(format!("http://{}:8000", pod.status?.pod_ip?))).collect())
    }

    /// Ends `longboat up` with SIGTERM.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let pid =
            rustix::process::Pid::from_raw(i32::try_from(self.pid())?).context("it has ended already")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        Ok(())
    }
}

/// The resource usage of one process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Its role.
    pub(crate) name: String,
    /// Resident memory in bytes. Shared pages count in full.
    pub(crate) resident: u64,
    /// Proportional memory in bytes: shared pages are divided among their users.
    pub(crate) proportional: u64,
    cpu: Duration,
}

/// A process and all its descendants.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// The processes, the root first.
    pub(crate) processes: Vec<Process>,
}

// === impl Tree ===

impl Tree {
    /// Reads the tree from `/proc`.
    pub(crate) fn of(root: u32) -> anyhow::Result<Self> {
        let mut parents = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if let Some(parent) = stat(pid).and_then(|fields| fields.get(1)?.parse::<u32>().ok()) {
                parents.insert(pid, parent);
            }
        }
        let descends = |mut pid: u32| loop {
            if pid == root {
                return true;
            }
            match parents.get(&pid) {
                Some(parent) if *parent > 1 => pid = *parent,
                _ => return false,
            }
        };
        let processes =
            parents.keys().filter(|pid| descends(**pid)).filter_map(|pid| Process::read(*pid)).collect();
        Ok(Self { processes })
    }

    /// Sum of the resident sizes.
    pub(crate) fn resident(&self) -> u64 {
        self.processes.iter().map(|process| process.resident).sum()
    }

    /// Sum of the proportional sizes.
    pub(crate) fn proportional(&self) -> u64 {
        self.processes.iter().map(|process| process.proportional).sum()
    }

    /// CPU time since an earlier reading, by role.
    pub(crate) fn cpu_since(&self, before: &Self) -> BTreeMap<String, Duration> {
        let sum = |tree: &Self| {
            let mut sums: BTreeMap<String, Duration> = BTreeMap::new();
            for process in &tree.processes {
                *sums.entry(process.name.clone()).or_default() += process.cpu;
            }
            sums
        };
        let earlier = sum(before);
        let spent = |(name, cpu): (String, Duration)| {
            let before = earlier.get(&name).copied().unwrap_or_default();
            (name, cpu.saturating_sub(before))
        };
        sum(self).into_iter().map(spent).filter(|(_, cpu)| !cpu.is_zero()).collect()
    }
}

// === impl Process ===

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let program = words.first()?.rsplit('/').next()?.to_owned();
        let name = if program == "longboat" { format!("longboat {}", words.get(1)?) } else { program };
        let sizes = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let size = |name: &str| {
            let line = sizes.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
        };
        let fields = stat(pid)?;
        // User and system time, in Linux's clock ticks of 10 ms.
        let ticks: u64 = [11, 12].iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum();
        Some(Self {
            name,
            resident: size("Rss:")?,
            proportional: size("Pss:")?,
            cpu: Duration::from_millis(ticks * 10),
        })
    }
}

/// The fields of `/proc/PID/stat` after the command name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split(' ').map(Into::into).collect())
}
