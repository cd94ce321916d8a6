//! A controller in its own process, which a test starts and ends.

use std::{
    path::Path,
    process::{Command, ExitStatus},
};

use crate::{api::status_of, binary::longboat, program::Running, server::free_ports, wait::until};

/// A controller in its own process, with the rights of one service account.
pub(crate) struct Replica {
    running: Running,
    pub(crate) probes: u16,
    pub(crate) metrics: u16,
}

// === impl Replica ===

impl Replica {
    pub(crate) fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        let [webhooks, probes, metrics] = free_ports();
        let mut command = Command::new(longboat());
        command
            .args(["controller", "--system-namespace=kserve", "--webhook-host=127.0.0.1"])
            .arg(format!("--webhook-port={webhooks}"))
            .arg(format!("--health-probe-addr=127.0.0.1:{probes}"))
            .arg(format!("--metrics-addr=127.0.0.1:{metrics}"))
            .args(flags)
            .env("KUBECONFIG", kubeconfig);
        Self { running: Running::start(&mut command), probes, metrics }
    }

    pub(crate) fn ready(&mut self) {
        until("the controller is ready", || {
            assert!(!self.running.has_ended(), "{}", self.log());
            status_of(&format!("http://127.0.0.1:{}/readyz", self.probes)).filter(|status| *status == 200)
        });
    }

    pub(crate) fn log(&self) -> String {
        format!("{}{}", self.running.stdout(), self.running.stderr())
    }

    pub(crate) fn assert_running(&mut self) {
        assert!(!self.running.has_ended(), "{}", self.log());
    }

    pub(crate) fn leads(&self) -> bool {
        self.log().contains("Acquired the lease; this replica is the leader.")
    }

    /// Sends a signal and waits for the end of the process.
    pub(crate) fn end(self, signal: &str) -> ExitStatus {
        let pid = self.running.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.running.end().status
    }
}
