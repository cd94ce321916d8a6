//! The downloaders, each in its own process, and their resource usage.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    ROLE,
    fixture::{FILE, StoreFixture},
};

/// Time between two readings of a process's resource usage.
const PERIOD: Duration = Duration::from_millis(5);
/// Clock ticks per second in the kernel's CPU times.
const TICKS: u64 = 100;

/// A downloader with a source.
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// Whether the downloader continues from a partial download.
    pub(crate) resumes: bool,
    program: Program,
    command: fn(&StoreFixture, &Path, &mut Command),
}

#[derive(Clone, Copy)]
enum Program {
    Longboat,
    Curl,
    /// A program that `scripts/download-tools.sh` installs.
    Tool(&'static str),
}

/// The resource usage of one run.
#[derive(Debug, Clone)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    /// Peak resident memory, in bytes.
    pub(crate) peak: u64,
    pub(crate) requests: usize,
}

/// The downloaders of the large file.
pub(crate) fn clients() -> [Client; 9] {
    [
        client("`curl` from the web", Program::Curl, |world, to, command| {
            command.args(["-sSf", "-C", "-", "-o"]).arg(to.join(FILE)).arg(format!("{}/{FILE}", world.web));
        }),
        client("`longboat fetch` from the web", Program::Longboat, |world, to, command| {
            command.arg(format!("{}/{FILE}", world.web)).arg(to);
        }),
        client("`longboat fetch` from the hub, SHA-256 checked", Program::Longboat, |world, to, command| {
            command.arg("hf://org/large").arg(to).env("HF_ENDPOINT", &world.hub);
        }),
        client("`hf download`, hf_transfer", Program::Tool("hf"), |world, to, command| {
            hf(world, to, command).env("HF_HUB_ENABLE_HF_TRANSFER", "1");
        }),
        client("`hf download`, plain", Program::Tool("hf"), |world, to, command| {
            hf(world, to, command);
        }),
        client(
            "`longboat fetch` from S3, CRC-32 of parts checked",
            Program::Longboat,
            |world, to, command| {
                command.arg("s3://b/m").arg(to);
                s3(&world.store, command);
            },
        ),
        client("`longboat fetch` from S3, MD5 of parts checked", Program::Longboat, |world, to, command| {
            command.arg("s3://b/m").arg(to);
            s3(&world.old_parts, command);
        }),
        client("`longboat fetch` from S3, MD5 checked", Program::Longboat, |world, to, command| {
            command.arg("s3://b/m").arg(to);
            s3(&world.old_store, command);
        }),
        client("boto3", Program::Tool("python3"), |world, to, command| {
            let script = format!(
                "import boto3; boto3.client('s3').download_file('b', 'm/{FILE}', '{}')",
                to.join(FILE).display()
            );
            command.args(["-c", &script]);
            s3(&world.store, command);
        }),
    ]
}

/// The downloaders of many small files.
pub(crate) const MANY: [Client; 2] = [
    client("`curl --parallel` from the web", Program::Curl, |world, to, command| {
        let mut list = String::new();
        for path in world.paths() {
            writeln!(list, "url = {}/{path}\noutput = {}", world.web, to.join(path).display()).unwrap();
        }
        let config = to.with_extension("curl");
        fs::write(&config, list).unwrap();
        command
            .args(["-sSf", "--no-progress-meter", "--create-dirs", "--parallel", "--parallel-max", "8", "-K"])
            .arg(config);
    }),
    Client {
        resumes: true,
        ..client("`longboat fetch` from the hub, SHA-1 checked", Program::Longboat, |world, to, command| {
            command.arg("hf://org/many").arg(to).env("HF_ENDPOINT", &world.hub);
        })
    },
];

const fn client(
    name: &'static str,
    program: Program,
    command: fn(&StoreFixture, &Path, &mut Command),
) -> Client {
    Client { name, resumes: false, program, command }
}

fn hf<'a>(world: &StoreFixture, to: &Path, command: &'a mut Command) -> &'a mut Command {
    command
        .args(["download", "org/large", "--quiet", "--local-dir"])
        .arg(to)
        .env("HF_ENDPOINT", &world.hub)
        .env("HF_HUB_DISABLE_XET", "1")
}

fn s3(store: &str, command: &mut Command) {
    command.envs([
        ("AWS_ENDPOINT_URL", store),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ]);
}

// === impl Program ===

impl Program {
    fn path(self) -> PathBuf {
        // Cargo runs benches in the folder of their package, so relative paths start from the root of the repository.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        match self {
            Self::Longboat => std::env::var_os("LONGBOAT_BINARY")
                .map_or_else(|| std::env::current_exe().unwrap(), |binary| root.join(binary)),
            Self::Curl => "curl".into(),
            Self::Tool(name) => root.join(".cache/downloads/bin").join(name),
        }
    }
}

// === impl Client ===

impl Client {
    /// Whether its program is installed.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self.program, Program::Tool(_)) || self.program.path().exists()
    }

    /// Whether it is `longboat fetch`.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.program, Program::Longboat)
    }

    /// Runs the downloader to its end. With `until`, kills it when the servers have sent that many bytes, and returns `None`.
    pub(crate) fn run(&self, world: &StoreFixture, to: &Path, until: Option<u64>) -> Option<Cost> {
        world.requests();
        let mut command = Command::new(self.program.path());
        if matches!(self.program, Program::Longboat) {
            command.arg(ROLE);
        }
        command
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")])
            .env("HOME", to.parent().unwrap());
        (self.command)(world, to, &mut command);
        let start = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut peak = 0;
        let cpu = loop {
            peak = peak.max(resident(&child).unwrap_or(0));
            if let Some(cpu) = ended(&child) {
                break Some(cpu);
            }
            if until.is_some_and(|until| world.sent() >= until) {
                child.kill().unwrap();
                break None;
            }
            std::thread::sleep(PERIOD);
        };
        let (wall, status) = (start.elapsed(), child.wait().unwrap());
        let cpu = cpu?;
        assert!(status.success(), "{}: {status}", self.name);
        Some(Cost { wall, cpu, peak, requests: world.requests() })
    }
}

/// The peak resident memory of a process, in bytes.
fn resident(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// The CPU time of a process that has ended and is still a zombie. Returns `None` if it has not ended.
fn ended(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // The name is in parentheses, because it may contain spaces.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    (fields[0] == "Z").then(|| Duration::from_millis(ticks * 1000 / TICKS))
}
