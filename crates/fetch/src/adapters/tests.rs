//! The loader beside an engine that only keeps a list.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

/// What the engine has: models and the paths from which they were loaded.
type Served = Arc<Mutex<Vec<(String, String)>>>;

/// The API key of the engine.
const KEY: &str = "sk-engine";

/// Answers one request as vLLM does. A folder without `adapter_config.json` cannot be loaded.
fn answer(path: &str, fields: &Value, served: &Mutex<Vec<(String, String)>>) -> (u16, Value) {
    let mut served = served.lock();
    let name = fields["lora_name"].as_str().unwrap_or_default().to_owned();
    let known = served.iter().position(|(id, _)| *id == name);
    match (path, known) {
        ("/v1/models", _) => {
            let models = served.iter().map(|(id, root)| json!({"id": id, "root": root}));
            (200, json!({"data": models.collect::<Vec<_>>()}))
        }
        ("/v1/load_lora_adapter", known) => {
            let root = fields["lora_path"].as_str().unwrap().to_owned();
            if !Path::new(&root).join("adapter_config.json").is_file() {
                return (404, json!({"error": {"message": format!("No adapter found for {root}")}}));
            }
            match known {
                Some(at) if fields["load_inplace"] == true => served[at].1 = root,
                Some(_) => return (400, json!({"error": {"message": "has already been loaded"}})),
                None => served.push((name, root)),
            }
            (200, json!("Success"))
        }
        ("/v1/unload_lora_adapter", Some(at)) => {
            served.remove(at);
            (200, json!("Success"))
        }
        _ => (404, json!({"detail": "Not Found"})),
    }
}

async fn engine(listener: TcpListener, served: Served) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let served = served.clone();
        tokio::spawn(async move {
            let mut request = Vec::new();
            let (head, body) = loop {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    return;
                }
                let text = String::from_utf8(request.clone()).unwrap();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .to_lowercase()
                    .split_once("content-length: ")
                    .map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
                if body.len() >= length {
                    break (head.to_owned(), body.to_owned());
                }
            };
            let fields = serde_json::from_str(&body).unwrap_or_default();
            let (status, body) = if head.contains(&format!("authorization: Bearer {KEY}")) {
                answer(head.split(' ').nth(1).unwrap(), &fields, &served)
            } else {
                (401, json!({"error": "Unauthorized"}))
            };
            let body = body.to_string();
            let response = format!(
                "HTTP/1.1 {status} \r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(response.as_bytes()).await.unwrap();
        });
    }
}

struct Scene {
    loader: Loader,
    served: Served,
    folder: tempfile::TempDir,
    /// Whether downloads fail.
    offline: Arc<AtomicBool>,
}

impl Scene {
    /// Starts an engine whose base model is `m`.
    async fn new() -> (Self, JoinHandle<()>) {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let served: Served = Arc::new(Mutex::new(vec![("m".to_owned(), "/mnt/models".to_owned())]));
        let task = tokio::spawn(engine(listener, served.clone()));
        let offline = Arc::new(AtomicBool::new(false));
        let is_offline = offline.clone();
        let root = folder.path().join("adapters");
        std::fs::create_dir(&root).unwrap();
        let loader = Loader {
            list: folder.path().join("adapters.json"),
            engine: Engine::new(address, false, Some(KEY.to_owned())).unwrap(),
            root,
            page: Arc::default(),
            download: Box::new(move |source, folder| {
                let is_offline = is_offline.load(Relaxed);
                tokio::spawn(async move {
                    if is_offline {
                        return Err(FetchError::address(source, "the hub is down"));
                    }
                    std::fs::create_dir_all(&folder).unwrap();
                    let file =
                        if source.rest().ends_with("broken") { "README.md" } else { "adapter_config.json" };
                    std::fs::write(folder.join(file), "{}").unwrap();
                    Ok(())
                })
            }),
            attempts: HashMap::new(),
        };
        (Self { loader, served, folder, offline }, task)
    }

    /// Writes the list: pairs of a name and the end of its address.
    fn list(&self, adapters: &[(&str, &str)]) {
        let listed = adapters.iter().map(|(name, address)| ListedAdapter {
            name: (*name).to_owned(),
            models: vec![(*name).to_owned(), format!("publishers/ns/models/{name}")],
            uri: format!("hf://org/{address}"),
            folder: format!("{name}-{address}"),
        });
        let text = serde_json::to_string(&listed.collect::<Vec<_>>()).unwrap();
        std::fs::write(self.folder.path().join("adapters.json"), text).unwrap();
    }

    /// Makes passes until the reports are these: of each adapter its name, `loaded` or an error. Returns the models of the engine
    /// below the loader's folder.
    async fn until(&mut self, expected: &[(&str, &str)]) -> Vec<String> {
        let mut said = Vec::new();
        for _ in 0..1000 {
            self.loader.pass().await;
            let reports = self.loader.page.reports();
            said = reports
                .iter()
                .map(|report| {
                    let state = report
                        .error
                        .clone()
                        .unwrap_or_else(|| if report.loaded { "loaded" } else { "" }.into());
                    (report.name.clone(), state)
                })
                .collect::<Vec<_>>();
            let matches = |(said, expected): (&(String, String), &(&str, &str))| {
                said.0 == expected.0
                    && said.1.contains(expected.1)
                    && said.1.is_empty() == expected.1.is_empty()
            };
            if said.len() == expected.len() && said.iter().zip(expected).all(matches) {
                // One more pass shows that nothing else happens, and deletes what is no longer used.
                self.loader.pass().await;
                let served = self.served.lock();
                let mut found: Vec<_> = served
                    .iter()
                    .filter_map(|(id, root)| {
                        let folder = Path::new(root).strip_prefix(&self.loader.root).ok()?;
                        Some(format!("{id} {}", folder.display()))
                    })
                    .collect();
                found.sort();
                return found;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{said:?}, not {expected:?}");
    }

    fn folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.loader.root).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn adapters_come_are_replaced_and_go_while_the_engine_runs() {
    let (mut scene, _engine) = Scene::new().await;
    scene.list(&[("a", "v1"), ("b", "v1")]);
    let served = scene.until(&[("a", "loaded"), ("b", "loaded")]).await;
    let both = ["a a-v1", "b b-v1", "publishers/ns/models/a a-v1", "publishers/ns/models/b b-v1"];
    let only_b = [both[1], both[3]];
    assert_eq!(served, both);
    assert!(scene.loader.page.is_ready());
    // Other weights under the same name: the name never leaves the engine.
    scene.list(&[("a", "v2"), ("b", "v1")]);
    let served = scene.until(&[("a", "loaded"), ("b", "loaded")]).await;
    assert_eq!(served, both.map(|entry| entry.replace("a-v1", "a-v2")));
    assert_eq!(scene.folders(), ["a-v2", "b-v1"]);
    scene.list(&[("b", "v1")]);
    assert_eq!(scene.until(&[("b", "loaded")]).await, only_b);
    assert_eq!(scene.folders(), ["b-v1"]);
    // A new engine has no adapters. The files are here, so the source is not needed.
    scene.offline.store(true, Relaxed);
    scene.served.lock().truncate(1);
    assert_eq!(scene.until(&[("b", "loaded")]).await, only_b);
}

#[tokio::test]
async fn a_failure_is_told_in_the_words_of_the_engine_and_concerns_no_other_adapter() {
    let (mut scene, engine) = Scene::new().await;
    scene.list(&[("a", "broken"), ("b", "v1")]);
    let served = scene.until(&[("a", "status 404: No adapter found for"), ("b", "loaded")]).await;
    assert_eq!(served, ["b b-v1", "publishers/ns/models/b b-v1"]);
    assert!(scene.loader.page.is_ready(), "every adapter was tried");
    scene.offline.store(true, Relaxed);
    scene.list(&[("b", "v1"), ("c", "v1")]);
    scene.until(&[("b", "loaded"), ("c", "the hub is down")]).await;
    // What is no list, or leads out of the folder, changes nothing.
    let listed = |folder: &str| {
        format!(r#"[{{"name": "x", "models": ["x"], "uri": "hf://a/b", "folder": "{folder}"}}]"#)
    };
    for text in ["[{".to_owned(), listed("../x"), listed("x/")] {
        std::fs::write(scene.folder.path().join("adapters.json"), text).unwrap();
        scene.until(&[("b", "loaded"), ("c", "the hub is down")]).await;
    }
    // Without its engine, the pod gets no traffic.
    engine.abort();
    let _ = engine.await;
    scene.list(&[("b", "v1")]);
    scene.loader.pass().await;
    assert!(!scene.loader.page.is_ready());
}
