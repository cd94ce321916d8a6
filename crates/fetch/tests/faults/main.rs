//! Faults that recordings cannot show: killed processes, full volumes, changing files, and caches.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../servers/mod.rs"]
mod servers;

mod caches;
mod environment;
mod hostile;
mod killed;
mod listings;
mod stores;
mod volumes;

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use longboat_fetch::{Args, FetchError, Settings, run_with};
use servers::{
    Answer, Effect, Fault, Request, Servers,
    contents::{recipe, sha256, tar},
    hub::{File, Hub, Repository},
    registry::Registry,
};

// The same allocator as in the binary, because the tests measure memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A hub with one model, and its CDN.
pub(crate) struct HubFixture {
    pub(crate) servers: Arc<Servers>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) endpoint: String,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

// === impl HubFixture ===

impl HubFixture {
    /// Creates a hub with the model `org/m`: a small file, and a large file with this content.
    pub(crate) async fn with_model(large: Vec<u8>) -> Self {
        let file =
            |path: &str, content: Vec<u8>, lfs| File { path: path.into(), content: Arc::new(content), lfs };
        Self::with_files(vec![
            file("config.json", b"{}\n".to_vec(), false),
            file("sub/w.safetensors", large, true),
        ])
        .await
    }

    /// Creates a hub with the model `org/m`, which has these files.
    pub(crate) async fn with_files(files: Vec<File>) -> Self {
        longboat_tls::install_default_provider();
        let (servers, hub) = (Arc::new(Servers::default()), Arc::new(Hub::default()));
        let repository = Repository {
            refs: [("main".into(), COMMIT.into())].into(),
            commits: [(COMMIT.into(), files)].into(),
            blobs: true,
            ..Repository::default()
        };
        hub.repositories.lock().insert("org/m".into(), repository);
        let answering = hub.clone();
        let endpoint = servers.serve("hub", Arc::new(move |request| answering.answer(request))).await;
        let sending = hub.clone();
        let cdn = servers.serve("cdn", Arc::new(move |request| sending.large(request))).await;
        *hub.cdn.lock() = format!("http://{cdn}");
        Self { servers, hub, endpoint: format!("http://{endpoint}"), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn fault(&self, server: &str, times: u64, effect: Effect) {
        self.servers.faults.lock().push(fault(server, times, effect));
    }

    /// Returns the variables for fetches from this hub.
    pub(crate) fn variables(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let home = self.folder.path().display().to_string();
        let mut variables = vec![
            ("HOME", home.as_str()),
            ("HF_ENDPOINT", &self.endpoint),
            ("HF_TOKEN", "hf_s3cr3t"),
            ("LONGBOAT_FETCH_PATIENCE", "20"),
        ];
        variables.extend(more);
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Fetches the model into a folder of this name.
    pub(crate) async fn fetch(&self, to: &str, more: &[(&str, &str)]) -> Result<(), FetchError> {
        let to = self.folder.path().join(to).display().to_string();
        fetch(&["hf://org/m".into(), to], self.variables(more)).await
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(path)).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.servers.log.lock())
    }
}

pub(crate) fn fault(server: &str, times: u64, effect: Effect) -> Fault {
    Fault {
        server: server.into(),
        method: Some("GET".into()),
        path: None,
        range: None,
        skip: 0,
        times,
        effect,
    }
}

pub(crate) async fn fetch(pairs: &[String], variables: Vec<(String, String)>) -> Result<(), FetchError> {
    let args = Args { pairs: pairs.to_vec(), mode: None };
    run_with(args, &Settings::new(variables)?, None).await
}

/// Not a test: the code of the child process.
#[test]
fn child() {
    let Ok(pairs) = std::env::var("FETCH_CHILD") else { return };
    longboat_tls::install_default_provider();
    let args = Args { pairs: pairs.split(' ').map(str::to_owned).collect(), mode: None };
    let runtime = longboat_fetch::runtime().unwrap();
    let settings = Settings::from_environment().unwrap();
    let result = runtime.block_on(run_with(args, &settings, None));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
    if let Err(error) = result {
        println!("failed: {error}");
        std::process::exit(1);
    }
}

/// Creates a process that fetches. `before` is a shell script that runs before it, in a mount namespace of its own.
pub(crate) fn process(pairs: &[String], variables: Vec<(String, String)>, before: Option<&str>) -> Command {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    let mut command = match before {
        None => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        Some(before) => {
            let mut command = Command::new("unshare");
            let script = format!("{before} && exec {} {}", program.display(), arguments.join(" "));
            command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", &script]);
            command
        }
    };
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(variables)
        .env("FETCH_CHILD", pairs.join(" "));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Whether the folder contains any file of the model under its final name.
pub(crate) fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| entry.unwrap().file_name() != ".longboat")
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_come_in_parts_and_a_complete_folder_costs_one_request() {
    let large = recipe("large", 100 << 20);
    let world = HubFixture::with_model(large.clone()).await;
    // Some parts break off, and one request fails.
    world.fault("cdn", 2, Effect { reset_after: Some(3 << 20), ..Effect::default() });
    world.fault("cdn", 1, Effect { status: Some(503), ..Effect::default() });
    world.fetch("m", &[]).await.unwrap();
    assert!(world.read("m/sub/w.safetensors") == large && world.read("m/config.json") == b"{}\n");
    let requests = world.requests();
    let of = |server: &str| requests.iter().filter(|request| request.server == server).collect::<Vec<_>>();
    assert!(of("cdn").iter().all(|request| request.header("authorization").is_none()));
    assert!(of("hub").iter().all(|request| request.header("authorization") == Some("Bearer hf_s3cr3t")));
    assert!(of("cdn").iter().filter(|request| request.header("range").is_some()).count() >= 4);
    assert!(of("hub").iter().all(|request| request.method == "GET"), "the list said everything");
    let sent = world.servers.sent.load(Relaxed);

    world.fetch("m", &[]).await.unwrap();
    assert_eq!(world.requests().len(), 1);
    assert_eq!(world.servers.sent.load(Relaxed) - sent, requests_of_the_list(&world));

    // Files of another downloader are verified and not fetched.
    std::fs::remove_dir_all(world.folder.path().join("m/.longboat")).unwrap();
    world.fetch("m", &[]).await.unwrap();
    assert_eq!(world.requests().len(), 1);
}

fn requests_of_the_list(world: &HubFixture) -> u64 {
    let request =
        Request { target: "/api/models/org/m/revision/main?blobs=true".into(), ..Request::default() };
    world.hub.answer(&request).body.len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_on_the_way_is_fetched_anew() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let (old, new) = (recipe("old", 5 << 20), recipe("new", 6 << 20));
    let contents = [Arc::new(old), Arc::new(new.clone())];
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let answer = move |_: &Request| {
        let turn = asked.fetch_add(1, Relaxed).min(1);
        Answer::file(&contents[turn]).with("ETag", format!("\"{turn}\""))
    };
    let address = servers.serve("web", Arc::new(answer)).await;
    servers.faults.lock().push(fault("web", 1, Effect { close_after: Some(3 << 20), ..Effect::default() }));
    let dir = tempfile::tempdir().unwrap();
    let pairs = [format!("http://{address}/w.bin"), dir.path().display().to_string()];
    fetch(&pairs, vec![]).await.unwrap();
    assert!(std::fs::read(dir.path().join("w.bin")).unwrap() == new);
    let resumed = servers.log.lock().iter().filter(|request| request.header("if-range").is_some()).count();
    assert_eq!(resumed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_compressed_without_being_asked_for_is_refused() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let content = Arc::new(b"packed".to_vec());
    let answer = move |_: &Request| Answer::file(&content).with("Content-Encoding", "gzip");
    let address = servers.serve("web", Arc::new(answer)).await;
    let dir = tempfile::tempdir().unwrap();
    let pairs = [format!("http://{address}/w.bin"), dir.path().display().to_string()];
    let error = fetch(&pairs, vec![]).await.unwrap_err().to_string();
    assert!(error.contains("compresses the file"), "{error}");
    assert!(!has_files(dir.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_select_members_and_unchanged_members_need_no_network() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let content = Arc::new(tar(&[("config.json", 0o644, b"{}\n".to_vec()), ("w.bin", 0o644, vec![7; 5])]));
    let address = servers.serve("web", Arc::new(move |_: &Request| Answer::file(&content))).await;
    let dir = tempfile::tempdir().unwrap();
    let pairs = [format!("http://{address}/m.tar"), dir.path().display().to_string()];
    let patterns = ("STORAGE_ALLOW_PATTERNS".to_owned(), "*.json".to_owned());
    fetch(&pairs, vec![patterns.clone()]).await.unwrap();
    assert!(dir.path().join("config.json").exists() && !dir.path().join("w.bin").exists());
    let settings = Settings::new(vec![patterns]).unwrap().offline();
    let offline = || run_with(Args { pairs: pairs.to_vec(), mode: None }, &settings, None);
    offline().await.unwrap();
    std::fs::write(dir.path().join("config.json"), "{ }\n\n").unwrap();
    let error = offline().await.unwrap_err().to_string();
    assert!(error.contains(&pairs[0]), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_in_zstandard_are_unpacked() {
    longboat_tls::install_default_provider();
    let archive =
        tar(&[("models/config.json", 0o644, b"{}\n".to_vec()), ("models/d/w", 0o600, vec![7; 5000])]);
    // Two concatenated frames are one stream.
    let frames = |bytes: &[u8]| {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Uncompressed)
    };
    let layer = [frames(&archive[..1000]), frames(&archive[1000..])].concat();
    let manifest = serde_json::json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json"},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", "size": layer.len(),
            "digest": format!("sha256:{}", sha256(&layer))}],
    });
    let registry = Registry {
        repository: "o/m".into(),
        bytes: [("1".into(), manifest.to_string().into_bytes())].into(),
        blobs: [(format!("sha256:{}", sha256(&layer)), Arc::new(layer))].into(),
        ..Registry::default()
    };
    let servers = Arc::new(Servers::default());
    let address = servers.serve("reg", Arc::new(move |request| registry.answer(request))).await;
    let dir = tempfile::tempdir().unwrap();
    let pairs = [format!("oci://{address}/o/m:1"), dir.path().display().to_string()];
    let insecure = vec![("KSERVE_OCI_INSECURE_REGISTRY".to_owned(), "true".to_owned())];
    for requests in [2, 1] {
        fetch(&pairs, insecure.clone()).await.unwrap();
        assert_eq!(std::fs::read(dir.path().join("d/w")).unwrap(), vec![7; 5000]);
        assert_eq!(std::mem::take(&mut *servers.log.lock()).len(), requests);
    }
}

#[tokio::test]
async fn pairs_are_needed_and_mounted_models_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("m").display().to_string();
    for pairs in [vec![], vec!["hf://a/b".to_owned()]] {
        assert!(matches!(fetch(&pairs, vec![]).await, Err(FetchError::Usage)));
    }
    fetch(&["/mnt/models/not/there".into(), folder.clone()], vec![]).await.unwrap();
    assert!(matches!(
        fetch(&["pvc://claim/m".into(), folder], vec![]).await,
        Err(FetchError::UnknownScheme { .. })
    ));
}
