//! The resource usage of a process over time.

use std::fmt;

use crate::{api::text_of, process::Process};

/// Resource usage at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) memory_kib: u64,
    pub(crate) threads: u64,
    pub(crate) files: u64,
    /// Tasks of the Tokio runtime.
    pub(crate) tasks: u64,
}

/// Samples in the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct Curve(Vec<Sample>);

// === impl Sample ===

impl Sample {
    /// Measures a controller whose metrics are at the URL `metrics`. Returns `None` if it does not answer.
    pub(crate) fn take(controller: &Process, metrics: &str) -> Option<Self> {
        let page = text_of(metrics)?;
        let tasks = page.lines().find_map(|line| line.strip_prefix("longboat_runtime_tasks "))?;
        Some(Self {
            memory_kib: controller.status("VmRSS"),
            threads: controller.status("Threads"),
            files: controller.files() as u64,
            tasks: tasks.parse().ok()?,
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory_kib, threads, files, tasks } = self;
        let mib = memory_kib / 1024;
        write!(formatter, "{mib} MiB, {threads} threads, {files} files, {tasks} tasks")
    }
}

// === impl Curve ===

impl Curve {
    pub(crate) fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// The medians of the first, second and last third of the samples.
    pub(crate) fn thirds(&self) -> [Sample; 3] {
        let third = self.0.len() / 3;
        [0, 1, 2].map(|at| {
            let part = &self.0[at * third..(at + 1) * third];
            let median = |of: fn(&Sample) -> u64| {
                let mut all: Vec<u64> = part.iter().map(of).collect();
                all.sort_unstable();
                all.get(all.len() / 2).copied().unwrap_or_default()
            };
            Sample {
                memory_kib: median(|sample| sample.memory_kib),
                threads: median(|sample| sample.threads),
                files: median(|sample| sample.files),
                tasks: median(|sample| sample.tasks),
            }
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
