//! Real servers, pinned by `scripts/tools.sh`: moto for S3, fake-gcs-server, and the registry of the distribution project. The
//! last two are reached through a proxy that injects faults.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop, and says where it is")]

#[path = "../servers/mod.rs"]
mod servers;

mod gcs;
mod moto;
mod registry;

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use longboat_fetch::{Args, FetchError, Settings, run_with};
use servers::{Effect, Fault};

/// A server in its own process, which ends with the test.
pub(crate) struct Program {
    child: Child,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Program ===

impl Program {
    /// Starts a program from `.cache` or from `PATH` with these arguments. The arguments receive a free port. Returns `None`
    /// with a visible message if the program is missing.
    pub(crate) fn start(
        name: &str,
        folder: &str,
        arguments: impl FnOnce(u16) -> Vec<String>,
    ) -> Option<Self> {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache").join(folder).join(name);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name));
        let program: Option<PathBuf> = std::iter::once(ours).chain(found).find(|program| program.is_file());
        let Some(program) = program else {
            longboat_golden::skipped(&format!("no {name}: scripts/tools.sh fetches it"));
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(arguments(port))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let program = Self { child, address: format!("127.0.0.1:{port}") };
        for _ in 0..600 {
            if TcpStream::connect(&program.address).is_ok() {
                return Some(program);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        unreachable!("{name} does not start");
    }
}

pub(crate) fn fault(server: &str, path: &str, effect: Effect) -> Fault {
    let path = Some(regex::Regex::new(path).unwrap());
    Fault { server: server.into(), method: Some("GET".into()), path, range: None, skip: 0, times: 1, effect }
}

pub(crate) async fn fetch(uri: &str, to: &Path, variables: &[(&str, &str)]) -> Result<(), FetchError> {
    let all = [("LONGBOAT_FETCH_PATIENCE", "30")].iter().chain(variables);
    let settings = Settings::new(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))?;
    let args = Args { pairs: vec![uri.to_owned(), to.display().to_string()], mode: None };
    run_with(args, &settings, None).await
}
