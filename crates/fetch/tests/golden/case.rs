//! A recording of the reference, and the servers that it describes.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use longboat_golden::Entry;
use longboat_tls::{CertificateAuthority, LeafRequest};
use regex::Regex;
use serde_json::Value;

use crate::servers::{
    Effect, Fault, Servers,
    contents::{described, sha256, tar},
    hub::{File, Hub, Repository},
    registry::Registry,
    store::Store,
    web::{Page, Web},
};

/// A recording that is being replayed.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: Value,
    pub(crate) root: tempfile::TempDir,
    pub(crate) servers: Arc<Servers>,
    pub(crate) hub: Arc<Hub>,
    places: Vec<(String, String)>,
}

// === impl Case ===

impl Case {
    /// Reads a recording and starts its servers.
    pub(crate) async fn start(file: &Entry) -> Self {
        let text = longboat_golden::documents(file).remove(0);
        let name = file.stem().to_owned();
        let servers = Arc::new(Servers::default());
        let root = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::new("tests").unwrap();
        let leaf = LeafRequest {
            common_name: "127.0.0.1".into(),
            ips: vec!["127.0.0.1".parse().unwrap()],
            days: 1,
            ..LeafRequest::default()
        };
        let pair = authority.issue(&leaf).unwrap();
        let acceptor = || tokio_rustls::TlsAcceptor::from(longboat_tls::server_config(&pair, &[]).unwrap());
        let certificate = root.path().join("ca.crt");
        std::fs::write(&certificate, authority.pem()).unwrap();

        let server = &text["server"];
        let hub = Arc::new(hub(server));
        let store = Arc::new(store(server));
        let mut places = vec![("CA_CERT".to_owned(), certificate.display().to_string())];
        let mut place = |name: &str, address: std::net::SocketAddr, scheme: &str| {
            places.push((format!("{name}_HOST"), address.to_string()));
            places.push((name.to_owned(), format!("{scheme}://{address}")));
        };
        let answer = {
            let hub = hub.clone();
            Arc::new(move |request: &_| hub.answer(request))
        };
        place("HUB", servers.serve("hub", answer.clone()).await, "http");
        place("HUB_TLS", servers.serve_tls("hub", answer, acceptor()).await, "https");
        let large = {
            let hub = hub.clone();
            Arc::new(move |request: &_| hub.large(request))
        };
        let cdn = servers.serve("cdn", large).await;
        *hub.cdn.lock() = format!("http://{cdn}");
        place("CDN", cdn, "http");
        let s3 = {
            let store = store.clone();
            Arc::new(move |request: &_| store.s3(request))
        };
        place("S3", servers.serve("s3", s3.clone()).await, "http");
        place("S3_TLS", servers.serve_tls("s3", s3, acceptor()).await, "https");
        let gcs = Arc::new(move |request: &_| store.gcs(request));
        place("GCS", servers.serve("gcs", gcs).await, "http");
        let web = Arc::new(web(server, &places_of_web2(&servers, server).await, &mut places));
        let answer = Arc::new(move |request: &_| web.answer(request));
        let mut place = |name: &str, address: std::net::SocketAddr, scheme: &str| {
            places.push((format!("{name}_HOST"), address.to_string()));
            places.push((name.to_owned(), format!("{scheme}://{address}")));
        };
        place("WEB", servers.serve("web", answer.clone()).await, "http");
        place("WEB_TLS", servers.serve_tls("web", answer, acceptor()).await, "https");
        let (registry, renamed) = registry(server);
        let registry = Arc::new(registry);
        let answer = {
            let registry = registry.clone();
            Arc::new(move |request: &_| registry.answer(request))
        };
        places.extend(renamed.iter().filter(|(from, _)| from.starts_with("sha256:")).cloned());
        let address = servers.serve("reg", answer).await;
        *registry.address.lock() = address.to_string();
        places.push(("REG".into(), address.to_string()));
        *servers.faults.lock() = faults(&text, &renamed);
        let case = Self { name, text, root, servers, hub, places };
        std::fs::create_dir_all(case.local("/mnt/models")).unwrap();
        std::fs::create_dir_all(case.local("/home/kserve")).unwrap();
        case
    }

    /// Translates a path of the recording to a path of this run.
    pub(crate) fn local(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Replaces the addresses and paths of the recording by those of this run.
    pub(crate) fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.places {
            // Blobs that had to be created again have other digests, which are replaced too.
            let pattern = if name.starts_with("sha256:") { name.clone() } else { format!("${{{name}}}") };
            text = text.replace(&pattern, value);
        }
        let root = self.root.path().display();
        // `/mnt/models` has a special meaning in this text, so it is not translated.
        if text == "/mnt/models/none" { text } else { text.replace("/mnt/", &format!("{root}/mnt/")) }
    }

    /// The arguments of the entry point.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let arguments = self.text["command"].as_array().unwrap().iter();
        arguments.map(|argument| self.filled(argument.as_str().unwrap())).collect()
    }

    /// The environment of a run.
    pub(crate) fn environment(&self, run: usize) -> BTreeMap<String, String> {
        let mut variables: BTreeMap<String, String> = [
            ("HOME", self.local("/home/kserve").display().to_string()),
            ("NO_GCE_CHECK", "true".into()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
            ("LONGBOAT_FETCH_PATIENCE", "4".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let second = if run > 0 { &self.text["env_second_run"] } else { &Value::Null };
        for set in [&self.text["env"], second] {
            for (name, value) in set.as_object().into_iter().flatten() {
                variables.insert(name.clone(), self.filled(value.as_str().unwrap()));
            }
        }
        variables
    }

    /// Returns the observed results, run by run.
    pub(crate) fn runs(&self) -> Vec<Value> {
        match &self.text["observed"] {
            Value::Array(runs) => runs.clone(),
            run => vec![run.clone()],
        }
    }

    /// Runs a step of the recording in a shell.
    pub(crate) fn shell(&self, script: &str) {
        let script = self.filled(script).replace("/mnt;", "mnt;");
        let script: Vec<&str> = script
            .split(';')
            .map(str::trim)
            .filter(|step| !step.starts_with("chown") && !step.starts_with("chmod 777"))
            .map(|step| step.split(" && chown").next().unwrap())
            .collect();
        let done = std::process::Command::new("sh")
            .args(["-euc", &script.join("; ")])
            .current_dir(self.root.path())
            .status()
            .unwrap();
        assert!(done.success(), "{}: {script:?}", self.name);
    }

    /// Returns the contents of the servers, by path.
    pub(crate) fn served(&self) -> BTreeMap<String, String> {
        let mut served = BTreeMap::new();
        for repository in self.hub.repositories.lock().values() {
            for file in repository.commits.values().flatten() {
                served.entry(file.path.clone()).or_insert_with(|| sha256(&file.content));
            }
        }
        served
    }
}

async fn places_of_web2(servers: &Arc<Servers>, server: &Value) -> String {
    let pages = web(server, "", &mut vec![]);
    let address = servers.serve("web2", Arc::new(move |request: &_| pages.answer(request))).await;
    format!("http://{address}")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn hub(server: &Value) -> Hub {
    let hub = Hub::default();
    for entry in list(&server["hub"]) {
        let mut repository = Repository {
            private: entry["private"].as_str().map(str::to_owned),
            gated: entry["gated"].as_str().map(str::to_owned),
            moved_to: entry["moved_to"].as_str().map(str::to_owned),
            no_etag: entry["noetag"] == true,
            no_commit: entry["nocommit"] == true,
            relative_redirect: entry["cache_redirect"] == true,
            xet: entry["xet"].is_string(),
            ..Repository::default()
        };
        for (name, commit) in entry["refs"].as_object().into_iter().flatten() {
            repository.refs.insert(name.clone(), text(commit));
        }
        for (commit, files) in entry["commits"].as_object().into_iter().flatten() {
            let files = list(files).map(|file| File {
                path: text(&file["path"]),
                content: described(file).unwrap(),
                lfs: file["lfs"] == true,
            });
            repository.commits.insert(commit.clone(), files.collect());
        }
        hub.repositories.lock().insert(text(&entry["repo"]), repository);
    }
    hub
}

fn store(server: &Value) -> Store {
    let options = &server["options"];
    let mut store = Store {
        page: usize::try_from(options["s3_page"].as_u64().or(options["gcs_page"].as_u64()).unwrap_or(0))
            .unwrap(),
        key: options["s3_private"].as_str().map(str::to_owned),
        crc: options["s3_crc"].as_str().map(str::to_owned),
        private: options["gcs_private"] == true,
        ..Store::default()
    };
    for bucket in list(&server["s3"]).chain(list(&server["gcs"])) {
        let objects =
            list(&bucket["objects"]).map(|object| (text(&object["path"]), described(object).unwrap()));
        store.buckets.insert(text(&bucket["bucket"]), objects.collect());
    }
    store
}

fn web(server: &Value, web2: &str, places: &mut Vec<(String, String)>) -> Web {
    places.push(("WEB2".into(), web2.to_owned()));
    let mut web = Web::default();
    for page in list(&server["web"]) {
        let content = match page["redirect"].as_str() {
            Some(to) => Page::Redirect(to.replace("${WEB2}", web2)),
            None => Page::File {
                content: described(page)
                    .unwrap_or_else(|| Arc::new(tar(&[("a.txt", 0o644, b"a\n".to_vec())]))),
                kind: text(&page["content_type"]),
            },
        };
        web.0.insert(text(&page["path"]), content);
    }
    web
}

/// Creates the registry. Blobs that were recorded without their content are created from the files that were extracted from
/// them. Returns the new digests with the recorded ones.
fn registry(server: &Value) -> (Registry, Vec<(String, String)>) {
    let mut registry =
        Registry { auth: server["options"]["reg_auth"].as_str().map(str::to_owned), ..Registry::default() };
    let mut renamed = Vec::new();
    for repository in list(&server["registry"]) {
        registry.repository = text(&repository["repo"]);
        for blob in list(&repository["blobs"]) {
            let digest = text(&blob["digest"]);
            let content = described(blob).unwrap_or_else(|| {
                let is_kit = repository.to_string().contains("kitops");
                let layer = if is_kit {
                    tar(&[("config.json", 0o644, b"{}\n".to_vec()), ("w.bin", 0o644, b"w".to_vec())])
                } else {
                    layer()
                };
                renamed.push((digest.clone(), format!("sha256:{}", sha256(&layer))));
                renamed.push((format!("\"size\":{}", blob["size"]), format!("\"size\":{}", layer.len())));
                Arc::new(layer)
            });
            registry.blobs.insert(format!("sha256:{}", sha256(&content)), content);
        }
        let manifests = repository["manifests"].as_object().unwrap();
        // Images come first, because an index refers to them by digest.
        let mut bytes: Vec<(String, Value)> = manifests.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        bytes.sort_by_key(|(_, manifest)| manifest.get("manifests").is_some());
        for (reference, manifest) in bytes {
            let mut content = manifest.to_string();
            for (from, to) in &renamed {
                content = content.replace(from, to);
            }
            let digest = format!("sha256:{}", sha256(content.as_bytes()));
            if reference.starts_with("sha256:") && reference != digest {
                renamed.push((reference.clone(), digest.clone()));
            }
            registry.bytes.insert(digest, content.clone().into_bytes());
            registry.bytes.insert(reference, content.into_bytes());
        }
    }
    (registry, renamed)
}

/// A layer with the files that the reference extracted from the recorded layer.
fn layer() -> Vec<u8> {
    let usual = [
        ("models/config.json", 0o644, b"{}\n".to_vec()),
        ("models/w.bin", 0o644, crate::servers::contents::recipe("w1", 100_000)),
        ("models/sub/x", 0o600, b"x\n".to_vec()),
    ];
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &tar(&usual)).unwrap();
    packed.finish().unwrap()
}

fn faults(case: &Value, renamed: &[(String, String)]) -> Vec<Fault> {
    let number = |value: &Value| value.as_u64().map(|number| usize::try_from(number).unwrap());
    list(&case["faults"])
        .map(|fault| {
            let pattern = |name: &str| {
                fault[name].as_str().map(|pattern| {
                    let mut pattern = pattern.to_owned();
                    for (from, to) in renamed {
                        pattern = pattern.replace(from, to);
                    }
                    Regex::new(&pattern).unwrap()
                })
            };
            let what = &fault["do"];
            let path = pattern("path").map(|path| {
                // A fault of an object must not match the listing, whose query also contains the object's name.
                let is_object = fault["srv"] == "s3" && !path.as_str().contains("prefix");
                if is_object { Regex::new(&format!("^[^?]*{path}")).unwrap() } else { path }
            });
            let headers = what["headers"].as_object().into_iter().flatten();
            Fault {
                server: text(&fault["srv"]),
                method: fault["method"].as_str().map(str::to_owned),
                path,
                range: pattern("range"),
                skip: fault["skip"].as_u64().unwrap_or(0),
                times: fault["times"].as_u64().unwrap_or(u64::MAX),
                effect: Effect {
                    status: what["status"].as_u64().map(|status| u16::try_from(status).unwrap()),
                    headers: headers.map(|(name, value)| (name.clone(), text(value))).collect(),
                    body: text(&what["body"]),
                    drop: what["drop"] == true,
                    reset_after: number(&what["reset_after"]),
                    close_after: number(&what["close_after"]),
                    stall_after: number(&what["stall_after"]),
                    stall_seconds: what["seconds"].as_u64().unwrap_or(60),
                    corrupt: number(&what["corrupt"]),
                    throttle: number(&what["throttle"]),
                    ignore_range: what["ignore_range"] == true,
                    no_length: what["no_length"] == true,
                },
            }
        })
        .collect()
}
